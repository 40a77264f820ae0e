"""Facts of files, read outside the slot in a confined process: no network, no host files, little memory and time."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from components.contracts.errors import SandboxError, VerifierError
from components.forge.realapps import readers, xcf
from components.forge.realapps.readers import Facts
from components.sandbox.confine import REMEDY, ShellLimits, detect, host_site, wrap

SECONDS = 60.0
"""For all files of one episode together; the processor time of the process is limited more tightly (readers.py)."""
FILE_LIMIT = 16 << 20
"""Bytes of a file that is read at all."""
_OUTPUT_LIMIT = 16 << 20


def facts_of(files: Sequence[tuple[str, bytes]]) -> list[Facts]:
    """Facts of files, given as (kind, bytes), in order.

    A file that cannot be read is `{"error": ...}`. Raises `VerifierError` when the reading process itself ends badly
    (a file made it run out of time or memory), `SandboxError` when this machine confines nothing.
    """
    if not files:
        return []
    confinement = detect().confinement
    if confinement == "none":
        raise SandboxError("files of an agent are read only in confinement", where="reading", remedy=REMEDY)
    with tempfile.TemporaryDirectory(prefix="reading-") as name:
        home = Path(name)
        home.chmod(0o755)
        request = []
        for number, (kind, data) in enumerate(files):
            if kind not in readers.KINDS:
                raise VerifierError(
                    f"nothing here reads .{kind}", where="reading", remedy=f"one of {list(readers.KINDS)}"
                )
            (home / f"{number}.data").write_bytes(data)
            request.append({"file": f"{number}.data", "kind": kind})
        (home / "request.json").write_text(json.dumps(request))
        for module in (readers, xcf):
            source = Path(str(module.__file__))
            (home / source.name).write_bytes(source.read_bytes())
        launch = wrap(
            ["python3", "-s", "readers.py"],
            home,
            limits=ShellLimits(),
            confinement=confinement,
            site=host_site(),
            own_python=True,
        )
        with launch.arguments() as (argv, fds), tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                argv,
                env=launch.env,
                cwd=launch.cwd,
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=said,
                start_new_session=True,
            )
            try:
                code = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise VerifierError(f"the files were not read in {SECONDS:g} s", where="reading") from None
            answer.seek(0)
            text = answer.read(_OUTPUT_LIMIT)
            said.seek(0)
            complaint = said.read(4000).decode(errors="replace").strip()
        return _parse(text, len(files), code, complaint)


def _parse(text: bytes, count: int, code: int, complaint: str) -> list[Facts]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if code or not isinstance(found, list) or len(found) != count:
        last = complaint.splitlines()[-1] if complaint else ""
        raise VerifierError(f"the reader of files ended with code {code}: {last}", where="reading")
    return found
