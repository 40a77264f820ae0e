"""Locks that a killed DVC left behind.

DVC notes who reads and writes which path in `.dvc/tmp/rwlock` and takes an entry for stale when its process id is not
in use any more. Two dead writers pass for living ones: a zombie, which stays for as long as the process that adopted it
does not look (in a container that may be for ever), and a process id that something else has got since.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipelines.processes import alive


def release_dead_locks(root: Path) -> list[str]:
    """Take the entries of dead processes out of DVC's lock file; the commands they belonged to.

    Call it while no other run is at work in this folder (`runlock`). A `dvc` that a person started keeps its entries.
    A file cut off by a kill or a full disk holds no readable entry and is removed.
    """
    path = root / ".dvc" / "tmp" / "rwlock"
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
        writers = {name: entry for name, entry in lock["write"].items() if entry and _holds(entry)}
        readers = {name: [entry for entry in entries if _holds(entry)] for name, entries in lock["read"].items()}
        entries = [*lock["write"].values(), *(entry for found in lock["read"].values() for entry in found)]
        dead = sorted({str(entry["cmd"]) for entry in entries if entry and not _holds(entry)})
    except FileNotFoundError:
        return []
    except (ValueError, LookupError, TypeError, AttributeError):
        path.unlink(missing_ok=True)
        return ["(unreadable)"]
    if dead:
        fresh = path.with_name(f"rwlock.{os.getpid()}")
        fresh.write_text(
            json.dumps({"write": writers, "read": {name: found for name, found in readers.items() if found}}),
            encoding="utf-8",
        )
        fresh.replace(path)
    return dead


def _holds(entry: dict[str, Any]) -> bool:
    """Whether the process that made an entry is there and still a DVC."""
    pid = int(entry["pid"])
    if not alive(pid):
        return False
    with suppress(OSError):
        return b"dvc" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return True  # no /proc, or not ours to read: DVC's own view stands
