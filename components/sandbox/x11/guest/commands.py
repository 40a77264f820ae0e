"""One command in a process of its own, beside the episode's shell: for setups, getters and other protocols.

It shares nothing with the persistent shell, so that what an agent did to that shell (functions, aliases, a stuck job)
changes no answer here. Output goes to files, not pipes: a background process that the command leaves behind keeps
nobody waiting.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from typing import Any

_CHOOM = ("/usr/bin/choom", "-n", "500", "--")


def run(argv: list[str], env: dict[str, str], cwd: str, timeout: float, limit: int) -> tuple[dict[str, Any], bytes]:
    """({returncode, timed_out, truncated, errors: length of the second part}, output followed by errors).

    `timeout` in seconds; past it the command's whole session is killed and `returncode` is -1. At most `limit` bytes of
    each stream come back, from its beginning. Raises OSError when it cannot be started (no such directory, say).
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*_CHOOM, *argv], env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
        timed_out = False
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            timed_out, code = True, -1
        texts = []
        truncated = False
        for stream in (output, errors):
            stream.seek(0)
            text = stream.read(limit + 1)
            truncated |= len(text) > limit
            texts.append(text[:limit])
    answer = {"returncode": code, "timed_out": timed_out, "truncated": truncated, "errors": len(texts[1])}
    return answer, b"".join(texts)
