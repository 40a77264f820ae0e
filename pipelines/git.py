"""Questions to git that may go without an answer: no git, no repository, nothing of that name."""

from __future__ import annotations

import subprocess
from pathlib import Path


def ask(folder: Path, *arguments: str, seconds: float = 60.0) -> str:
    """What `git -C folder ...` prints; "" when it fails or does not answer in time."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", errors="replace") if done.returncode == 0 else ""
