"""Confinement of an episode's processes: which kinds this machine allows, and the command lines that apply them.

Three kinds. `bwrap` uses bubblewrap, `userns` the same idea by util-linux's `unshare` and a mount script,
`none` nothing at all (only when the caller says so). Both real kinds give the guest its own user, process,
network, IPC, mount and host-name namespaces, a read-only system, and one writable place: its home.

Why root needs more steps than an ordinary user: the kernel does not apply RLIMIT_NPROC to the real root
(kernel/fork.c, `copy_process`: `real_cred->user != INIT_USER`), so a fork bomb started by root would not be
stopped by it. Root therefore lays out the file system, gives up its identity for `GUEST_UID`, and only then
enters the user namespace in which the guest is uid 1000 whoever started it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from components.contracts.errors import SandboxError

Confinement = Literal["bwrap", "userns", "none"]

ARGS_FD = "ARGS_FD"
INSIDE_HOME = "/home/user"
INSIDE_GUEST = "/opt/guest"
INSIDE_SITE = "/opt/site"
INSIDE_PYTHON = "/opt/python"

GUEST_UID = 65533
"""Who the guest is outside when root starts it: 65520..65533 belong to nobody by convention (systemd's UIDS-GIDS)."""

REMEDY = (
    "install bubblewrap >= 0.8 (apt install bubblewrap), or allow unprivileged user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; in a container "
    "a seccomp profile that permits unshare and mount), or accept no isolation with --unconfined"
)

_SHELL = Path(__file__).resolve().parent / "shell"
_ETC = _SHELL / "etc"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_HOST_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_SYSTEM_DIRS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True)
class ShellLimits:
    """Limits of one shell. They bind each process, except `processes` and `tmp_bytes`, which bind the session.

    memory_bytes: address space a process may map. file_bytes: largest file it may write. cpu_seconds: processor
    time of one process. open_files: descriptors of one process. processes: tasks (threads count) alive at once.
    tmp_bytes: all of /tmp. output_chars: characters of one command's output that are kept.
    """

    memory_bytes: int = 1 << 30
    file_bytes: int = 32 << 20
    cpu_seconds: int = 60
    open_files: int = 256
    processes: int = 64
    tmp_bytes: int = 32 << 20
    output_chars: int = 8000


@dataclass(frozen=True)
class Probe:
    """What `detect` found. `process_limit`: a fork bomb was really stopped. `remedy` is empty when all is well."""

    confinement: Confinement
    details: str
    remedy: str = ""
    process_limit: bool = True


@dataclass(frozen=True)
class Launch:
    """How to start the guest's first process: arguments, environment, and directory on the host (None = leave)."""

    argv: list[str]
    """The word `ARGS_FD` in it stands for the number of a descriptor with `hidden`."""
    env: dict[str, str]
    cwd: str | None
    home: str
    """The home as the guest names it."""
    limit_processes: bool = True
    """Whether `ulimit -u` means this session only (False when unconfined: it would count the user's others too)."""
    owner: int | None = None
    """Host uid that must own the home's files; None = whoever starts the guest."""
    hidden: bytes = b""
    """Arguments with paths of the host, kept out of the command line that the guest's `ps` shows."""

    @contextmanager
    def arguments(self) -> Iterator[tuple[list[str], tuple[int, ...]]]:
        """(argv, descriptors to pass on), valid inside the `with` block."""
        if not self.hidden:
            yield self.argv, ()
            return
        end, filled = os.pipe2(os.O_CLOEXEC)
        try:
            with os.fdopen(filled, "wb") as file:
                file.write(self.hidden)
            yield [str(end) if word == ARGS_FD else word for word in self.argv], (end,)
        finally:
            os.close(end)


def host_site() -> Path | None:
    """The site-packages that holds openpyxl here; shown to the guest read-only, so that its python has it too."""
    found = importlib.util.find_spec("openpyxl")
    return Path(found.origin).parent.parent if found and found.origin else None


def host_python() -> Path | None:
    """The running interpreter's installation, when the system directories that the guest sees have no python3."""
    if shutil.which("python3", path=_SYSTEM_PATH):
        return None
    return Path(sys.base_prefix).resolve()


def wrap(
    argv: Sequence[str],
    home: Path,
    *,
    limits: ShellLimits,
    confinement: Confinement,
    guest: Path | None = None,
    site: Path | None = None,
    extra: Sequence[tuple[Path, str]] = (),
    own_python: bool = False,
) -> Launch:
    """Command line that runs `argv` in `home` under `confinement`.

    `guest` holds the harness's commands, in `guest/bin`, first in PATH. `site` is a site-packages directory for
    the guest's python; with it comes the interpreter it belongs to where the system has none, or always with
    `own_python`: for compiled packages, which other versions cannot load. `extra`: (folder, place below /opt) shown
    read-only too. Raises `SandboxError` when `home` is no directory.
    """
    home = home.resolve()
    if not home.is_dir():
        raise SandboxError("the home directory does not exist", where=str(home), remedy="create it before the session")
    python = Path(sys.base_prefix).resolve() if own_python else host_python() if site else None
    binds = [
        (path, inside)
        for path, inside in ((guest, INSIDE_GUEST), (site, INSIDE_SITE), (python, INSIDE_PYTHON), *extra)
        if path is not None
    ]
    if confinement == "none":
        return _unconfined(argv, home, guest, site, python)
    env = _environment(INSIDE_HOME, INSIDE_GUEST if guest else None, INSIDE_SITE if site else None,
                       INSIDE_PYTHON if python else None)  # fmt: skip
    as_root = os.geteuid() == 0
    owner = GUEST_UID if as_root else None
    binds = [(path.resolve(), inside) for path, inside in binds]
    if confinement == "userns":
        return Launch(_userns(list(argv), home, binds, limits, as_root), env, None, INSIDE_HOME, owner=owner)
    options, command = _bwrap(home, binds, limits, as_root)
    hidden = b"".join(os.fsencode(option) + b"\0" for option in options)
    bwrap = shutil.which("bwrap") or "bwrap"
    full = [bwrap, "--args", ARGS_FD, "--", *command, *argv]
    return Launch(full, env, None, INSIDE_HOME, owner=owner, hidden=hidden)


def _environment(home: str, guest: str | None, site: str | None, python: str | None) -> dict[str, str]:
    """All variables the guest gets: nothing of the host's environment passes."""
    path = [f"{guest}/bin"] if guest else []
    path += [f"{python}/bin"] if python else []
    env = {
        "HOME": home, "PATH": ":".join([*path, _SYSTEM_PATH]), "LANG": "C.UTF-8", "TZ": "UTC", "USER": "user",
        "LOGNAME": "user", "SHELL": "/bin/bash", "TERM": "dumb", "PAGER": "cat",
        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    if site:
        env["PYTHONPATH"] = site
    return env


def _unconfined(argv: Sequence[str], home: Path, guest: Path | None, site: Path | None, python: Path | None) -> Launch:
    env = _environment(str(home), str(guest.resolve()) if guest else None, str(site) if site else None,
                       str(python) if python else None)  # fmt: skip
    leash = shutil.which("setpriv")
    prefix = [leash, "--pdeathsig", "KILL", "--"] if leash else []
    return Launch([*prefix, *argv], env, str(home), str(home), limit_processes=False)


def _bwrap(
    home: Path, binds: list[tuple[Path, str]], limits: ShellLimits, as_root: bool
) -> tuple[list[str], list[str]]:
    """(options, what to put before the command)."""
    args = ["--die-with-parent", "--new-session", "--hostname", "desk"]
    args += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    as_user = ["--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns", "--cap-drop", "ALL"]
    if not as_root:
        args += as_user
    args += ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM_DIRS:
        args += _system_dir(name)
    for inside in ("/etc", "/home", "/opt"):
        args += ["--perms", "0755", "--dir", inside]
    for name in _HOST_ETC:
        args += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name in ("passwd", "group", "hosts"):
        args += ["--ro-bind", str(_ETC / name), f"/etc/{name}"]
    args += ["--proc", "/proc", "--size", "65536", "--perms", "0755", "--tmpfs", "/dev"]
    for name in _DEVICES:
        args += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        args += ["--symlink", f"/proc/self/fd{target}", f"/dev/{name}"]
    args += ["--remount-ro", "/dev", "--size", str(limits.tmp_bytes), "--perms", "1777", "--tmpfs", "/tmp"]
    for path, inside in binds:
        if (parent := str(Path(inside).parent)) != "/opt":  # made by itself it would be root's alone
            args += ["--perms", "0755", "--dir", parent]
        args += ["--ro-bind", str(path), inside]
    args += ["--bind", str(home), INSIDE_HOME, "--remount-ro", "/", "--chdir", INSIDE_HOME]
    if not as_root:
        return args, []
    # Inside the finished layout root becomes the guest's uid and enters the user namespace of an ordinary user's case.
    return args, [*_drop_root(), "bwrap", "--die-with-parent", *as_user, "--dev-bind", "/", "/", "--chdir", INSIDE_HOME,
                  "--"]  # fmt: skip


def _system_dir(name: str) -> list[str]:
    """/bin and its like: a link on merged systems, a directory on older ones, absent on some."""
    path = Path("/") / name
    if path.is_symlink():
        return ["--symlink", os.readlink(path).lstrip("/"), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.is_dir() else []


def _drop_root() -> list[str]:
    uid = str(GUEST_UID)
    return ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps", "-all", "--"]


def _userns(
    argv: list[str], home: Path, binds: list[tuple[Path, str]], limits: ShellLimits, as_root: bool
) -> list[str]:
    unshare = shutil.which("unshare") or "unshare"
    args = [shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--", unshare]
    args += ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child=KILL", "--propagation", "private"]
    if not as_root:
        args += ["--user", "--map-root-user"]
    args += ["--", "/bin/bash", str(_SHELL / "userns.sh"), str(home), str(_ETC), str(limits.tmp_bytes)]
    args += [f"{path}={inside}" for path, inside in binds] + ["--"]
    args += _drop_root() if as_root else []
    return [*args, "unshare", "--user", "--map-root-user", "--", "/bin/bash", "-c", _LAST_NAMESPACE, "userns", *argv]


# The guest's own user namespace is the only one that may exist inside: no nested one, hence no capabilities to gain.
# The death signal is set last, since a change of identity clears it (prctl(2)).
_LAST_NAMESPACE = (
    "echo 1 > /proc/sys/user/max_user_namespaces;"
    'exec unshare --user --map-user=1000 --map-group=1000 -- setpriv --no-new-privs --pdeathsig KILL -- "$@"'
)


@functools.cache
def detect() -> Probe:
    """The strongest confinement that works here, found by running a process in each. Cached for the process.

    The trial checks what matters: the home is writable, the root is not, and a small fork bomb is stopped.
    """
    refused = []
    kinds: tuple[Confinement, ...] = ("bwrap", "userns")
    for kind in kinds:
        tool = "bwrap" if kind == "bwrap" else "unshare"
        if shutil.which(tool) is None:
            refused.append(f"{kind}: {tool} is not installed")
            continue
        problem, limited = trial(kind)
        if not problem:
            note = "" if limited else "; the kernel does not apply the process limit here"
            return Probe(kind, f"{kind} works{note}", "" if limited else "run as an ordinary user", limited)
        refused.append(f"{kind}: {problem}")
    return Probe("none", "; ".join(refused), REMEDY, False)


_TRIAL = """
: > ok || exit 11
: 2>/dev/null > /outside && exit 12
ulimit -u 1
exec timeout 5 true
"""
_FORK_REFUSED = 125
"""Exit status of timeout(1) when it cannot fork; bash itself would retry for half a minute."""


@functools.cache
def trial(kind: Confinement) -> tuple[str, bool]:
    """Try one kind: (what went wrong or "", whether the process limit held)."""
    with tempfile.TemporaryDirectory(prefix="cowork-probe-") as name:
        home = Path(name)
        launch = wrap(["/bin/bash", "--norc", "--noprofile", "-c", _TRIAL], home, limits=ShellLimits(),
                      confinement=kind)  # fmt: skip
        if launch.owner is not None:
            os.chown(home, launch.owner, launch.owner)
        try:
            with launch.arguments() as (argv, fds):
                done = subprocess.run(
                    argv, env=launch.env, pass_fds=fds, stdin=subprocess.DEVNULL, capture_output=True, timeout=10,
                    check=False,
                )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error), False
        if not (home / "ok").exists() or done.returncode in (11, 12):
            return (done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"), False
        return "", done.returncode == _FORK_REFUSED
