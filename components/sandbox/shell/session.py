"""A persistent, confined `bash` for one episode.

How a command travels. Bash reads its own script from standard input, which is a pipe from us. For a command we
write a fixed line that reads what follows up to a NUL as data; the command and a NUL; two more fixed lines; a random
token and a NUL. The fixed lines `eval` the command, with standard input from /dev/null, output and errors in one pipe
to us, and our other pipes closed; then they read the token, and write token, exit status and directory to the report
pipe. So a command is never spliced into a script, whatever it contains cannot end the framing, what it prints
cannot be mistaken for a report, and since the fixed lines run at top level, `break`, `return`, `declare` or a syntax
error in a command mean what they mean in a script. A shell that exits, hangs or is replaced (`exec`) is noticed by
its end or by the deadline, and the next command gets a new one in the same directory.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shlex
import termios
import time
from dataclasses import dataclass, replace
from pathlib import Path
from select import POLLIN, POLLOUT, poll

from components.contracts.errors import SandboxError
from components.sandbox.confine import Confinement, Launch, ShellLimits, detect, host_site, wrap
from components.sandbox.shell import spawn
from components.sandbox.shell.files import adopt
from components.sandbox.shell.output import CappedOutput

_OUTPUT, _REPORT = 201, 202
"""Descriptors inside bash, out of the way of what commands use."""

_TAKE_COMMAND = b"\nIFS= \\builtin read -r -d '' __command\n"
_RUN_AND_REPORT = f"""\
__status_is "$__status"; \\builtin eval "$__command" </dev/null >&{_OUTPUT} 2>&1 {_OUTPUT}>&- {_REPORT}>&-
__status=$?; IFS= \\builtin read -r -d '' __token; __report "$__token" >&{_REPORT}
""".encode()

GUEST_LIBRARY = Path(__file__).resolve().parent / "guest"
"""The harness's commands for the guest: pass it as `guest`."""

_READY = b"ready\0"
_CHUNK = 1 << 16
_REPORT_LIMIT = 1 << 16
_LONGEST_WAIT_MS = 60_000
_TIMED_OUT = 124
"""Exit code of a command that ran out of time, as timeout(1) has it."""


@dataclass(frozen=True)
class ShellResult:
    """What a command gave. `output` has standard output and errors in order, then the session's own bracketed notes."""

    output: str
    exit_code: int
    timed_out: bool = False
    truncated: bool = False


class ShellSession:
    """One episode's shell. Starts with the first command; state lasts until `restart` or `close`.

    home: the directory that is the guest's world, writable, seen as /home/user.
    confinement: None = what `detect()` finds. "none" needs `unconfined=True`.
    guest: directory with the harness's commands in `bin`. site: site-packages for the guest's python.
    Raises `SandboxError` when no confinement works and `unconfined` is not set. Not thread-safe: one caller at a time.
    """

    def __init__(
        self,
        home: Path,
        *,
        limits: ShellLimits | None = None,
        confinement: Confinement | None = None,
        guest: Path | None = None,
        site: Path | None = None,
        unconfined: bool = False,
    ) -> None:
        self.limits = limits or ShellLimits()
        if confinement is None:
            probe = detect()
            confinement = probe.confinement
            if confinement == "none" and not unconfined:
                raise SandboxError(f"no confinement works here: {probe.details}", where="shell", remedy=probe.remedy)
        elif confinement == "none" and not unconfined:
            raise SandboxError("a shell without confinement was asked for", where="shell",
                               remedy="say so with unconfined=True (--unconfined)")  # fmt: skip
        self.confinement: Confinement = confinement
        self.home = home
        self._launch: Launch = wrap(
            ["bash", "--noprofile", "--norc"], home, limits=self.limits, confinement=confinement, guest=guest,
            site=site if site is not None else host_site(),
        )  # fmt: skip
        self._guest: spawn.Guest | None = None
        self._script_lines = 0
        self._directory = self._launch.home
        self._ready = False
        self._closed = False

    @property
    def directory(self) -> str:
        """The shell's directory after the last command, as the guest names it."""
        return self._directory

    def run(self, command: str, timeout: float = 30.0) -> ShellResult:
        """Run `command`; give up after `timeout` seconds. Only a failing sandbox raises (`SandboxError`)."""
        if self._closed:
            raise SandboxError("the shell session is closed", where="shell", remedy="open a new one")
        if "\0" in command:
            return ShellResult("bash: the command contains a NUL character\n", 2)
        deadline = time.monotonic() + timeout
        guest, opening, note = self._started()
        token = secrets.token_hex(16).encode()
        first = self._script_lines + _TAKE_COMMAND.count(b"\n") + 1
        self._script_lines = first + 1
        data = opening + _TAKE_COMMAND + command.encode(errors="replace") + b"\0" + _RUN_AND_REPORT + token + b"\0"
        result = self._exchange(guest, data, token, deadline, timeout)
        output = _renumber(result.output, first, command.count("\n"))
        return replace(result, output=_append(output, note) if note else output)

    def restart(self) -> None:
        """Kill the shell and all it started. The next command gets a new one, at home."""
        self._stop()
        self._directory = self._launch.home

    def close(self) -> None:
        """End the session: when this returns no process of it is left. Harmless when repeated."""
        self._stop()
        if self._launch.owner is not None and not self._closed and self.home.is_dir():
            adopt(self.home, os.geteuid())
        self._closed = True

    def __enter__(self) -> ShellSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop(self) -> int:
        guest, self._guest = self._guest, None
        self._ready = False
        return spawn.stop(guest, confined=self.confinement != "none") if guest else 0

    def _started(self) -> tuple[spawn.Guest, bytes, str]:
        """(the running shell, script lines it must get first, a note for the reader), starting one where needed."""
        if self._launch.owner is not None:
            try:
                adopt(self.home, self._launch.owner)
            except OSError as error:
                raise SandboxError(f"the home cannot be used: {error}", where=str(self.home)) from error
        note = ""
        if self._guest is not None and spawn.has_ended(self._guest):  # between two commands, by a background job
            self._stop()
            note = f"the shell had ended; this ran in a new one in {self._directory}"
        if self._guest is not None:
            return self._guest, b"", note
        self._guest = spawn.start(self._launch)
        opening = self._first_lines()
        self._script_lines = opening.count(b"\n")
        return self._guest, opening, note

    def _first_lines(self) -> bytes:
        limits = self.limits
        values = {"c": 0, "f": limits.file_bytes // 1024, "n": limits.open_files, "t": limits.cpu_seconds,
                  "v": limits.memory_bytes // 1024}  # fmt: skip
        if self._launch.limit_processes:
            values["u"] = limits.processes
        # One call each: a limit that the host sets lower already is refused, and must not keep the others away.
        ulimit = "; ".join(f"ulimit -{letter} {value}" for letter, value in values.items())
        lines = [
            f"exec {_OUTPUT}>&1 {_REPORT}>&2 >/dev/null 2>&1",
            f"{ulimit}; printf 'ready\\0' >&{_REPORT}",
            '__status=0; __status_is() { \\builtin return "$1"; }',
            '__report() { \\builtin printf \'%s %d %s\\0\' "$1" "$__status" "$PWD"; }',
            f"cd -- {shlex.quote(self._directory)}" if self._directory != self._launch.home else "",
        ]
        return "".join(f"{line}\n" for line in lines if line).encode(errors="surrogateescape")

    def _exchange(self, guest: spawn.Guest, data: bytes, token: bytes, deadline: float, timeout: float) -> ShellResult:
        """Send `data`, collect output, and wait for the report with `token`, the shell's end or the deadline."""
        output = CappedOutput(self.limits.output_chars)
        report = b""
        waiter = poll()
        for end in (guest.output, guest.report, guest.pidfd):
            waiter.register(end, POLLIN)
        data = _write(guest.control, data)
        if data:
            waiter.register(guest.control, POLLOUT)
        while True:
            left = int(min((deadline - time.monotonic()) * 1000, _LONGEST_WAIT_MS))
            events = dict(waiter.poll(max(left, 0)))
            if guest.output in events:
                chunk = _read(guest.output, _CHUNK)
                output.feed(chunk)
                if not chunk:  # nobody holds the other end any more
                    waiter.unregister(guest.output)
            if guest.report in events:
                chunk = _read(guest.report, _CHUNK)
                report = (report + chunk)[-_REPORT_LIMIT:]
                if not chunk:
                    waiter.unregister(guest.report)
                if not self._ready and report.startswith(_READY):
                    self._ready, report = True, report[len(_READY) :]
                    spawn.find_init(guest)
                found = re.search(re.escape(token) + rb" (\d+) ([^\0]*)\0", report)
                if found:
                    self._directory = os.fsdecode(found[2])
                    return _result(guest, output, int(found[1]))
            if data and guest.control in events:
                data = _write(guest.control, data)
                if not data:
                    waiter.unregister(guest.control)
            if guest.pidfd in events:
                return self._ended(guest, output, report)
            if left <= 0:
                result = _result(guest, output, _TIMED_OUT)
                self._stop()
                note = f"timed out after {timeout:g} s and was killed; the shell was restarted in {self._directory}"
                return ShellResult(_append(result.output, note), _TIMED_OUT, True, result.truncated)

    def _ended(self, guest: spawn.Guest, output: CappedOutput, report: bytes) -> ShellResult:
        """The shell is gone: by the command's own doing, or because the sandbox could not be set up."""
        result = _result(guest, output, 0)
        report += _read(guest.report, _CHUNK)
        ready = self._ready or report.startswith(_READY)
        code = self._stop()
        if not ready:
            reason = report.decode(errors="replace").strip() or f"exit code {code}"
            raise SandboxError(f"the shell could not be started: {reason}", where=self.confinement,
                               remedy="run `cowork doctor`")  # fmt: skip
        note = f"the shell ended with exit code {code}; a new one was started in {self._directory}"
        return ShellResult(_append(result.output, note), code, False, result.truncated)


def _result(guest: spawn.Guest, output: CappedOutput, code: int) -> ShellResult:
    """The result, with what is in the pipe now: no more than that, a background job may go on writing for ever."""
    size = int.from_bytes(fcntl.ioctl(guest.output, termios.FIONREAD, b"\0" * 4), "little")
    while size > 0 and (chunk := _read(guest.output, size)):
        output.feed(chunk)
        size -= len(chunk)
    text, truncated = output.finish()
    return ShellResult(text, code, False, truncated)


def _renumber(text: str, first: int, more: int) -> str:
    """Let bash's messages count lines of the command rather than of the session's script.

    `first` is the script's line that runs the command, `more` the newlines in it. Other numbers are left alone.
    """

    def line(match: re.Match[str]) -> str:
        number = int(match[2]) - first + 1
        return f"{match[1]}{number}: " if 1 <= number <= more + 2 else match[0]

    return re.sub(r"^(bash: (?:eval: )?line )(\d+): ", line, text, flags=re.MULTILINE)


def _append(text: str, note: str) -> str:
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}[{note}]\n"


def _read(fd: int, size: int) -> bytes:
    """What is there, at most `size` bytes; empty when nothing is (any more)."""
    try:
        return os.read(fd, size)
    except BlockingIOError:
        return b""


def _write(fd: int, data: bytes) -> bytes:
    """Write what the pipe takes and return the rest; nothing is left to write when the reader is gone."""
    try:
        return data[os.write(fd, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return b""
