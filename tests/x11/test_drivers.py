"""The other ways to start a sandbox, each with a real desktop."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.errors import SandboxError
from components.sandbox.x11.desktop import X11Desktop
from components.sandbox.x11.drivers import cgroups, layout, podman, runc
from components.sandbox.x11.drivers.base import Limits
from components.sandbox.x11.drivers.bwrap_host import BwrapRootfs
from components.sandbox.x11.drivers.choose import choose_driver
from components.sandbox.x11.drivers.pod import Pod
from components.sandbox.x11.drivers.slots import SlotId

from .conftest import Person, make_task, wait_for

ROOT = Path(__file__).resolve().parents[2]
PORT = 7000
TOKEN = "a-token-of-the-pod-0123"


def test_a_desktop_runs_on_the_root_file_system_of_an_image(tmp_path: Path) -> None:
    for name in ("usr", "etc", "var"):  # the host's own, at another place: what an unpacked image looks like
        (tmp_path / name).symlink_to(f"/{name}")
    for name in layout.SYSTEM_DIRS:
        if Path(f"/{name}").is_symlink():
            (tmp_path / name).symlink_to(f"usr/{name}")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    desktop = X11Desktop(BwrapRootfs(tmp_path))
    desktop.reset(make_task())
    try:
        assert Person(desktop).bash("id -u; ls /").output.startswith("1000\n")
        assert desktop.state()["driver"] == "bwrap-rootfs"
    finally:
        desktop.close()


@pytest.mark.parametrize("program, title", [("gimp", "GNU Image"), ("chromium", "Chromium")])
def test_the_large_applications_start_behind_the_system_call_filter(program: str, title: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    argv = {
        "gimp": ["gimp", "--no-splash"],
        "chromium": ["chromium", "--no-sandbox", "--test-type", "--no-first-run", "about:blank"],
    }[program]
    desktop = X11Desktop(choose_driver().driver)
    desktop.reset(make_task())
    try:
        assert desktop.guest.open(argv, title, limit=60.0) is not None, desktop.guest.windows()
        assert not desktop.guest.shot().uniform
    finally:
        desktop.close()


_HOST = """
    import signal, sys
    from pathlib import Path
    from components.sandbox.x11.desktop import X11Desktop
    from components.sandbox.x11.drivers.choose import choose_driver
    from tests.x11.conftest import make_task
    desktop = X11Desktop(choose_driver(sys.argv[1]).driver)
    desktop.reset(make_task())
    desktop._sandbox._find_init()
    about = Path(f"/proc/self/fdinfo/{desktop._sandbox._init}").read_text()
    print(next(line.split()[1] for line in about.splitlines() if line.startswith("Pid:")), flush=True)
    signal.pause()
"""


def killed_host(name: str, before: Callable[[int], None] = lambda pid: None) -> int:
    """Pid of a process that had a desktop and was killed; `before` is called with it. The first process inside has
    ended when this returns."""
    host = subprocess.Popen([sys.executable, "-c", textwrap.dedent(_HOST), name], cwd=ROOT, stdout=subprocess.PIPE,
                            text=True)  # fmt: skip
    assert host.stdout is not None
    init = os.pidfd_open(int(host.stdout.readline()))
    before(host.pid)
    host.send_signal(signal.SIGKILL)
    host.wait()
    try:

        def ended() -> bool:
            try:
                signal.pidfd_send_signal(init, 0)
            except ProcessLookupError:
                return True
            return False

        assert wait_for(ended, 30)
    finally:
        os.close(init)
        host.stdout.close()
    return host.pid


def left_by(pid: int) -> list[str]:
    """Folders of a host process."""
    return [folder.name for folder in Path(tempfile.gettempdir()).glob(f"{cgroups.PREFIX}{pid}-*")]


def groups_of(pid: int) -> list[Path]:
    """Control groups of a host process, below our own."""
    ours = cgroups.own_groups(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    return [found for folder in ours.values() for found in folder.glob(f"{cgroups.PREFIX}{pid}-*")]


@pytest.mark.parametrize("name, sweep", [("runc", runc.sweep), ("podman", podman.sweep)])
def test_a_killed_host_process_takes_its_container_along(name: str, sweep: Callable[[], int]) -> None:
    skip_without(name)
    host = killed_host(name)

    def swept() -> bool:
        sweep()
        return not left_by(host) and not groups_of(host)

    assert wait_for(swept, 30)


def test_podman_keeps_no_container_of_a_killed_host_without_anybody_sweeping() -> None:
    skip_without("podman")
    seen: list[str] = []
    host = killed_host("podman", lambda pid: seen.extend(containers_of(pid)))
    assert len(seen) == 1
    assert wait_for(lambda: not containers_of(host), 30)
    podman.sweep()


def test_what_podman_knows_of_a_host_and_a_monitor_that_were_killed_is_swept() -> None:
    skip_without("podman")

    numbers: list[str] = []

    def kill_monitor(pid: int) -> None:
        (folder,) = containers_of(pid)
        numbers.append(podman.known()[folder])
        assert left_by(pid) == [folder]
        os.kill(int((Path(tempfile.gettempdir()) / folder / "conmon").read_text()), signal.SIGKILL)

    host = killed_host("podman", kill_monitor)
    assert containers_of(host)  # nobody was left to remove it

    def swept() -> bool:
        podman.sweep()
        return not left_by(host) and not containers_of(host) and not groups_of(host)

    assert wait_for(swept, 30)
    (number,) = numbers
    assert not [top for top, _, _ in os.walk("/sys/fs/cgroup") if number in top]
    assert number not in subprocess.run(["runc", "list"], capture_output=True, text=True, check=True).stdout


def test_sweeping_touches_no_container_of_others_and_none_of_a_living_host(tmp_path: Path) -> None:
    skip_without("podman")
    gone = f"{cgroups.PREFIX}{os.getpid()}-1-0123"  # our number, but another start: it is not us
    living, other, foreign = cgroups.new_name(), "of-somebody-else", f"{cgroups.PREFIX}{os.getpid()}-1-4567"
    made = {gone: podman.label(), living: podman.label(), other: podman.label(), foreign: "cowork.x11=another"}
    try:
        for name, label in made.items():
            subprocess.run(podman.command("create", "--name", name, "--label", label, "--network", "none", "--rootfs",
                                          str(tmp_path), "/bin/true"), check=True, capture_output=True)  # fmt: skip
        assert podman.sweep() >= 1
        known = subprocess.run(podman.command("ps", "--all", "--format", "{{.Names}}"), check=True, capture_output=True)
        assert set(known.stdout.decode().split()) & set(made) == {living, other, foreign}
    finally:
        subprocess.run(podman.command("rm", "--force", "--ignore", *made), check=True, capture_output=True)


def test_a_container_that_somebody_ends_with_podman_is_a_lost_episode_and_leaves_nothing() -> None:
    skip_without("podman")
    desktop = X11Desktop(podman.Podman())
    desktop.reset(make_task())
    (name,) = containers_of(os.getpid())
    subprocess.run(podman.command("rm", "--force", "--time", "0", name), check=True, capture_output=True)
    with pytest.raises(SandboxError, match="gone"):
        desktop.guest.shot()
    desktop.close()
    assert not containers_of(os.getpid()) and not left_by(os.getpid()) and not groups_of(os.getpid())


def test_the_machines_settings_of_podman_show_a_slot_nothing(tmp_path: Path) -> None:
    skip_without("podman")
    shutil.copytree("/etc/containers", tmp_path / "containers")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret").chmod(0o644)
    settings = f'[containers]\nvolumes = ["{tmp_path}/secret:/run/secret"]\nenv = ["SECRET=1"]\n'
    (tmp_path / "containers" / "containers.conf").write_text(settings)
    code = """
        from components.sandbox.x11.desktop import X11Desktop
        from components.sandbox.x11.drivers.choose import choose_driver
        from tests.x11.conftest import make_task
        desktop = X11Desktop(choose_driver("podman").driver)
        desktop.reset(make_task())
        print(desktop.guest.bash("ls /run; env | grep SECRET", 20.0).output)
        desktop.close()
    """
    mounted = 'mount --bind "$1" /etc/containers && shift && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, "sh", str(tmp_path / "containers"), sys.executable, "-c",
         textwrap.dedent(code)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["agent", "user"]


@pytest.fixture
def image(tmp_path: Path) -> Iterator[str]:
    """Name of an image that has a file of its own, and else only links to where the host has the same."""
    skip_without("podman")
    name = f"localhost/cowork-x11-test-{os.getpid()}"
    system = tmp_path / "system"
    (system / "etc").mkdir(parents=True)
    for link in ("usr", "var", *(f"etc/{entry}" for entry in os.listdir("/etc"))):
        (system / link).symlink_to(f"/{link}")
    for link in layout.SYSTEM_DIRS:
        if Path(f"/{link}").is_symlink():
            (system / link).symlink_to(f"usr/{link}")
    (system / "etc" / "mailcap").unlink(missing_ok=True)
    (system / "etc" / "mailcap").write_text("of the image\n")
    shutil.make_archive(str(tmp_path / "image"), "tar", system)
    subprocess.run(podman.command("import", str(tmp_path / "image.tar"), name), check=True, capture_output=True)
    yield name
    for words in (("unmount", "--force"), ("rm",)):
        subprocess.run(podman.command("image", *words, name), check=True, capture_output=True)


def test_podman_takes_the_name_of_an_image(image: str) -> None:
    desktop = X11Desktop(choose_driver("podman", image=image).driver)
    desktop.reset(make_task())
    try:
        assert Person(desktop).bash("cat /etc/mailcap; id -u").output == "of the image\n1000\n"
    finally:
        desktop.close()
    with pytest.raises(SandboxError, match="podman has no image localhost/nothing-of-that-name"):
        choose_driver("podman", image="localhost/nothing-of-that-name")


def skip_without(name: str) -> None:
    problem = {"runc": runc.Runc, "podman": podman.Podman}[name]().problem()
    if problem:
        pytest.skip(f"{name}: {problem}")


def containers_of(pid: int) -> list[str]:
    return [name for name in podman.known() if name.startswith(f"{cgroups.PREFIX}{pid}-")]


def inside(pid: int, port: int) -> socket.socket:
    """A connection from within the network namespace of a process: sockets stay where they were made."""
    made: list[socket.socket] = []
    libc = ctypes.CDLL(None, use_errno=True)

    def work() -> None:
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            if libc.setns(fd, 0x4000_0000) == 0:
                made.append(socket.create_connection(("127.0.0.1", port), 5))
        except OSError:
            pass
        finally:
            os.close(fd)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if not made:
        raise ConnectionRefusedError("not there")
    return made[0]


_SERVE = """
import os, sys, tarfile
files = os.open("/template.tar", os.O_RDONLY)
with os.fdopen(files, "rb") as file, tarfile.open(fileobj=file) as tar:
    for member in tar:
        tar.extract(member, "/", numeric_owner=True)
sys.path.insert(0, "/opt/guest")
from components.sandbox.x11.guest.serve import main
os._exit(main(["serve", sys.argv[1], "/token", "/episode.tar"]))
"""


@pytest.fixture
def pod() -> Iterator[int]:
    """A container as Kubernetes would run it, with nothing but its network namespace to reach it by: its first pid."""
    skip_without("runc")
    slot = SlotId()
    first = ["/usr/bin/python3", "-I", "-c", _SERVE, str(PORT)]
    bundle = runc.make_bundle(Path("/"), Limits(), slot.number, first)
    owner = 1_000_000 + slot.number * 65_536
    for name, data in (("template.tar", layout.archive()), ("episode.tar", layout.archive(system=False)),
                       ("token", TOKEN.encode())):  # fmt: skip
        (bundle / "rootfs" / name).write_bytes(data)
        os.chown(bundle / "rootfs" / name, owner, owner)
        (bundle / "rootfs" / name).chmod(0o400)
    process = subprocess.Popen(runc.command(bundle, "run", "--bundle", str(bundle), bundle.name),
                               stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    found: dict[str, Any] = {}

    def running() -> bool:
        state = subprocess.run(runc.command(bundle, "state", bundle.name), capture_output=True, check=False)
        found.update(json.loads(state.stdout) if state.returncode == 0 else {})
        return found.get("status") == "running"

    try:
        assert wait_for(running, 20)
        yield int(found["pid"])
    finally:
        runc.delete(bundle)
        process.kill()
        process.wait()
        slot.release()


def test_a_pod_gives_each_session_a_fresh_desktop_and_strangers_none(pod: int) -> None:
    def reachable() -> bool:
        try:
            inside(pod, PORT).close()
        except OSError:
            return False
        return True

    assert wait_for(reachable, 20)
    desktop = X11Desktop(Pod("pod", PORT, TOKEN, connect=lambda: inside(pod, PORT)))
    desktop.reset(make_task())
    person = Person(desktop)
    assert person.bash("id -u; cat /token /proc/1/environ /run/agent/* 2>/dev/null | wc -c").output.split()[0] == "1000"
    assert TOKEN not in person.bash("cat /token; tr '\\0' '\\n' < /proc/1/cmdline").output
    person.bash("echo left > ~/left; echo left > /tmp/left; echo left > /dev/shm/left; setsid nohup sleep 3131 &")
    desktop.reset(make_task())
    assert person.bash("ls ~ /tmp/left /dev/shm/left 2>/dev/null; pgrep -fc 'sleep 313[1]'").output == (
        "/home/user:\nDesktop\n0\n"
    )
    desktop.close()
    with pytest.raises(SandboxError, match="refused"):
        Pod("pod", PORT, "not-the-token-0123456", connect=lambda: inside(pod, PORT)).start(None, None)  # type: ignore[arg-type]
    desktop.reset(make_task())  # a stranger has changed nothing
    assert person.bash("echo on").output == "on\n"
    desktop.close()
