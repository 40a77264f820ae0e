"""The terminal of a real desktop: one shell, in the sandbox that the screen shows."""

from __future__ import annotations

import pytest

from .conftest import Person, wait_for


@pytest.fixture(autouse=True)
def _at_home(shared: Person) -> None:
    shared.bash("", restart=True)


def test_directory_variables_and_functions_last(shared: Person) -> None:
    shared.bash("mkdir -p deep/er; cd deep/er; here=1; greet() { echo hello $1; }")
    assert shared.bash("pwd; echo $here; greet you").output == "/home/user/deep/er\n1\nhello you\n"


def test_restart_starts_anew_at_home(shared: Person) -> None:
    shared.bash("cd /tmp; gone=1; sleep 1000 &")
    result = shared.bash("pwd; echo [$gone]; pgrep -c sleep", restart=True)
    assert result.output == "/home/user\n[]\n0\n"


@pytest.mark.parametrize(
    "command, output",
    [
        ("cat <<'EOF'\na 'b' \"c\" $d\nEOF", "a 'b' \"c\" $d\n"),
        ("printf 'no newline'", "no newline"),
        ("cat", ""),
        ('read -r x; echo "[$x]"', "[]\n"),
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n"),
        ("ls / | head -1; test -t 1 || echo piped", "bin\npiped\n"),
        ("exec >/dev/null", ""),
        ("echo seen", "seen\n"),
        ("echo 你好 é", "你好 é\n"),
    ],
)
def test_commands_give_what_they_print(shared: Person, command: str, output: str) -> None:
    result = shared.bash(command)
    assert (result.output, result.timed_out) == (output, False)


@pytest.mark.parametrize("command, code", [("true", 0), ("false", 1), ("(exit 7)", 7), ("nothing_of_that_name", 127)])
def test_exit_codes(shared: Person, command: str, code: int) -> None:
    assert shared.bash(command).exit_code == code
    assert shared.bash("echo $?").output == f"{code}\n"


@pytest.mark.parametrize("command", ["echo 'open", "if true; then", "cat <<EOF\nno end", "fi", "echo ) ("])
def test_a_broken_command_cannot_hang_or_put_the_shell_out_of_step(shared: Person, command: str) -> None:
    shared.bash("kept=1")
    shared.bash(command, timeout=5.0)
    assert shared.bash("echo fine $kept").output == "fine 1\n"


def test_messages_do_not_show_how_a_command_got_in(shared: Person) -> None:
    assert shared.bash("true\nnothing_here").output == "bash: nothing_here: command not found\n"
    assert shared.bash("echo )").output.startswith("bash: line 1: syntax error")


def test_a_long_running_command_is_interrupted_and_the_shell_kept(shared: Person) -> None:
    shared.bash("cd /tmp; kept=1")
    result = shared.bash("echo begun; sleep 1000", timeout=2)
    assert result.timed_out and result.exit_code == 124
    assert result.output.startswith("begun\n[timed out after 2 s and was")
    assert shared.bash("pwd; echo $kept; pgrep -c sleep").output == "/tmp\n1\n0\n"


def test_a_child_that_ignores_the_interrupt_is_killed_and_the_shell_kept(shared: Person) -> None:
    shared.bash("kept=1")
    result = shared.bash(
        "python3 -c 'import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(1000)'", timeout=2
    )
    assert result.timed_out and "was killed]" in result.output
    assert shared.bash("echo $kept").output == "1\n"


def test_a_shell_that_cannot_be_stopped_is_replaced_in_the_same_directory(shared: Person) -> None:
    shared.bash("cd /tmp")
    result = shared.bash("trap '' INT; while :; do :; done", timeout=2)
    assert result.timed_out and "killed with its shell" in result.output
    assert shared.bash("pwd").output == "/tmp\n"


@pytest.mark.parametrize(
    "command, code", [("exit 3", 3), ("kill -9 $$", 137), ("exec true", 0), ("sleep 500 & exit 5", 5)]
)
def test_a_command_that_ends_the_shell_is_told_and_the_next_one_works(shared: Person, command: str, code: int) -> None:
    result = shared.bash(command)
    assert (result.exit_code, result.timed_out) == (code, False)
    assert "the shell ended" in result.output
    assert shared.bash("echo again").output == "again\n"


def test_a_flood_is_cut_in_the_middle_and_does_not_stop_the_command(shared: Person) -> None:
    result = shared.bash("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last", timeout=60.0)
    assert result.exit_code == 0 and len(result.output) < 10_000
    assert (
        result.output.startswith("first\n") and result.output.endswith("\nlast\n") and "characters cut" in result.output
    )


def test_a_background_job_does_not_hold_up_the_answer(shared: Person) -> None:
    assert shared.bash("sleep 1000 & echo started").output == "started\n"
    assert shared.bash("jobs -r | wc -l; kill %1").output == "1\n"


def test_what_the_shell_starts_is_on_the_screen_and_files_are_shared(shared: Person) -> None:
    shared.bash("echo text > from_shell.txt; xterm -title here >/dev/null 2>&1 &")
    assert shared.guest.await_window("here") is not None
    assert shared.guest.get("from_shell.txt") == b"text\n"
    shared.guest.kill_apps()
    assert shared.guest.windows() == []
    assert shared.bash("cat from_shell.txt").output == "text\n"


def test_ending_all_applications_closes_the_windows_of_the_desktops_own_process_too(shared: Person) -> None:
    """Folders and questions of the file manager: its one process draws the desktop as well and is not killed."""
    shared.bash("mkdir -p ~/papers")
    window = shared.guest.open(["pcmanfm", "papers"], "papers")
    assert window is not None and shared.guest.windows() != []
    shared.guest.kill_apps()
    assert wait_for(lambda: shared.guest.windows() == []), shared.guest.windows()
    assert shared.guest.gone() == []
