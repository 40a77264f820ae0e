"""What a sandbox's file system and environment hold: the same on every machine, as far as its packages are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from components.sandbox.x11.drivers.base import Screen

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
    "alternatives", "fonts", "gimp", "gtk-2.0", "gtk-3.0", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "libreoffice",
    "mailcap", "mime.types", "openbox", "python3", "python3.11", "ssl/certs", "X11/app-defaults", "X11/rgb.txt", "xdg",
)  # fmt: skip
"""What applications read of the host's /etc; shown read-only where it is there. Nothing with accounts or keys."""

HOST_VAR = ("/var/cache/fontconfig", "/var/lib/libreoffice")
SYSTEM_DIRS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


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


def agent_command(fd: int) -> list[str]:
    """Under the system's python, which has the X and picture libraries; with -I no variable and no home counts."""
    return ["/usr/bin/python3", "-I", "-c", _START, str(fd)]


def settings(screen: Screen, output_chars: int = 8000) -> dict[str, object]:
    """First message to the agent."""
    return {"size": [screen.width, screen.height], "output_chars": output_chars}
