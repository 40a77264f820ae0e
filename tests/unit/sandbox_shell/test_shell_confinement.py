"""What a command cannot do: leave its directory, reach the net, exhaust the machine, or outlive its session."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from components.sandbox.shell import Confinement, ShellSession

from .conftest import Open, processes_with, wait_for

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def shell(open_session: Open, kind: Confinement) -> ShellSession:
    return open_session(kind)


def test_nothing_outside_home_and_tmp_can_be_written(shell: ShellSession, home: Path, tmp_path: Path) -> None:
    places = "/ /usr /usr/local/bin /etc /dev /proc /proc/sys/kernel /home /opt /opt/guest /opt/site /root /var"
    places += f" {tmp_path} {ROOT}"
    result = shell.run(f"for d in {places}; do (echo x > $d/escaped) 2>/dev/null && echo wrote $d; done; "
                       "find / -maxdepth 3 -path /proc -prune -o -type d -writable -print 2>/dev/null; "
                       "echo in > ~/in; echo tmp > /tmp/tmp; cat ~/in /tmp/tmp")  # fmt: skip
    assert sorted(result.output.splitlines()) == ["/home/user", "/tmp", "in", "tmp"]
    assert sorted(path.name for path in home.iterdir()) == ["in"]
    assert not (tmp_path / "escaped").exists() and not Path("/tmp/tmp").exists()


def test_system_files_cannot_be_changed_through_their_mounts(shell: ShellSession) -> None:
    result = shell.run("mount -o remount,rw /usr; mount -t tmpfs x /mnt; umount /usr; umount -l /home/user; "
                       "chroot / true; unshare -Urm true; unshare -m true; nsenter -t 1 -a true; "
                       "mknod d b 8 0; echo end", timeout=20)  # fmt: skip
    assert result.output.endswith("end\n")
    assert shell.run("touch /usr/x /etc/x; ls d; id -u").output.count("\n") == 4


def test_files_of_the_host_cannot_be_read(shell: ShellSession, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("canary-of-the-host")
    result = shell.run(f"cat {tmp_path}/canary /etc/shadow /root/.bashrc {ROOT}/pyproject.toml; "
                       "ls /root /var /srv /mnt; cat /proc/1/environ /proc/*/root/etc/shadow; "
                       "grep -r canary-of-the /home /opt/guest /tmp /etc; true")  # fmt: skip
    lines = result.output.splitlines()
    assert lines and all("No such file" in line or "Permission denied" in line or "PATH=" in line for line in lines)


def test_environment_is_made_up_and_holds_no_secret(
    open_session: Open, kind: Confinement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COWORK_SECRET_TOKEN", "planted")
    shell = open_session(kind)
    assert shell.run("cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c -e planted -e SECRET").output == "0\n"
    assert shell.run("env | cut -d= -f1 | sort | paste -sd' '").output == (
        "HOME LANG LOGNAME OMP_NUM_THREADS OPENBLAS_NUM_THREADS PAGER PATH PWD PYTHONDONTWRITEBYTECODE PYTHONPATH "
        "SHELL SHLVL TERM TZ USER _\n"
    )
    assert shell.run("whoami; hostname; id -u; date +%Z").output == "user\ndesk\n1000\nUTC\n"


def test_network_is_not_there(shell: ShellSession) -> None:
    with socket.socket() as listener, socket.socket(socket.AF_UNIX) as abstract:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        name = f"cowork-{uuid.uuid4().hex}"
        abstract.bind("\0" + name)
        abstract.listen()
        port = listener.getsockname()[1]
        for address in (f"127.0.0.1/{port}", "169.254.169.254/80", "10.0.0.1/80", "8.8.8.8/53", "localhost/22"):
            result = shell.run(f"timeout 5 bash -c 'echo x > /dev/tcp/{address}' || echo refused", timeout=10)
            assert result.output.endswith("refused\n"), address
        script = f"import socket; s=socket.socket(socket.AF_UNIX); s.connect('\\0{name}')"
        assert "ConnectionRefusedError" in shell.run(f'python3 -c "{script}"').output
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert shell.run("ls /sys/class/net; cat /proc/net/dev | tail -n +3 | grep -vc ' lo:'").output.endswith("0\n")


def test_fork_bomb_hits_the_limit_and_the_session_goes_on(open_session: Open, kind: Confinement) -> None:
    shell = open_session(kind, processes=20)
    script = """
import os, time
n = 0
try:
    while n < 500:
        if os.fork() == 0:
            time.sleep(100)
        n += 1
except BlockingIOError:
    pass
print(n)
"""
    count = int(shell.run(f"python3 -c '{script}'", timeout=20).output)
    assert 5 < count < 20
    assert shell.run(":(){ :|:& };:", timeout=1).exit_code is not None
    shell.restart()
    assert shell.run("echo alive").output == "alive\n"


def test_process_limits_of_two_sessions_do_not_add_up(open_session: Open, kind: Confinement, tmp_path: Path) -> None:
    first, second = open_session(kind, processes=20), open_session(kind, processes=20)
    for session in (first, second):
        assert session.run("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 100 & done; jobs -r | wc -l").output == "10\n"


def test_memory_hog_fails_alone(open_session: Open, kind: Confinement) -> None:
    shell = open_session(kind, memory_bytes=256 << 20)
    result = shell.run("python3 -S -E -c 'bytearray(1 << 30)'; echo on")
    assert "MemoryError" in result.output and result.output.endswith("on\n")


def test_huge_file_and_full_tmp_are_refused(open_session: Open, kind: Confinement, home: Path) -> None:
    shell = open_session(kind, file_bytes=1 << 20, tmp_bytes=2 << 20)
    assert shell.run("head -c 5000000 /dev/zero > big").exit_code != 0
    assert (home / "big").stat().st_size == 1 << 20
    result = shell.run("for i in 1 2 3 4 5; do head -c 1000000 /dev/zero > /tmp/$i; done; du -s /tmp | cut -f1")
    assert "No space left" in result.output
    assert int(result.output.splitlines()[-1]) <= 2048
    assert shell.run("head -c 100 /dev/zero > /dev/shm/x").exit_code != 0


def test_processor_time_of_a_process_ends(open_session: Open, kind: Confinement) -> None:
    shell = open_session(kind, cpu_seconds=1)
    result = shell.run("sh -c 'while :; do :; done'; echo $?", timeout=30)
    assert not result.timed_out
    assert result.output.splitlines()[-1] in ("152", "137")


def test_limits_cannot_be_raised(shell: ShellSession) -> None:
    result = shell.run("ulimit -u unlimited; ulimit -v unlimited; ulimit -f unlimited; ulimit -c; ulimit -u; ulimit -v")
    assert result.output.count("cannot modify limit") == 3
    assert result.output.splitlines()[-3:] == ["0", "64", "1048576"]


def test_processes_of_host_and_of_other_sessions_cannot_be_seen_or_killed(
    open_session: Open, kind: Confinement
) -> None:
    shell, other = open_session(kind), open_session(kind)
    other.run("sleep 1000 & x=other")
    result = shell.run(f"ls -d /proc/[0-9]* | wc -l; kill -9 {os.getpid()} {os.getppid()}; pgrep -c sleep")
    lines = result.output.splitlines()
    assert int(lines[0]) < 10
    assert all("No such process" in line for line in lines[1:-1]) and lines[-1] == "0"
    shell.run("kill -9 -1 $PPID", timeout=5)
    assert other.run("jobs -r | wc -l; echo $x").output == "1\nother\n"
    # Its end may show with the next command only: that one says so, and the one after it runs in a new shell.
    assert wait_for(lambda: shell.run("echo on", timeout=5).output.startswith("on\n"), 10)


def test_tmp_is_private(open_session: Open, kind: Confinement) -> None:
    shell, other = open_session(kind), open_session(kind)
    shell.run("echo x > /tmp/x")
    assert other.run("ls -A /tmp").output == ""


def test_no_process_is_left_after_close(open_session: Open, kind: Confinement, home: Path) -> None:
    shell = open_session(kind)
    mark = f"31{uuid.uuid4().int % 10**9:09d}"
    shell.run(f"(trap '' TERM HUP; setsid nohup sleep {mark} & disown) 2>/dev/null; (while :; do date > tick; done) &")
    assert wait_for(lambda: bool(processes_with(mark)) and (home / "tick").exists())
    shell.close()
    assert processes_with(mark) == []
    (home / "tick").unlink()
    assert not wait_for((home / "tick").exists, seconds=0.2)


@pytest.mark.parametrize("ending", ["exit 0", "kill -9 -1"])
def test_no_process_is_left_when_the_shell_ends(open_session: Open, kind: Confinement, ending: str) -> None:
    shell = open_session(kind)
    mark = f"32{uuid.uuid4().int % 10**9:09d}"
    shell.run(f"setsid sleep {mark} & disown")
    assert wait_for(lambda: bool(processes_with(mark)))
    shell.run(ending, timeout=2)
    assert wait_for(lambda: processes_with(mark) == [])


def test_no_process_is_left_when_the_host_is_killed(kind: Confinement, home: Path) -> None:
    mark = f"33{uuid.uuid4().int % 10**9:09d}"
    script = (
        "import sys; from pathlib import Path; from components.sandbox.shell import ShellSession\n"
        "import threading, signal\n"
        f"s = ShellSession(Path(sys.argv[1]), confinement={kind!r})\n"
        f"t = threading.Thread(target=s.run, args=('setsid sleep {mark} & disown; sleep 1000', 1000)); t.start()\n"
        "signal.pause()\n"
    )
    host = subprocess.Popen([sys.executable, "-c", script, str(home)], cwd=ROOT)
    try:
        assert wait_for(lambda: any(pid != host.pid for pid in processes_with(f"sleep\0{mark}")))
    finally:
        os.kill(host.pid, signal.SIGKILL)
        host.wait()
    assert wait_for(lambda: processes_with(mark) == [])


def test_paths_of_the_host_are_not_in_the_process_list(shell: ShellSession, home: Path) -> None:
    (home / "paths").write_text(f"{home}\n{ROOT}\n")  # not on grep's own command line
    shell.run("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' > lines")
    assert shell.run("grep -c -F -f paths lines").output == "0\n"
    assert shell.run("grep -c bash lines").output != "0\n"
