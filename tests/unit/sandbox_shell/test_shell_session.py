"""The shell is one bash that lasts, and no command can hang it past the timeout or put it out of step."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from components.contracts.errors import SandboxError
from components.sandbox.shell import ShellSession

from .conftest import Open


def test_state_lasts_between_commands(shell: ShellSession) -> None:
    shell.run("x=5; mkdir -p d && cd d; f() { echo f$x; }; declare -A m=([k]=v); export E=e")
    result = shell.run('f; pwd; echo "${m[k]}"; printenv E')
    assert result.output == "f5\n/home/user/d\nv\ne\n"
    assert result.exit_code == 0


def test_output_and_errors_come_in_order(shell: ShellSession) -> None:
    assert shell.run("echo a; echo b >&2; echo c; ls nope; echo d").output == (
        "a\nb\nc\nls: cannot access 'nope': No such file or directory\nd\n"
    )


def test_exit_code_is_the_commands_and_the_next_command_sees_it(shell: ShellSession) -> None:
    assert shell.run("(exit 7)").exit_code == 7
    assert shell.run("echo $?").output == "7\n"
    assert shell.run("echo $?").output == "0\n"


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("echo 'open", 2, "bash: eval: line 1: unexpected EOF while looking for matching `''\n"),
        ("if", 2, "bash: eval: line 2: syntax error: unexpected end of file\n"),
        (")", 2, "bash: eval: line 1: syntax error near unexpected token `)'\nbash: eval: line 1: `)'\n"),
        ("cat <<END\n$HOME 'x\" $(echo y)\nEND", 0, "/home/user 'x\" y\n"),
        ("cat <<'END'\nno end", 0, None),
        ("break; continue; return; echo on", 0, None),
        ("x=$((1/0)); echo no", 1, 'bash: line 1: 1/0: division by 0 (error token is "0")\n'),
        ("true\n\nnosuch", 127, "bash: line 3: nosuch: command not found\n"),
        ("cat; read x; echo \"$?<$x>\"", 0, "1<>\n"),
        ("exec > file; echo hidden", 0, ""),
        ("exec >&- 2>&-; echo hidden", 1, None),
        ("exec 0<&-; exec 3<file; echo ok", None, None),
        ("", 0, ""),
        ("# only a comment", 0, ""),
        ("printf 'no newline'", 0, "no newline"),
        ("printf '\\377\\n'", 0, "\ufffd\n"),
        ("echo ünï→🙂", 0, "ünï→🙂\n"),
        ("echo '\ud800'", 0, "?\n"),
        ("a\0b", 2, "bash: the command contains a NUL character\n"),
        ("set -x; set -v; set -f", 0, None),
        ("shopt -s expand_aliases; alias eval=false read=false printf=false builtin=false", 0, ""),
        ("IFS=x; PS4=y; LINENO=9; OPTIND=3; PWD=/nowhere; unset HOME PATH", 0, ""),
        ("trap 'echo bye' EXIT; trap '' TERM INT HUP; trap 'true' DEBUG ERR", 0, ""),
        ("for f in /proc/$$/fd/*; do echo 'junk' > $f; done 2>/dev/null", None, None),
        ("sleep 1000 & disown; (sleep 1000 &); echo $((1+1))", 0, "2\n"),
    ],
)  # fmt: skip
def test_any_command_leaves_the_shell_in_step(
    shell: ShellSession, command: str, code: int | None, text: str | None
) -> None:
    result = shell.run(command, timeout=10)
    assert not result.timed_out
    if code is not None:
        assert result.exit_code == code
    if text is not None:
        assert result.output == text
    after = shell.run("\\echo still $((40 + 2)); (\\exit 9)", timeout=10)
    assert "still 42\n" in after.output
    assert (after.exit_code, after.timed_out) == (9, False)


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 3", 3), ("exec sh -c 'exit 4'", 4), ("set -e; false; echo no", 1), ("set -u; echo $nope; echo no", 1),
     ("exec nosuch", 127), ("echo ${nope:?gone}; echo no", 1), ("sleep 1000 & exit 5", 5)],
)  # fmt: skip
def test_shell_that_ends_is_answered_and_replaced_in_the_same_directory(
    shell: ShellSession, command: str, code: int
) -> None:
    shell.run("mkdir 'a b' && cd 'a b' && x=1")
    result = shell.run(command, timeout=10)
    assert (result.exit_code, result.timed_out) == (code, False)
    assert f"[the shell ended with exit code {code}; a new one was started in /home/user/a b]\n" in result.output
    assert "no\n" not in result.output
    assert shell.run('pwd; echo "<$x>"').output == "/home/user/a b\n<>\n"


@pytest.mark.parametrize(
    "command",
    [
        "sleep 1000", "while :; do :; done", "trap '' TERM INT HUP; while :; do sleep 1; done", "kill -STOP $$",
        "mkfifo p; cat p", "builtin() { :; }; read() { :; }; sleep 1000", "yes", "exec sleep 1000",
        "for f in /proc/$$/fd/*; do eval \"exec ${f##*/}>&-\"; done; sleep 1000",
    ],
)  # fmt: skip
def test_timeout_is_kept_and_told_and_the_directory_stays(shell: ShellSession, command: str) -> None:
    shell.run("mkdir d; cd d; x=1")
    result = shell.run(command, timeout=0.5)
    assert (result.exit_code, result.timed_out) == (124, True)
    assert result.output.endswith("[timed out after 0.5 s and was killed; the shell was restarted in /home/user/d]\n")
    assert shell.run('pwd; echo "<$x>"', timeout=10).output == "/home/user/d\n<>\n"


@pytest.mark.parametrize("command", ["builtin() { :; }", "set -n", "unset -f __report __status_is", "readonly __token"])
def test_broken_framing_costs_at_most_one_timeout(shell: ShellSession, command: str) -> None:
    shell.run(command, timeout=0.5)
    shell.run("echo lost", timeout=0.5)
    shell.restart()
    assert shell.run("echo back").output == "back\n"


def test_printing_what_a_report_looks_like_is_only_output(shell: ShellSession) -> None:
    shell.run('echo "$__token 0 /"')
    result = shell.run('set | grep -a ^__ ; echo "$__token 0 /"; for n in 1 2 200 201 202; do '
                       "printf '%s 0 /\\0' \"$__token\" >&$n; done 2>/dev/null; false")  # fmt: skip
    assert result.exit_code == 1
    assert shell.run("pwd").output == "/home/user\n"


def test_flood_is_read_to_its_end_and_cut_in_the_middle(open_session: Open) -> None:
    shell = open_session(output_chars=100)
    result = shell.run("echo first; seq 1000000; echo last")
    assert result.exit_code == 0 and result.truncated
    assert result.output.startswith("first\n1\n2\n") and result.output.endswith("\n1000000\nlast\n")
    assert "characters cut ...]" in result.output
    assert len(result.output) < 150


def test_background_job_that_floods_blocks_nobody(open_session: Open) -> None:
    shell = open_session(output_chars=1000)
    shell.run("yes &")
    result = shell.run("kill %1; echo done", timeout=10)
    assert not result.timed_out
    assert shell.run("wait; echo quiet", timeout=10).output.endswith("quiet\n")


def test_long_command_arrives_whole(shell: ShellSession) -> None:
    text = "".join(chr(33 + i % 90) for i in range(300_000)).replace("'", "")
    result = shell.run(f"x='{text}'; echo ${{#x}}; printf %s \"$x\" | md5sum", timeout=30)
    assert result.output.split() == [str(len(text)), hashlib.md5(text.encode()).hexdigest(), "-"]


def test_restart_is_a_fresh_shell_at_home(shell: ShellSession) -> None:
    shell.run("cd /tmp; x=1; touch /tmp/t ~/kept")
    shell.restart()
    assert shell.run('pwd; echo "<$x>"; ls /tmp ~').output == "/home/user\n<>\n/home/user:\nkept\n\n/tmp:\n"


def test_directory_that_vanished_does_not_stop_the_shell(shell: ShellSession) -> None:
    shell.run("mkdir d; cd d; rmdir ../d")
    shell.run("exit 1")
    assert shell.run("pwd").output == "/home/user\n"


def test_shell_killed_between_commands_is_replaced_and_told(shell: ShellSession) -> None:
    shell.run("(while kill -9 $$; do :; done) & sleep 10", timeout=10)
    assert shell.run("echo again", timeout=10).output.startswith("again\n")


def test_session_started_in_a_thread_outlives_it(shell: ShellSession) -> None:
    worker = threading.Thread(target=lambda: shell.run("x=kept"))
    worker.start()
    worker.join()
    assert shell.run("echo $x").output == "kept\n"


def test_files_made_by_the_host_are_the_guests_to_change(shell: ShellSession, home: Path) -> None:
    shell.run("true")
    (home / "dir").mkdir()
    (home / "dir" / "new.txt").write_text("a")
    (home / "dir" / "new.txt").chmod(0o600)
    assert shell.run("echo b >> dir/new.txt; cat dir/new.txt; stat -c '%A %U %G %s' dir/new.txt").output == (
        "ab\n-rw------- user user 3\n"
    )
    assert (home / "dir" / "new.txt").read_text() == "ab\n"


def test_closed_session_refuses(shell: ShellSession) -> None:
    shell.run("true")
    shell.close()
    shell.close()
    with pytest.raises(SandboxError, match="closed"):
        shell.run("true")


def test_home_that_is_missing_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="does not exist"):
        ShellSession(tmp_path / "nowhere", confinement="none", unconfined=True)
