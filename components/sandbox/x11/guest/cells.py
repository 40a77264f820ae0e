"""The episode's persistent Python: cells of code run one after the other in one process, as in a notebook.

The child reads cells from one pipe and reports on another, which cells do not have under a known name; what they print
comes by a third. A cell that runs out of time gets KeyboardInterrupt, which keeps the state; if that does not help, the
child is replaced.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from select import POLLIN, poll
from typing import Any

from components.sandbox.shell.output import CappedOutput
from components.sandbox.x11.guest.identity import as_user
from components.sandbox.x11.guest.processes import descendants, kill_all

_COMMAND = ("/usr/bin/choom", "-n", "500", "--", "/usr/bin/python3", "-c")
_AFTER_INTERRUPT = 1.0
_CHUNK = 1 << 16
_CHILD = """
import ast, json, os, signal, sys, traceback
cells, report = os.fdopen(int(sys.argv[1])), int(sys.argv[2])
sys.argv, names = [""], {"__name__": "__main__"}
sys.path.insert(0, "")
def run(code):
    tree = ast.parse(code, "<cell>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        if value is not None:
            print(repr(value))
signal.signal(signal.SIGINT, signal.SIG_IGN)
for line in cells:
    number, code = json.loads(line)
    failed = False
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(code)
    except BaseException as error:
        failed = True
        if isinstance(error, SystemExit):
            print("SystemExit:", error.code, file=sys.stderr)
        else:
            traceback.print_exception(type(error), error, error.__traceback__.tb_next and error.__traceback__.tb_next.tb_next)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush(); sys.stderr.flush()
    os.write(report, (json.dumps([number, failed]) + "\\n").encode())
"""  # noqa: E501


class Cells:
    """Starts with the first cell. One caller at a time."""

    def __init__(self, home: str, env: dict[str, str], output_chars: int = 8000) -> None:
        self._home, self._env, self._output_chars = home, env, output_chars
        self._child: subprocess.Popen[bytes] | None = None
        self._ends = (-1, -1, -1)
        """What we hold of the pipes: cells, report, output."""
        self._number = 0

    @property
    def pid(self) -> int:
        """0 when there is none."""
        return self._child.pid if self._child else 0

    def run(self, code: str, timeout: float) -> dict[str, Any]:
        """output, failed (an exception ended the cell), timed_out, truncated. Raises OSError when it cannot start."""
        note = ""
        if self._child is not None and self._child.poll() is not None:
            self.stop()
            note = "python had ended; this ran in a new one"
        if self._child is None:
            self._start()
        self._number += 1
        output = CappedOutput(self._output_chars)
        try:
            self._write(json.dumps([self._number, code]).encode() + b"\n")
        except BrokenPipeError:
            self.stop()
            return self._result(output, True, "python ended", False)
        failed = self._await(timeout, output)
        if isinstance(failed, bool):
            return self._result(output, failed, note, False)
        if failed == "late":
            note = f"timed out after {timeout:g} s and was interrupted"
            self._signal(signal.SIGINT)
            if isinstance(self._await(_AFTER_INTERRUPT, output), bool):
                return self._result(output, True, note, True)
            self.stop()
            return self._result(output, True, f"timed out after {timeout:g} s; python was restarted", True)
        self.stop()
        return self._result(output, True, "python ended; the next cell has a new one", False)

    def stop(self) -> None:
        """Ends it and what it started. The next cell gets a new one."""
        child, self._child = self._child, None
        if child is not None:
            below = descendants(child.pid)
            child.kill()
            child.wait()
            kill_all((), lambda process: process.pid in below)
            for end in self._ends:
                os.close(end)

    # -- parts ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        (cells_end, cells), (report, report_end), (output, output_end) = os.pipe(), os.pipe(), os.pipe()
        try:
            self._child = subprocess.Popen(
                [*_COMMAND, _CHILD, str(cells_end), str(report_end)],
                env=self._env, cwd=self._home, stdin=subprocess.DEVNULL, stdout=output_end, stderr=output_end,
                pass_fds=(cells_end, report_end), start_new_session=True, **as_user(),
            )  # fmt: skip
        finally:
            for end in (cells_end, report_end, output_end):
                os.close(end)
        self._ends = (cells, report, output)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._ends[0], data) :]

    def _signal(self, number: int) -> None:
        if self._child is not None:
            self._child.send_signal(number)

    def _await(self, seconds: float, output: CappedOutput) -> bool | str:
        """Whether the cell failed; "late" when it is not done in time, "ended" when the child is gone."""
        deadline = time.monotonic() + seconds
        _, report, printed = self._ends
        waiter = poll()
        waiter.register(report, POLLIN)
        waiter.register(printed, POLLIN)
        said = b""
        while True:
            left = deadline - time.monotonic()
            events = dict(waiter.poll(max(0.0, min(left, 60.0)) * 1000))
            if printed in events:
                chunk = os.read(printed, _CHUNK)
                output.feed(chunk)
                if not chunk:
                    waiter.unregister(printed)
                if left > 0:
                    continue  # all that was printed, before the report
            if report in events:
                chunk = os.read(report, _CHUNK)
                if not chunk:
                    return "ended"
                said += chunk
                for line in said.split(b"\n")[:-1]:
                    answer = json.loads(line)
                    if answer[0] == self._number:
                        return bool(answer[1])
            if left <= 0:
                return "late"

    def _result(self, output: CappedOutput, failed: bool, note: str, timed_out: bool) -> dict[str, Any]:
        text, truncated = output.finish()
        if note:
            text += f"{'' if not text or text.endswith(chr(10)) else chr(10)}[{note}]\n"
        return {"output": text, "failed": failed, "timed_out": timed_out, "truncated": truncated}
