"""What a sandbox keeps in: each promise tried from inside, by the agent's own shell."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from components.contracts.errors import SandboxError
from components.sandbox.x11.desktop import X11Desktop
from components.sandbox.x11.drivers.base import Limits
from components.sandbox.x11.drivers.bwrap_host import BwrapHost

from .conftest import Person, make_task


def test_there_is_no_network(shared: Person) -> None:
    result = shared.bash("python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 5)' 2>&1 | tail -1")
    assert "unreachable" in result.output
    assert shared.bash("cat /proc/net/route | wc -l; ls /sys/class/net 2>/dev/null | wc -l").output == "1\n0\n"


def test_the_hosts_abstract_sockets_and_loopback_are_out_of_reach(shared: Person) -> None:
    name = f"\0cowork-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as host, socket.create_server(("127.0.0.1", 0)) as local:
        host.bind(name)
        host.listen()
        port = local.getsockname()[1]
        code = (
            "import socket\n"
            f"for family, at in ((socket.AF_UNIX, {name!r}), (socket.AF_INET, ('127.0.0.1', {port}))):\n"
            "    try: socket.socket(family).connect(at); print('reached')\n"
            "    except OSError as error: print('refused')\n"
        )
        shared.guest.put("probe.py", code.encode())
        assert shared.bash("python3 probe.py").output == "refused\nrefused\n"


def test_only_its_own_x_server_can_be_reached(shared: Person) -> None:
    displays = shared.bash("for n in 0 1 2 10 99; do DISPLAY=:$n timeout 5 xdpyinfo >/dev/null 2>&1 && echo $n; done")
    assert displays.output == "0\n"


@pytest.mark.parametrize("place", ["/", "/usr", "/etc", "/opt/guest", "/dev", "/var", "/etc/passwd"])
def test_the_system_cannot_be_written(shared: Person, place: str) -> None:
    target = place if place == "/etc/passwd" else f"{place}/made"
    assert shared.bash(f"echo x >> {target}").exit_code == 1
    assert shared.bash("mount -o remount,rw / 2>/dev/null").exit_code != 0


def test_nothing_of_the_launchers_environment_or_files_is_inside(shared: Person) -> None:
    code = (
        "import os\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    try: print(open(f'/proc/{pid}/environ').read().replace('\\0', '\\n'))\n"
        "    except OSError: pass\n"
        "print(open('/proc/self/mountinfo').read())\n"
    )
    shared.guest.put("look.py", code.encode())
    seen = shared.bash("python3 look.py; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '", timeout=60.0).output
    assert str(Path(__file__).resolve().parents[2]) not in seen
    for name, value in os.environ.items():
        if len(value) > 12 and not value.startswith(("/usr", "/bin", "/etc")):
            assert value not in seen, name
    assert shared.bash("ls /root /work /mnt /srv 2>/dev/null; ls /home").output == "user\n"
    assert shared.bash("tr '\\0' '\\n' < /proc/1/environ | grep -vc '^PWD=/$'").output in ("0\n", "")


def test_the_agent_cannot_be_looked_into_and_its_socket_not_be_found(shared: Person) -> None:
    for what in ("environ", "mem", "maps", "fd/3", "cwd"):
        assert shared.bash(f"head -c 1 /proc/2/{what} >/dev/null 2>&1 || ls /proc/2/{what}/ 2>/dev/null").exit_code != 0
    assert shared.bash("ls /proc/2/fd").exit_code != 0
    # The first process has the socket no more, and no socket file exists but those of the desktop's own parts.
    assert shared.bash("ls -l /proc/1/fd 2>/dev/null | grep -c socket").output == "0\n"
    sockets = shared.bash("find / -xdev -type s 2>/dev/null; find /tmp /run /home -type s").output.split()
    desktops = {"/tmp/.X11-unix/X0", "/run/user/1000/bus", "/run/user/1000/pcmanfm-socket--0"}
    assert set(sockets) <= desktops


def test_no_namespace_and_no_privilege_can_be_gained(shared: Person) -> None:
    assert shared.bash("unshare -Ur true 2>&1").exit_code != 0
    assert shared.bash("unshare -r -n true 2>&1").exit_code != 0
    status = shared.bash("grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs' /proc/self/status").output.split()
    assert status == ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
    assert shared.bash("echo 1 > /proc/sys/kernel/panic").exit_code == 1


def test_other_slots_cannot_be_seen_or_signalled(shared: Person, person: Person) -> None:
    mine = shared.bash("sleep 997 & echo $!").output.strip()
    assert person.bash("pgrep -f 'sleep 997'").exit_code == 1
    if os.geteuid() == 0:  # outside they are different users too
        assert len({os.stat(f"/proc/{p.desktop._sandbox.pid}").st_uid for p in (shared, person)}) == 2  # type: ignore
    with pytest.raises(SandboxError):  # it can end its own desktop, and no other
        person.bash(f"kill -9 {mine}; kill -9 -1")
    assert shared.bash("pgrep -xc sleep").output == "1\n"
    assert shared.bash("kill %1; cat /proc/sys/kernel/hostname").output == "desk\n"


def test_a_fork_bomb_and_full_disks_stay_inside(person: Person) -> None:
    person.bash(
        "for d in /tmp /home /dev/shm /run/user/1000; do head -c 3000000000 /dev/zero > $d/fill; done", timeout=60.0
    )
    sizes = person.bash("stat -c %s /tmp/fill /home/fill /dev/shm/fill /run/user/1000/fill 2>/dev/null").output.split()
    assert all(int(size) < 1 << 30 for size in sizes)
    person.bash("rm -f /tmp/fill /home/fill /dev/shm/fill /run/user/1000/fill")
    person.bash("bomb() { bomb | bomb & }; bomb", timeout=3.0)
    person.guest.kill_apps()
    person.bash("", restart=True)
    assert person.bash("echo alive", timeout=30.0).output.endswith("alive\n")


def test_a_memory_hog_alone_is_killed() -> None:
    desktop = X11Desktop(BwrapHost(), limits=Limits(memory_bytes=400 << 20))
    desktop.reset(make_task())
    try:
        if desktop.state()["limits"]["memory"] != "cgroup":
            pytest.skip("no memory group can be made here")
        result = desktop.guest.bash("python3 -c 'a = b\"x\" * (1 << 30)'; echo $?", timeout=60.0)
        assert result.output.split()[-1] == "137"
        assert desktop.guest.gone() == []
    finally:
        desktop.close()


def test_several_desktops_start_from_threads(shared: Person) -> None:
    desktops = [X11Desktop(BwrapHost()) for _ in range(2)]
    threads = [threading.Thread(target=desktop.reset, args=(make_task(),)) for desktop in desktops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:  # they outlive the threads that started them
        assert [desktop.guest.bash("echo up").output for desktop in desktops] == ["up\n", "up\n"]
    finally:
        for desktop in desktops:
            desktop.close()
