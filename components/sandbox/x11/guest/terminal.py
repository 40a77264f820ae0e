"""The episode's persistent bash.

Bash reads its own lines from a terminal (a pty), so that Ctrl-C reaches whatever runs. A command never stands in such
a line: it is written to a file, and the line sources that file, so whatever a command contains cannot end the framing.
Output comes by one pipe and the report (a random token, exit status, directory) by another, which commands do not
have. A command that runs out of time gets Ctrl-C, then its processes are killed, then the shell is: the mildest that
works, so that directory, variables and functions are kept where that is possible.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import secrets
import shlex
import signal
import subprocess
import termios
import time
from contextlib import suppress
from dataclasses import dataclass
from select import POLLIN, poll
from typing import Any

from components.sandbox.shell.output import CappedOutput
from components.sandbox.x11.guest.identity import USER, as_user, two_users
from components.sandbox.x11.guest.processes import Process, descendants, kill_all

_OUTPUT, _REPORT = 201, 202
"""Descriptors inside bash, out of the way of what commands use."""
_CHUNK = 1 << 16
_REPORT_LIMIT = 1 << 16
_START_SECONDS = 10.0
_AFTER_INTERRUPT = 1.0
_AFTER_KILL = 2.0
_TIMED_OUT = 124
"""Exit code of a command that ran out of time, as timeout(1) has it."""
_NOT_RUN = 126


@dataclass
class _Shell:
    process: subprocess.Popen[bytes]
    pidfd: int
    terminal: int
    output: int
    report: int

    def close(self) -> None:
        for end in (self.pidfd, self.terminal, self.output, self.report):
            os.close(end)


class _Ended(Exception):
    """The shell itself ended."""


class Terminal:
    """Starts with the first command. One caller at a time."""

    def __init__(self, home: str, runtime: str, env: dict[str, str], output_chars: int = 8000) -> None:
        """`runtime`: a private folder for the command's file. `output_chars`: what is kept of one command's output."""
        self._home = self._directory = home
        self._file = os.path.join(runtime, "command")
        self._env = {**env, "PS1": "", "PS2": "", "TERM": "dumb", "PAGER": "cat", "HISTFILE": ""}
        self._output_chars = output_chars
        self._shell: _Shell | None = None

    @property
    def pid(self) -> int:
        """0 when there is none."""
        return self._shell.process.pid if self._shell else 0

    def run(self, command: str, timeout: float) -> dict[str, Any]:
        """Runs `command`, gives up after `timeout` seconds.

        output, exit_code, timed_out, truncated (output was cut in the middle), directory afterwards.
        Raises OSError when no shell can be started.
        """
        if "\0" in command:
            return self._result(CappedOutput(self._output_chars), 2, "the command contains a NUL character")
        note = ""
        if self._shell is not None and self._has_ended(self._shell):
            self._stop()
            note = f"the shell had ended; this ran in a new one in {self._directory}"
        if self._shell is None:
            self._shell = self._start()
        shell = self._shell
        output = CappedOutput(self._output_chars)
        try:
            _write_new(self._file, command.encode("utf-8", "replace") + b"\n")
        except OSError as error:  # what ran before has done something to the folder: its own doing, and an answer
            return self._result(output, _NOT_RUN, f"the command could not be written: {error.strerror}")
        token = secrets.token_hex(8)
        line = (
            f'__status_is "$__status"; . {shlex.quote(self._file)} '
            f"</dev/null >&{_OUTPUT} 2>&1 {_OUTPUT}>&- {_REPORT}>&-; "
            f"__status=$?; __report {token}\n"
        )
        os.write(shell.terminal, line.encode())
        try:
            code = self._await(shell, token, timeout, output)
            if code is None:
                return self._interrupt(shell, output, timeout)
        except _Ended:
            self._drain(shell, output)
            code = self._stop()
            return self._result(output, code, f"the shell ended with exit code {code}; the next command has a new one")
        self._drain(shell, output)
        return self._result(output, code, note)

    def restart(self) -> None:
        """Ends the shell and what it started. The next command gets a new one, at home."""
        self._stop()
        self._directory = self._home

    # -- parts ---------------------------------------------------------------------------------------------------

    def _start(self) -> _Shell:
        terminal, slave = pty.openpty()
        (output, output_end), (report, report_end) = os.pipe(), os.pipe()
        try:
            modes = termios.tcgetattr(slave)
            modes[3] &= ~termios.ECHO
            termios.tcsetattr(slave, termios.TCSANOW, modes)
            argv = ["/usr/bin/setsid", "--ctty", "/usr/bin/choom", "-n", "500", "--",
                    "/bin/bash", "--noprofile", "--norc", "--noediting", "-i"]  # fmt: skip
            where = self._directory if os.path.isdir(self._directory) else self._home
            if two_users():
                os.fchown(slave, USER, -1)
            process = subprocess.Popen(
                argv, env=self._env, cwd=where, stdin=slave, stdout=output_end, stderr=slave, pass_fds=(report_end,),
                **as_user(),
            )  # fmt: skip
        except BaseException:
            for end in (terminal, output, report):
                os.close(end)
            raise
        finally:
            for end in (slave, output_end):
                os.close(end)
        os.set_blocking(output, False)
        os.set_blocking(report, False)
        shell = _Shell(process, os.pidfd_open(process.pid), terminal, output, report)
        token = secrets.token_hex(8)
        opening = (
            f"set +m; exec {_OUTPUT}>&1 {_REPORT}>&{report_end} {report_end}>&-; __status=0; "
            '__status_is() { \\builtin return "$1"; }; '
            '__report() { \\builtin printf \'%s %d %s\\0\' "$1" "$__status" "$PWD" '
            f">&{_REPORT}; }}; "
            f"__report {token}\n"
        )
        os.write(terminal, opening.encode())
        os.close(report_end)
        try:
            ready = self._await(shell, token, _START_SECONDS, CappedOutput(0))
        except _Ended:
            ready = None
        if ready is None:
            process.kill()
            process.wait()
            shell.close()
            raise OSError("the shell did not start")
        return shell

    def _await(self, shell: _Shell, token: str, seconds: float, output: CappedOutput) -> int | None:
        """The exit status reported with `token`, None when it did not come in time. Raises `_Ended`."""
        deadline = time.monotonic() + seconds
        pattern = re.compile(re.escape(token.encode()) + rb" (\d+) ([^\0]*)\0")
        report = b""
        waiter = poll()
        for end in (shell.output, shell.report, shell.terminal, shell.pidfd):
            waiter.register(end, POLLIN)
        while True:
            left = deadline - time.monotonic()
            events = dict(waiter.poll(max(0, min(left, 60)) * 1000))
            if shell.output in events:
                chunk = _read(shell.output)
                output.feed(chunk)
                if not chunk:
                    waiter.unregister(shell.output)
            if shell.terminal in events and not _read(shell.terminal):  # what is written there is for nobody
                waiter.unregister(shell.terminal)
            if shell.report in events:
                chunk = _read(shell.report)
                report = (report + chunk)[-_REPORT_LIMIT:]
                if not chunk:
                    waiter.unregister(shell.report)
                found = pattern.search(report)
                if found:
                    self._directory = os.fsdecode(found[2])
                    return int(found[1])
            if shell.pidfd in events:
                raise _Ended
            if left <= 0:
                return None

    def _interrupt(self, shell: _Shell, output: CappedOutput, timeout: float) -> dict[str, Any]:
        """The ladder, see the module's text."""
        note = f"timed out after {timeout:g} s"
        try:
            os.write(shell.terminal, b"\x03")
            if self._alive(shell, _AFTER_INTERRUPT, output):
                return self._result(output, _TIMED_OUT, f"{note} and was interrupted", timed_out=True)
            below = descendants(shell.process.pid)
            kill_all((), lambda process: process.pid in below)
            os.write(shell.terminal, b"\x03")
            if self._alive(shell, _AFTER_KILL, output):
                return self._result(output, _TIMED_OUT, f"{note} and was killed", timed_out=True)
        except _Ended:
            pass
        self._drain(shell, output)
        self._stop()
        note += f" and was killed with its shell; a new one starts in {self._directory}"
        return self._result(output, _TIMED_OUT, note, timed_out=True)

    def _alive(self, shell: _Shell, seconds: float, output: CappedOutput) -> bool:
        """Whether bash reads lines again: it drops the rest of an interrupted one, so it is asked anew."""
        token = secrets.token_hex(8)
        os.write(shell.terminal, f"__status={_TIMED_OUT}; __report {token}\n".encode())
        if self._await(shell, token, seconds, output) is None:
            return False
        self._drain(shell, output)
        return True

    def _stop(self) -> int:
        """Kills the shell's whole session; the shell's exit status (0..255)."""
        shell, self._shell = self._shell, None
        if shell is None:
            return 0
        # A shell that ended by itself keeps its status: only a living one is killed.
        session = shell.process.pid
        below = descendants(session)

        def ours(process: Process) -> bool:
            return process.session == session or process.pid in below

        code = shell.process.poll()
        if code is None:
            with suppress(ProcessLookupError):
                os.kill(session, signal.SIGKILL)
            code = shell.process.wait()
        kill_all((), ours)
        shell.close()
        return code if code >= 0 else 128 - code

    def _has_ended(self, shell: _Shell) -> bool:
        return shell.process.poll() is not None

    def _drain(self, shell: _Shell, output: CappedOutput) -> None:
        """What is in the pipe now, no more: a background job may go on writing for ever."""
        size = int.from_bytes(fcntl.ioctl(shell.output, termios.FIONREAD, b"\0" * 4), "little")
        while size > 0 and (chunk := _read(shell.output, size)):
            output.feed(chunk)
            size -= len(chunk)

    def _result(self, output: CappedOutput, code: int, note: str = "", timed_out: bool = False) -> dict[str, Any]:
        text, truncated = output.finish()
        text = text.replace(f"bash: {self._file}: ", "bash: ").replace(f"{self._file}: ", "bash: ")
        if note:
            text += f"{'' if not text or text.endswith(chr(10)) else chr(10)}[{note}]\n"
        return {"output": text, "exit_code": code, "timed_out": timed_out, "truncated": truncated,
                "directory": self._directory}  # fmt: skip


def _write_new(path: str, data: bytes) -> None:
    """Never into what lies there: the user may have put a link or a pipe in its place."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _read(fd: int, size: int = _CHUNK) -> bytes:
    """What is there; empty when nothing is (any more)."""
    try:
        return os.read(fd, size)
    except OSError:
        return b""
