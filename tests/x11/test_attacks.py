"""A hostile policy: each attack runs through the policy's own channel, and what counts is its effect.

One desktop a driver for all attacks that a desktop must survive: each finds it as the one before has left it. Those
that cost the policy its desktop have one of their own. components/sandbox/x11/drivers/README.md has the table.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.errors import SandboxError
from components.contracts.task import Task, Verdict
from components.sandbox import seccomp
from components.sandbox.x11 import channel
from components.sandbox.x11.channel import GuestError
from components.sandbox.x11.desktop import X11Desktop
from components.sandbox.x11.drivers.base import Driver, Limits
from components.sandbox.x11.drivers.bwrap_host import BwrapHost
from components.sandbox.x11.drivers.podman import Podman
from components.sandbox.x11.drivers.runc import Runc
from components.sandbox.x11.guest_calls import GuestCalls

from .conftest import Person, make_task, wait_for

MIB = 1 << 20
SMALL = Limits(memory_bytes=640 * MIB, processes=200, home_bytes=64 * MIB, tmp_bytes=64 * MIB, shm_bytes=32 * MIB,
               run_bytes=16 * MIB)  # fmt: skip
DRIVERS: dict[str, Driver] = {"bwrap-host": BwrapHost(), "runc": Runc(), "podman": Podman()}
CONTAINERS = ("runc", "podman")


def desktop_of(name: str, **options: Any) -> X11Desktop:
    driver = DRIVERS[name]
    if driver.problem():
        pytest.skip(f"{name}: {driver.problem()}")
    return X11Desktop(driver, limits=SMALL, **options)


class Attacker(Person):
    """What a policy can do: call `bash`. The answers are what it sees."""

    def run(self, script: str, *arguments: str, timeout: float = 30.0) -> str:
        """A Python script, as the policy would write one."""
        body = f"cat > /tmp/attack.py <<'END_OF_ATTACK'\n{textwrap.dedent(script)}\nEND_OF_ATTACK\n"
        words = " ".join(f"'{word}'" for word in arguments)
        return self.bash(f"{body}timeout {timeout:g} python3 /tmp/attack.py {words} 2>&1", timeout=timeout + 5).output

    def lines(self, script: str, *arguments: str) -> list[str]:
        return self.run(script, *arguments).splitlines()

    def is_usable(self) -> bool:
        """The desktop still does its work: shell, pictures, input, files."""
        self.guest.put("alive.txt", b"alive")
        shell = self.bash("cat ~/alive.txt", timeout=20.0).output.endswith("alive")
        self.act("mouse_move", coordinate=(600, 300))
        seen = self.desktop.observe()
        assert self.guest.gone() == []
        return shell and seen.pointer == (600, 300) and self.guest.get("alive.txt") == b"alive"


@pytest.fixture(scope="module", params=list(DRIVERS))
def attacker(request: pytest.FixtureRequest) -> Iterator[Attacker]:
    desktop = desktop_of(request.param)
    desktop.reset(make_task())
    yield Attacker(desktop)
    desktop.close()


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Attacker]:
    desktop = desktop_of("bwrap-host")
    desktop.reset(make_task())
    yield Attacker(desktop)
    desktop.close()


# -- ways out -------------------------------------------------------------------------------------------------------


def test_no_mount_and_no_namespace_can_be_made(attacker: Attacker) -> None:
    tries = """
        mount -t tmpfs none /tmp; mount --bind /home /usr; mount -o remount,rw /usr; umount /proc; chroot / true
        unshare -U true; unshare -m true; unshare -n true; unshare -p -f true; unshare -C true; nsenter -t 1 -a true
        nsenter -t $$ -U -m true; pivot_root / /tmp; losetup /dev/loop0 /etc/passwd
    """
    commands = [command.strip() for line in tries.strip().splitlines() for command in line.split(";")]
    look = "md5sum < /proc/self/mountinfo; readlink /proc/self/ns/*"
    before = attacker.bash(look).output
    for command in commands:
        assert attacker.bash(f"timeout 10 {command} 2>/dev/null").exit_code != 0, command
    assert attacker.bash(look).output == before


def test_each_denied_system_call_is_refused_inside(attacker: Attacker) -> None:
    column = 0 if platform.machine() == "x86_64" else 1
    calls = {name: numbers[column] for name, numbers in seccomp.DENIED.items() if numbers[column] >= 0}
    script = """
        import ctypes, errno, json, sys
        libc = ctypes.CDLL(None, use_errno=True)
        def call(number, *args):
            ctypes.set_errno(0)
            done = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in (*args, 0, 0, 0, 0, 0)][:5])
            return errno.errorcode.get(ctypes.get_errno(), "") if done < 0 else "done"
        print(json.dumps({n: o for n, c in json.loads(sys.argv[1]).items() if (o := call(c)) != "EPERM"}))
        print(call(*json.loads(sys.argv[2])), call(*json.loads(sys.argv[3])), call(*json.loads(sys.argv[4])))
    """
    clone3 = json.dumps([seccomp._CLONE3[column]])
    new_user = json.dumps([seccomp._CLONE[column], 0x1000_0000 | 17])
    vsock = json.dumps([seccomp._SOCKETS[0][column], 40, 1])
    got = attacker.lines(script, json.dumps(calls), clone3, new_user, vsock)
    # runc asks libseccomp, which has to know a call by name: the two newest it may not know, and they only tell
    assert {name for name in json.loads(got[0])} <= {"statmount", "listmount"}
    assert got[1] == "ENOSYS EPERM EAFNOSUPPORT"


def test_the_kernel_cannot_be_told_anything(attacker: Attacker) -> None:
    def settings() -> list[str]:
        places = (Path(f"/proc/sys/kernel/{name}") for name in ("core_pattern", "sysrq", "modprobe", "hostname"))
        return [place.read_text() for place in places if place.exists()]

    before = settings()
    script = """
        import os, stat
        opened = []
        for top in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/sys", "/proc"):
            for path, folders, names in os.walk(top):
                folders[:] = [] if path == "/proc" else folders
                for name in names:
                    try:
                        fd = os.open(os.path.join(path, name), os.O_WRONLY | os.O_NONBLOCK)
                        if not stat.S_ISCHR(os.fstat(fd).st_mode):  # /dev/null in a file's place
                            opened.append(os.path.join(path, name))
                    except OSError:
                        pass
        print(sorted(opened))
    """
    assert attacker.lines(script) == ["[]"]
    for command in ("echo b > /proc/sysrq-trigger", "echo '|/tmp/x' > /proc/sys/kernel/core_pattern",
                    "echo -1000 > /proc/self/oom_score_adj", "dmesg", "sysctl -w kernel.sysrq=1"):  # fmt: skip
        assert attacker.bash(f"( {command} ) 2>&1").exit_code != 0, command
    assert settings() == before


def test_no_device_of_the_machine_is_there_or_can_be_made(attacker: Attacker) -> None:
    script = """
        import os, stat
        known = {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}
        for path, folders, names in os.walk("/dev"):
            for name in names:
                info = os.lstat(os.path.join(path, name))
                mine = name in known or path == "/dev/pts"
                if stat.S_ISBLK(info.st_mode) or stat.S_ISCHR(info.st_mode) and not mine:
                    print("there is", name)
        for mode, device in ((stat.S_IFBLK, os.makedev(254, 0)), (stat.S_IFBLK, os.makedev(8, 0)),
                             (stat.S_IFCHR, os.makedev(1, 1))):
            for place in ("/tmp/d", "/dev/shm/d", "/home/user/d", "/dev/d"):
                try:
                    os.mknod(place, mode | 0o666, device)
                    print("made", place)
                except OSError:
                    pass
        print("done")
    """
    assert attacker.lines(script) == ["done"]


def test_no_file_gives_another_user(attacker: Attacker) -> None:
    script = """
        import os, stat, subprocess
        for top in ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec"):
            for path, _, names in os.walk(top):
                for name in names:
                    info = os.lstat(os.path.join(path, name))
                    if stat.S_ISREG(info.st_mode) and info.st_mode & (stat.S_ISUID | stat.S_ISGID):
                        print("found", name)
                        if name == "su":
                            done = subprocess.run([os.path.join(path, name), "-c", "id -u"], capture_output=True,
                                                  stdin=subprocess.DEVNULL, timeout=20)
                            if done.returncode == 0: print("became root")
        for change in (os.setuid, os.setgid):
            for number in (0, 33, 65534):
                try:
                    change(number); print("became", number)
                except OSError:
                    pass
        try:
            os.chown("/tmp/attack.py", 0, 0); print("gave away")
        except OSError:
            pass
    """
    said = attacker.lines(script)
    assert [line for line in said if not line.startswith("found")] == []
    made = (
        "cp /usr/bin/id /tmp/id; chmod 6755 /tmp/id; /tmp/id -u; grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status"
    )
    assert attacker.bash(made).output.split() == [
        "1000", "CapEff:", "0" * 16, "CapBnd:", *attacker.bash("grep CapBnd /proc/self/status").output.split()[1:],
        "NoNewPrivs:", "1",
    ]  # fmt: skip


# -- the agent ------------------------------------------------------------------------------------------------------

_PIDS = """
import os
AGENTS = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if b"guest.agent" in open(f"/proc/{pid}/cmdline", "rb").read(): AGENTS.append(int(pid))
    except OSError: pass
"""


def test_the_agent_cannot_be_looked_into_or_spoken_for(attacker: Attacker) -> None:
    script = _PIDS + textwrap.dedent("""
        import ctypes, os, socket, struct
        libc = ctypes.CDLL(None, use_errno=True)
        print(len(AGENTS) >= 1)
        first = {1} if os.stat("/proc/1").st_uid else set()  # bubblewrap's own, with nothing in it
        for pid in set(AGENTS) - first:
            for name in ("environ", "mem", "maps", "cwd/.", "root/.", "syscall", "auxv", "clear_refs"):
                try:
                    if open(f"/proc/{pid}/{name}", "rb").read(1): print("read", pid, name)
                except OSError: pass
            try: print("listed", os.listdir(f"/proc/{pid}/fd"))
            except OSError: pass
            if libc.ptrace(16, pid, 0, 0) == 0: print("attached")
            for fd in range(64):
                try: os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR); print("opened", fd)
                except OSError: pass
        message = b'{"id":1,"result":{"output":"forged"}}'
        for line in open("/proc/net/unix").read().splitlines()[1:]:
            parts = line.split()
            name = parts[7] if len(parts) > 7 else ""
            if name.startswith("@"): name = "\\0" + name[1:]
            # The X server's and the file manager's are the user's to talk to, and to crash the latter by talking.
            if name and "X11" not in name and "pcmanfm" not in name:
                try:
                    s = socket.socket(socket.AF_UNIX); s.settimeout(1); s.connect(name)
                    s.sendall(struct.pack("!II", len(message), 0) + message)
                except OSError: pass
    """)
    assert attacker.lines(script) == ["True"]
    assert attacker.bash("echo truth").output == "truth\n"


def test_where_the_agent_has_its_own_user_it_cannot_be_ended_or_stopped(attacker: Attacker) -> None:
    if attacker.desktop.state()["driver"] == "bwrap-host":
        pytest.skip("bubblewrap has one user: there the episode is lost, see the next test")
    script = _PIDS + textwrap.dedent("""
        import signal
        for pid in AGENTS:
            for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                try: os.kill(pid, number); print("hit", pid)
                except OSError: pass
            try: os.sched_setaffinity(pid, {0}); print("moved")
            except OSError: pass
            try: os.setpriority(os.PRIO_PROCESS, pid, 19); print("slowed")
            except OSError: pass
            try: open(f"/proc/{pid}/oom_score_adj", "w").write("1000"); print("offered")
            except OSError: pass
        print(os.system("killall5 -9 2>/dev/null") == 0)
        for place in ("/opt/guest/components/__init__.py", "/run/agent/command", "/etc/passwd"):
            try: open(place, "a").close(); print("wrote", place)
            except OSError: pass
    """)
    said = attacker.lines(script)
    assert [line for line in said if line not in ("True", "False")] == []
    assert attacker.bash("pkill -9 Xvfb || pkill -STOP Xvfb").exit_code != 0
    assert attacker.is_usable()


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_desktop_without_its_window_manager_is_still_answered_for(name: str) -> None:
    desktop = desktop_of(name)
    desktop.reset(make_task())
    person = Attacker(desktop)
    try:
        person.bash("kill -9 -1")  # all that it may: window manager, panel, its own shell
        assert wait_for(lambda: {"openbox", "pcmanfm", "tint2"} <= set(desktop.guest.gone()))
        person.act("mouse_move", coordinate=(5, 5))
        assert desktop.observe().screen.shape == (720, 1280, 3)
        assert person.bash("echo on").output.endswith("on\n")
    finally:
        desktop.close()


@pytest.mark.parametrize("number", ["KILL", "STOP"])
def test_where_the_agent_has_the_users_user_its_end_is_told_and_never_judged(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_GRACE", 2.0)
    judged: list[Task] = []

    def judge(task: Task, guest: GuestCalls) -> Verdict:
        judged.append(task)
        return Verdict(success=True)

    desktop = desktop_of("bwrap-host", grade=judge)
    desktop.reset(make_task())
    try:
        desktop.guest.bash(f"(sleep 0.2; kill -{number} 2) > /dev/null 2>&1 &")

        def lost() -> bool:
            try:
                desktop.guest._ask("hello", seconds=0.0)
            except SandboxError as error:
                return "agent is gone" in error.message or "did not answer" in error.message
            return False

        assert wait_for(lost, 30)
        with pytest.raises(SandboxError):
            desktop.grade()
        assert judged == []
    finally:
        desktop.close()


# -- answers, rewards, the host -------------------------------------------------------------------------------------


def test_neither_answers_nor_rewards_of_the_host_are_in_reach(
    attacker: Attacker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "the-right-answer-is-8d1f"
    monkeypatch.setenv("COWORK_ANSWER", secret)
    for folder in (*reversed(tmp_path.parents), tmp_path):
        with contextlib.suppress(OSError):
            folder.chmod(folder.stat().st_mode | 0o011)
    for name in ("task.json", "verifier.py", "reward.json"):
        (tmp_path / name).write_text(secret)
        (tmp_path / name).chmod(0o666)
    script = """
        import os, sys
        where = sys.argv[1]
        places = [where]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            places += [f"/proc/{pid}/root{where}", f"/proc/{pid}/cwd{where}"]
            for name in ("environ", "cmdline"):
                try: print(open(f"/proc/{pid}/{name}").read())
                except OSError: pass
            try: fds = os.listdir(f"/proc/{pid}/fd")
            except OSError: fds = []
            places += [f"/proc/{pid}/fd/{fd}/../../../../../../..{where}" for fd in fds]
        for place in places:
            for name in ("task.json", "verifier.py", "reward.json"):
                try: print(open(f"{place}/{name}").read())
                except OSError: pass
            try:
                open(f"{place}/reward.json", "w").write('{"reward": 1}'); print("rewarded", place)
            except OSError: pass
            try:
                os.makedirs(place, exist_ok=True); open(f"{place}/made", "w").close()
            except OSError: pass
    """
    said = attacker.run(script, str(tmp_path), timeout=60.0)
    assert secret not in said
    assert sorted(os.listdir(tmp_path)) == ["reward.json", "task.json", "verifier.py"]
    assert {(tmp_path / name).read_text() for name in os.listdir(tmp_path)} == {secret}
    assert (
        secret not in attacker.bash("grep -rs right-answer / --exclude-dir=proc --exclude-dir=usr", timeout=60).output
    )


def test_no_address_and_no_socket_of_the_host_answers(attacker: Attacker) -> None:
    name = "\0/tmp/.X11-unix/X77"  # as an X server of the host would have it
    with socket.socket(socket.AF_UNIX) as display, socket.create_server(("0.0.0.0", 0)) as server:
        display.bind(name)
        display.listen()
        for listener in (display, server):
            listener.setblocking(False)
        script = """
            import socket, sys
            port = int(sys.argv[1])
            def attempt(family, kind, address):
                try:
                    with socket.socket(family, kind) as s:
                        s.settimeout(2)
                        s.connect(address)
                        s.send(b"x") if kind == socket.SOCK_DGRAM else None
                        print("reached", address)
                except OSError: pass
            for address in ("169.254.169.254", "192.0.2.1", "8.8.8.8", "10.0.0.1", "172.17.0.1", "255.255.255.255"):
                attempt(socket.AF_INET, socket.SOCK_STREAM, (address, 80))
                attempt(socket.AF_INET, socket.SOCK_DGRAM, (address, 53))
            attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port))
            attempt(socket.AF_INET6, socket.SOCK_STREAM, ("fd00:ec2::254", 80))
            attempt(socket.AF_UNIX, socket.SOCK_STREAM, "\\0/tmp/.X11-unix/X77")
            for path in ("/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket"):
                attempt(socket.AF_UNIX, socket.SOCK_STREAM, path)
            for family in (17, 38, 40, 31, 29):
                try: socket.socket(family, 3); print("made", family)
                except OSError: pass
            try: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print("raw")
            except OSError: pass
            try: print("name", socket.getaddrinfo("example.com", 80))
            except OSError: pass
            print("done")
        """
        assert attacker.lines(script, str(server.getsockname()[1])) == ["done"]
        for listener in (display, server):
            with pytest.raises(BlockingIOError):
                listener.accept()


def test_another_slot_cannot_be_seen_signalled_or_met(attacker: Attacker, neighbour: Attacker) -> None:
    neighbour.bash("sleep 4242 & echo ours > /dev/shm/meet; echo ours > /tmp/meet; echo $!")
    here = """
        import ctypes, socket, subprocess, sys
        libc = ctypes.CDLL(None)
        libc.shmget(0x4242, 4096, 0o1666)
        s = socket.socket(socket.AF_UNIX); s.bind("\\0meet"); s.listen()
        print("listens", flush=True)
        subprocess.run(["sleep", "60"])
    """
    neighbour.guest.put("listen.py", textwrap.dedent(here).encode())
    neighbour.bash("nohup python3 listen.py > listens 2>&1 &")
    assert wait_for(lambda: neighbour.bash("cat listens").output == "listens\n")
    script = """
        import ctypes, os, signal, socket, subprocess
        libc = ctypes.CDLL(None)
        if libc.shmget(0x4242, 4096, 0o666) >= 0: print("shared memory")
        try: socket.socket(socket.AF_UNIX).connect("\\0meet"); print("met")
        except OSError: pass
        for place in ("/dev/shm/meet", "/tmp/meet"):
            if os.path.exists(place): print("seen", place)
        if b"4242" in subprocess.run(["ps", "-eo", "args"], capture_output=True).stdout: print("listed")
        for pid in range(3, 70000):
            try: os.kill(pid, 0)
            except OSError: continue
            if b"sleep" in open(f"/proc/{pid}/cmdline", "rb").read(): print("signalled", pid)
    """
    assert attacker.lines(script) == []
    assert neighbour.bash("pgrep -fc 'sleep 4242'").output.strip() != "0"
    neighbour.bash("pkill -f listen.py; pkill -f 'sleep 4242'; rm -f listens")
    assert wait_for(lambda: neighbour.bash("pgrep -fc 'sleep 424[2]|listen[.]py'").output == "0\n")


# -- what is fetched ------------------------------------------------------------------------------------------------


def test_results_laid_as_traps_are_refused_and_hold_nothing_up(attacker: Attacker) -> None:
    attacker.bash(
        "mkdir -p t; cd t; ln -s /etc/passwd link; ln -s / slash; mkfifo pipe; truncate -s 20G sparse; mkdir folder; "
        "ln /usr/bin/id hard 2>/dev/null; ln -s loop loop; touch $'bad\\xff\\nname'; cd"
    )
    for path, limit in (("t/link", 1 << 20), ("t/pipe", 1 << 20), ("t/sparse", 1 << 20), ("t/folder", 1 << 20),
                        ("t/loop", 1 << 20), ("/dev/zero", 1 << 20), ("/proc/1/environ", 1 << 20),
                        ("../../etc/shadow", 1 << 20), ("t/slash/etc/shadow", 1 << 20), ("/dev/tty", 1)):  # fmt: skip
        try:
            data = attacker.guest.get(path, limit)
            assert path == "/proc/1/environ" and b"=" not in data.replace(b"PWD=/", b""), path
        except GuestError as error:
            assert error.kind in ("os", "missing"), path
    names = [file.path for file in attacker.guest.files("t")]
    assert "sparse" in names and not {"link", "pipe", "folder"} & set(names)
    # A file the host puts cannot be led to where the policy may not write itself.
    attacker.bash("ln -s /opt/guest/components led; ln -s /etc/passwd over; ln -s /run/agent own")
    for path in ("led/__init__.py", "led/sandbox/x11/guest/agent.py", "own/command", "/etc/passwd"):
        with pytest.raises(GuestError) as caught:
            attacker.guest.put(path, b"import os")
        assert caught.value.kind in ("os", "missing")
    attacker.guest.put("over", b"mine")
    assert attacker.bash("cat over; grep -c root /etc/passwd; rm -rf t led over own").output == "mine1\n"
    # A tree deeper than a path is long.
    attacker.run(
        "import os\nos.makedirs('/home/user/deep'); os.chdir('/home/user/deep')\n"
        "for _ in range(60):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\nopen('file', 'w').close()"
    )
    assert attacker.guest.files("deep") == []
    attacker.bash("rm -rf deep")
    assert attacker.is_usable()


def test_an_unreadable_result_is_a_zero_and_no_lost_episode(attacker: Attacker) -> None:
    desktop = attacker.desktop
    desktop._grade = lambda task, guest: Verdict(success=guest.get("result.csv") == b"right")
    attacker.guest.bash("rm -f result.csv; mkfifo result.csv")
    try:
        verdict = desktop.grade()
        assert not verdict.success and not verdict.error and "result.csv" in verdict.results[0].reason
        attacker.guest.bash("rm result.csv")
        assert not desktop.grade().success
        attacker.guest.put("result.csv", b"right")
        assert desktop.grade().success
    finally:
        desktop._grade, desktop._done = None, False
        attacker.bash("rm -rf result.csv")


def test_a_sabotaged_shell_is_the_policys_own_loss(attacker: Attacker) -> None:
    for deed in ("rm -f $XDG_RUNTIME_DIR/command; mkfifo $XDG_RUNTIME_DIR/command",
                 "rm -f $XDG_RUNTIME_DIR/command; ln -s /etc/passwd $XDG_RUNTIME_DIR/command",
                 "rm -f $XDG_RUNTIME_DIR/command; ln -s /opt/guest/components/__init__.py $XDG_RUNTIME_DIR/command",
                 "exec 201>&- 202>&-", "exec 0</dev/null", "alias builtin=false; unset -f __report; __report() { :; }",
                 "PATH=/nowhere"):  # fmt: skip
        attacker.bash(f"{deed} 2>/dev/null", timeout=1.0)
        attacker.bash("", restart=True)
        assert attacker.bash("echo back").output.endswith("back\n"), deed
    attacker.bash("rm -f $XDG_RUNTIME_DIR/command; mkdir -p $XDG_RUNTIME_DIR/command/x")
    result = attacker.bash("echo on")  # where the folder is the agent's own this had no effect
    assert result.output == "on\n" or (result.exit_code == 126 and "could not be written" in result.output)
    attacker.guest.python("import shutil, os; shutil.rmtree(os.environ['XDG_RUNTIME_DIR'] + '/command', True)")
    assert attacker.is_usable()


# -- more than its share --------------------------------------------------------------------------------------------


def test_full_disks_stay_full_disks_of_the_slot(attacker: Attacker) -> None:
    places = {"/tmp": SMALL.tmp_bytes, "/home/user": SMALL.home_bytes, "/dev/shm": SMALL.shm_bytes,
              "/run/user/1000": SMALL.run_bytes}  # fmt: skip
    for place, size in places.items():
        said = attacker.bash(
            f"head -c 400000000 /dev/zero > {place}/fill 2>/dev/null; stat -c %s {place}/fill; rm -f {place}/fill"
        )
        assert 0 < int(said.output.split()[-1]) <= size
    elsewhere = attacker.run("""
        import os
        for place in ("/", "/dev", "/var", "/var/tmp", "/var/cache/fontconfig", "/opt", "/etc", "/usr", "/run", "/home",
                      "/dev/mqueue", "/proc"):
            try: open(place + "/fill", "w").close(); print(place)
            except OSError: pass
    """)
    # Where everything is one user's, /run and /home are its own too: both of limited size.
    assert set(elsewhere.split()) <= {"/run", "/home"}
    full = attacker.bash("head -c 400000000 /dev/zero > ~/fill 2>/dev/null; echo still here", timeout=60.0)
    assert full.output == "still here\n"
    with pytest.raises(GuestError):
        attacker.guest.put("more", b"x" * MIB)
    attacker.bash("rm -f ~/fill /run/fill /home/fill")
    assert attacker.is_usable()


def test_a_flood_of_output_is_cut_and_holds_nothing_up(attacker: Attacker) -> None:
    flood = attacker.bash("head -c 200000000 /dev/zero | tr '\\0' x", timeout=60.0)
    assert flood.exit_code == 0 and "characters cut" in flood.output and len(flood.output) < 10_000
    assert attacker.bash("yes", timeout=1.0).timed_out
    attacker.bash("yes > /dev/tty 2>&1 & yes & disown -a; sleep 0.2")
    through = attacker.bash("echo through", timeout=20.0)
    attacker.bash("pkill yes")
    assert through.exit_code == 0 and not through.timed_out and len(through.output) < 10_000
    assert attacker.is_usable()


def test_a_flood_of_windows_and_titles_is_survived(attacker: Attacker) -> None:
    script = """
        import signal, sys
        from Xlib.display import Display
        display = Display(":0")
        root = display.screen().root
        name, string = display.intern_atom("WM_CLASS"), display.intern_atom("STRING")
        windows = []
        for number in range(12):
            window = root.create_window(number, number, 200, 100, 0, display.screen().root_depth)
            window.map()
            windows.append(window)
        display.sync()
        print("mapped", flush=True)
        sys.stdin.readline()
        for window in windows:  # 10 MB in all, more than a message to the host may hold
            for _ in range(4):  # larger than one request
                window.change_property(name, string, 8, b"w" * 200_000, mode=2)
        display.sync()
        print("grown", flush=True)
        signal.pause()
    """
    attacker.guest.put("flood.py", textwrap.dedent(script).encode())
    attacker.bash("rm -f more; mkfifo more; (sleep 100 > more &) ; python3 flood.py < more > said 2>&1 &")
    assert wait_for(lambda: "mapped" in attacker.bash("cat said").output, 30)
    assert wait_for(lambda: len(attacker.guest.windows()) == 12, 30)
    attacker.bash("echo > more")
    assert wait_for(lambda: "grown" in attacker.bash("cat said").output, 30)
    assert max(len(window.app) for window in attacker.guest.windows()) < 1000
    attacker.act("mouse_move", coordinate=(5, 5))
    assert attacker.desktop.observe().screen.shape == (720, 1280, 3)
    attacker.bash("pkill -f flood.py; pkill -f 'sleep 100'; rm -f more")
    assert wait_for(lambda: not attacker.guest.windows(), 30)
    assert attacker.is_usable()


def test_a_hog_of_memory_alone_dies(attacker: Attacker) -> None:
    if attacker.desktop.state()["limits"]["memory"] != "cgroup":
        pytest.skip("no memory group can be made here")
    said = attacker.bash(
        "sleep 998 & python3 -c 'a = b\"x\" * (2 << 30)'; echo $?; pgrep -fc 'sleep 99[8]'", timeout=60.0
    )
    assert said.output.split()[-2:] == ["137", "1"]
    assert attacker.guest.gone() == []
    attacker.bash("kill %1")
    assert attacker.is_usable()


def test_a_fork_bomb_ends_with_its_command_and_at_the_latest_with_the_slot(attacker: Attacker) -> None:
    attacker.bash("bomb() { bomb | bomb & }; bomb", timeout=2.0)
    assert not attacker.guest.shot().uniform  # the agent answers while it goes on
    attacker.run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", timeout=1.0)
    assert not attacker.guest.shot().uniform
    attacker.guest.kill_apps()
    attacker.bash("", restart=True)
    assert attacker.is_usable()


@pytest.mark.parametrize("name", list(DRIVERS))
def test_after_the_worst_a_closed_slot_leaves_no_process_and_no_file(name: str) -> None:
    before = set(os.listdir("/tmp"))
    desktop = desktop_of(name)
    desktop.reset(make_task())
    assert desktop._sandbox is not None
    with contextlib.suppress(SandboxError):
        desktop.guest.bash("trap '' TERM INT HUP; bomb() { bomb | bomb & }; bomb; setsid nohup sleep 7171 &", 2.0)
    namespace = _namespace(desktop._sandbox)
    assert _members(namespace)
    desktop.close()
    assert _members(namespace) == []
    os.close(namespace)
    assert {n for n in set(os.listdir("/tmp")) - before if n.startswith("cowork-x11-")} == set()


def _namespace(sandbox: Any) -> int:
    """A descriptor of the sandbox's process namespace: as long as it is open no other gets the same number."""
    sandbox._find_init()
    text = Path(f"/proc/self/fdinfo/{sandbox._init}").read_text()
    pid = next(line.split()[1] for line in text.splitlines() if line.startswith("Pid:"))
    return os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)


def _members(namespace: int) -> list[int]:
    """Host pids of all processes in a namespace, but the dead that the host's first process has not collected yet."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and os.stat(f"/proc/{entry}/ns/pid").st_ino == os.fstat(namespace).st_ino:
                found.append(int(entry))
    return found


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_are_other_users_of_the_host_than_anybody_else(name: str) -> None:
    desktop = desktop_of(name)
    other = desktop_of(name)
    desktop.reset(make_task())
    other.reset(make_task())
    try:
        owners = []
        for one in (desktop, other):
            assert one._sandbox is not None
            pids = _members(_namespace(one._sandbox))
            owners.append({os.stat(f"/proc/{pid}", follow_symlinks=False).st_uid for pid in pids})
        assert not owners[0] & owners[1] and min(owners[0] | owners[1]) >= 1_000_000
        assert len(owners[0]) == len(owners[1]) == 2  # the agent's, and the applications'
    finally:
        desktop.close()
        other.close()
