"""Which driver is taken, what it is given, and the groups of a version 2 hierarchy, without a desktop."""

from __future__ import annotations

import io
import socket
import tarfile
import threading
from pathlib import Path

import pytest

from components.contracts.errors import ParamsError, SandboxError
from components.sandbox.x11.drivers import cgroups, choose, image, layout, oci
from components.sandbox.x11.drivers.base import Limits
from components.sandbox.x11.drivers.pod import Pod
from components.sandbox.x11.guest import serve


class Lame:
    name = "lame"

    def problem(self) -> str:
        return "it is lame"


def test_a_driver_is_taken_by_name_or_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParamsError, match="there is no driver"):
        choose.choose_driver("docker")
    with pytest.raises(ParamsError, match="needs the folder"):
        choose.choose_driver("bwrap-rootfs")
    with pytest.raises(ParamsError, match="no image"):
        choose.choose_driver("bwrap-host", Path("/nowhere"))
    with pytest.raises(SandboxError, match="not installed: python3"):
        choose.choose_driver("bwrap-rootfs", Path("/nowhere"))
    monkeypatch.setattr(choose, "Runc", lambda root: Lame())
    monkeypatch.setattr(choose, "Podman", lambda root, image: Lame())
    monkeypatch.setattr(choose, "BwrapHost", Lame)
    with pytest.raises(SandboxError, match="runc: it is lame; podman: it is lame; bwrap-host: it is lame"):
        choose.choose_driver()


def test_a_bundle_gives_nothing_away() -> None:
    config = oci.config(Path("/"), Limits(processes=100), 7, ["/bin/true"])
    kinds = {entry["type"] for entry in config["linux"]["namespaces"]}
    assert kinds == {"pid", "network", "ipc", "uts", "mount", "user", "cgroup"}
    assert config["root"]["readonly"] and config["process"]["noNewPrivileges"]
    assert not {"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_PTRACE", "CAP_MKNOD"} & {
        name for names in config["process"]["capabilities"].values() for name in names
    }
    for mount in config["mounts"]:
        assert mount["type"] != "bind" or {"ro", "nosuid", "nodev"} <= set(mount["options"])
        assert mount["type"] != "tmpfs" or any(option.startswith("size=") for option in mount["options"])
    assert {entry["hostID"] for entry in config["linux"]["uidMappings"]} == {1_000_000 + 7 * 65_536}
    assert oci.uid_range(8) - oci.uid_range(7) == oci.RANGE
    assert config["linux"]["resources"]["pids"]["limit"] == 100


def test_the_archive_holds_a_desktop_with_two_owners() -> None:
    with tarfile.open(fileobj=io.BytesIO(layout.archive())) as tar:
        members = {f"/{member.name}": member for member in tar}
    assert members[layout.HOME].uid == members[f"{layout.HOME}/.config"].uid == 1000
    assert {members[path].uid for path, _ in layout.agent_files()} == {0}
    assert {members[path].mode & 0o022 for path, _ in layout.agent_files()} == {0}
    assert members["/tmp"].mode == 0o1777
    with tarfile.open(fileobj=io.BytesIO(layout.archive(system=False))) as tar:
        assert not [member.name for member in tar if member.name.startswith(("etc", "opt"))]


def test_a_version_2_group_gets_its_limits_and_is_removed(tmp_path: Path) -> None:
    parent = tmp_path / "user.slice"
    parent.mkdir()
    group = cgroups.make_group(123, 45, {"unified": parent})
    assert group.holds == ("memory", "pids")
    (join,) = group.joins
    folder = Path(join).parent
    assert folder.parent == parent and join.endswith("/cgroup.procs")
    assert {name: (folder / name).read_text() for name in ("memory.max", "pids.max", "memory.swap.max")} == {
        "memory.max": "123", "pids.max": "45", "memory.swap.max": "0",
    }  # fmt: skip
    assert (parent / "cgroup.subtree_control").read_text() == "+memory +pids"
    for file in folder.iterdir():  # a real hierarchy's files go with their folder
        file.unlink()
    group.remove()
    assert not folder.exists()


def test_where_no_group_can_be_made_nothing_holds_and_nothing_fails(tmp_path: Path) -> None:
    group = cgroups.make_group(123, 45, {"unified": tmp_path / "absent", "memory": tmp_path / "absent"})
    assert group.holds == () and group.joins == []


def _pod(token: bytes, answers: list[bool]) -> tuple[socket.socket, threading.Thread]:
    ours, theirs = socket.socketpair()

    def run() -> None:
        answers.append(serve.welcome(theirs, token))
        theirs.close()

    thread = threading.Thread(target=run)
    thread.start()
    return ours, thread


def test_a_pod_is_opened_by_its_token_and_the_token_is_never_sent() -> None:
    answers: list[bool] = []
    ours, thread = _pod(b"right-token-0123456789", answers)
    challenge = serve.receive_exactly(ours, serve.CHALLENGE)
    ours.sendall(serve.answer_to(challenge, b"wrong-token-0123456789"))
    assert ours.recv(10) == b""
    thread.join()
    assert answers == [False]
    assert b"right" not in serve.answer_to(challenge, b"right-token-0123456789")
    with pytest.raises(SandboxError, match="fewer than 16"):
        Pod("127.0.0.1", 1, "short").start(None, None)  # type: ignore[arg-type]
    with pytest.raises(SandboxError, match="no pod answers"):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        Pod("127.0.0.1", port, "right-token-0123456789").start(None, None)  # type: ignore[arg-type]


def test_the_image_has_the_environment_and_programs_that_a_desktop_needs(tmp_path: Path) -> None:
    image.write(tmp_path)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    image.write(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first  # the same bytes each time
    text = (Path(__file__).resolve().parents[3] / "manifests/images/desktop/Containerfile").read_text(encoding="utf-8")
    for name, value in layout.environment().items():
        assert f"{name}={value}" in text, name
    words = set(text.replace("\\", " ").split())
    assert {"xvfb", "openbox", "pcmanfm", "tint2", "dbus", "util-linux", "python3-xlib", "python3-pil"} <= words
