"""What a sandbox's file system and environment hold: the same on every machine, as far as its packages are."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from components.sandbox.x11.drivers.base import Screen
from components.sandbox.x11.guest import boot
from components.sandbox.x11.guest.identity import TRUSTED, USER

HOME = "/home/user"
RUNTIME = "/run/user/1000"
AGENT = "/opt/guest"
PATH = "/usr/local/bin:/usr/bin:/bin"

_COMPONENTS = Path(__file__).resolve().parents[3]
_X11 = Path(__file__).resolve().parents[1]
_PROFILE, _ETC = _X11 / "profile", _X11 / "etc"
_EMPTY_PACKAGES = ("", "sandbox", "sandbox/shell", "sandbox/x11")
_START = (
    f"import sys; sys.path.insert(0, {AGENT!r}); "
    "from components.sandbox.x11.guest.agent import main; sys.exit(main(sys.argv))"
)

ETC = {
    "passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:1000:1000:user:/home/user:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost desk shop.local\n",
    "machine-id": "0123456789abcdef0123456789abcdef\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    **{path.relative_to(_ETC).as_posix(): path.read_text() for path in sorted(_ETC.rglob("*")) if path.is_file()},
}
"""Made up, so that nothing of the host shows. `x11/etc` holds the longer ones: Chromium's flags and policy."""

HOST_ETC = (
    "alternatives", "fonts", "gimp", "gtk-2.0", "gtk-3.0", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "libreoffice", "mailcap", "mime.types", "openbox", "python3", "python3.11", "ssl/certs", "X11/app-defaults",
    "X11/rgb.txt", "xdg",
)  # fmt: skip
"""What applications read of the host's /etc; shown read-only where it is there. Nothing with accounts or keys."""

HOST_VAR = ("/var/cache/fontconfig", "/var/lib/libreoffice")
SYSTEM_DIRS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
PROGRAMS = ("python3", "choom", "setsid", "Xvfb", "openbox", "pcmanfm", "tint2", "dbus-daemon")
"""What a desktop is made of; all in /usr/bin, inside."""


def missing(root: Path) -> list[str]:
    """Programs that the system below `root` lacks."""
    return [name for name in PROGRAMS if not (root / "usr/bin" / name).exists()]


def system(root: Path) -> Iterator[tuple[str, str]]:
    """(source, place inside) of the system below `root`; a source that is no absolute path is a link's target."""
    yield str(root / "usr"), "/usr"
    for name in SYSTEM_DIRS:
        path = root / name
        if path.is_symlink():
            yield os.readlink(path).lstrip("/"), f"/{name}"
        elif path.is_dir():
            yield str(path), f"/{name}"


def shared(root: Path) -> Iterator[tuple[str, str]]:
    """(source, place inside) of what else is shown read-only, as far as it is there."""
    for place in (*(f"/etc/{name}" for name in HOST_ETC), *HOST_VAR):
        source = root / place.lstrip("/")
        if source.exists():
            yield str(source), place


def environment() -> dict[str, str]:
    """All variables of the agent and, with DISPLAY, of the applications."""
    return {
        "HOME": HOME, "PATH": PATH, "LANG": "C.UTF-8", "TZ": "UTC", "USER": "user", "LOGNAME": "user",
        "SHELL": "/bin/bash", "XDG_RUNTIME_DIR": RUNTIME, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={RUNTIME}/bus",
        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
        # No accessibility bus, no remote file systems, settings in a text file: less to start, nothing to time out.
        "NO_AT_BRIDGE": "1", "GIO_USE_VFS": "local", "GSETTINGS_BACKEND": "keyfile",
        "SAL_USE_VCLPLUGIN": "gtk3", "XDG_CURRENT_DESKTOP": "LXDE",
    }  # fmt: skip


def agent_files() -> Iterator[tuple[str, bytes]]:
    """(path inside, contents) of the agent: its own modules, and empty packages around them."""
    for package in _EMPTY_PACKAGES:
        yield "/".join(filter(None, (AGENT, "components", package, "__init__.py"))), b""
    output = _COMPONENTS / "sandbox" / "shell" / "output.py"
    for path in [output, *sorted((_COMPONENTS / "sandbox" / "x11" / "guest").glob("*.py"))]:
        yield f"{AGENT}/components/{path.relative_to(_COMPONENTS).as_posix()}", path.read_bytes()


def profile_files() -> Iterator[tuple[str, bytes]]:
    """(path inside, contents) of the home template. `profile/config` is the home's `.config`."""
    for path in sorted(_PROFILE.rglob("*")):
        if path.is_file():
            yield f"{HOME}/.{path.relative_to(_PROFILE).as_posix()}", path.read_bytes()


def folders() -> Iterator[tuple[str, int, int]]:
    """(path inside, mode, owner) of the folders that a desktop needs before its agent starts, where there are two
    users: root's the agent's, 1000 the applications'."""
    yield "/tmp", 0o1777, 0
    yield "/dev/shm", 0o1777, 0
    yield "/tmp/.X11-unix", 0o1777, 0
    yield "/run/user", 0o755, 0
    yield RUNTIME, 0o700, USER
    yield TRUSTED, 0o755, 0
    yield HOME, 0o755, USER


def archive(*, system: bool = True) -> bytes:
    """A tar of all that is no package, for `guest/boot.py`. Without `system`: only what an episode may change."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:

        def add(path: str, kind: bytes, mode: int, owner: int, data: bytes = b"") -> None:
            member = tarfile.TarInfo(path.lstrip("/"))
            member.type, member.mode, member.uid, member.gid, member.size = kind, mode, owner, owner, len(data)
            tar.addfile(member, io.BytesIO(data))

        for path, mode, owner in folders():
            add(path, tarfile.DIRTYPE, mode, owner)
        if system:
            for path, data in agent_files():
                add(path, tarfile.REGTYPE, 0o644, 0, data)
            for name, text in ETC.items():
                add(f"/etc/{name}", tarfile.REGTYPE, 0o644, 0, text.encode())
        made_folders = {HOME}
        for path, data in profile_files():
            parents = [str(parent) for parent in Path(path).parents if parent.is_relative_to(HOME)]
            for folder in reversed(parents):
                if folder not in made_folders:
                    made_folders.add(folder)
                    add(folder, tarfile.DIRTYPE, 0o755, USER)
            add(path, tarfile.REGTYPE, 0o644, USER, data)
    return made.getvalue()


def boot_command(socket_fd: int, files_fd: int, eye_fd: int) -> list[str]:
    """First process of a container, see `guest/boot.py`."""
    source = Path(boot.__file__).read_text(encoding="utf-8")
    return ["/usr/bin/python3", "-I", "-c", source, str(socket_fd), str(files_fd), str(eye_fd)]


def agent_command(fd: int, eye: int) -> list[str]:
    """Under the system's python, which has the X and picture libraries; with -I no variable and no home counts."""
    return ["/usr/bin/python3", "-I", "-c", _START, str(fd), str(eye)]


def settings(screen: Screen, output_chars: int = 8000) -> dict[str, object]:
    """First message to the agent."""
    return {"size": [screen.width, screen.height], "output_chars": output_chars}
