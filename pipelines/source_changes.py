"""What the code of a run was beyond its commit: the difference is kept with the run, so that a run from an edited tree
can be repeated, or at least is not taken for one of the commit.

Not counted: `params.yaml` and `dvc.lock` (records hold them whole) and `.dvc` (where data lies, not what it is).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from components.contracts.digests import digest_bytes
from pipelines.stores import secrets_here

PATCH_FILE = "changes.json"
LIMIT = 2_000_000
"""Bytes of a difference that is kept; of a larger one only the digest."""
CODE = ("components", "pipelines")
"""Folders in which files that git does not know yet are code of a run too."""


class Changes(BaseModel):
    """`none`: the commit as it was. `stored`: `patch` (for `git apply`) leads from the commit to the run's code.
    `unknown`: there was a difference and it is not here."""

    model_config = ConfigDict(extra="forbid")
    state: Literal["none", "stored", "unknown"]
    patch: str = ""
    digest: str = ""
    why: str = ""


def _git(top: Path, *arguments: str, env: dict[str, str] | None = None) -> bytes:
    done = subprocess.run(
        ["git", "-C", str(top), *arguments], capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    if done.returncode != 0:
        raise OSError(done.stderr.decode(errors="replace").strip() or f"git {arguments[0]} failed")
    return done.stdout


def git_top(root: Path) -> Path | None:
    """The working tree that holds this folder; None outside of one."""
    try:
        return Path(_git(root, "rev-parse", "--show-toplevel").decode().strip())
    except (OSError, subprocess.TimeoutExpired):
        return None


def changes_of(root: Path) -> Changes:
    """The difference between the code in the recipe at `root` and its commit."""
    try:
        top = git_top(root)
        if top is None:
            return Changes(state="unknown", why="no git repository")
        inside = os.path.relpath(root, top)
        prefix = "" if inside == "." else f"{inside}/"
        kept = [f":(exclude){prefix}{name}" for name in ("params.yaml", "dvc.lock", ".dvc")]
        tracked = _git(top, "status", "--porcelain", "-z", "--untracked-files=no", "--", ".", *kept)
        code = [f"{prefix}{folder}" for folder in CODE if (root / folder).is_dir()]
        fresh = _git(top, "ls-files", "-z", "--others", "--exclude-standard", "--", *code) if code else b""
        if not tracked and not fresh:
            return Changes(state="none")
        patch = _difference(top, kept, [name for name in fresh.decode().split("\0") if name])
    except (OSError, UnicodeDecodeError, subprocess.TimeoutExpired) as error:
        return Changes(state="unknown", why=str(error).splitlines()[0] if str(error) else type(error).__name__)
    if not patch:
        return Changes(state="none")
    digest = digest_bytes(patch)
    if len(patch) > LIMIT:
        return Changes(state="unknown", digest=digest, why=f"{len(patch)} bytes, more than are kept")
    text = patch.decode("utf-8", errors="surrogateescape")
    if any(secret in text for secret in secrets_here()):
        return Changes(state="unknown", digest=digest, why="it holds a secret of the environment")
    if not patch.isascii():
        try:
            text = patch.decode("utf-8")
        except UnicodeDecodeError:
            return Changes(state="unknown", digest=digest, why="it is not text")
    return Changes(state="stored", patch=text, digest=digest)


def _difference(top: Path, kept: list[str], fresh: list[str]) -> bytes:
    """As a binary-safe patch, by an index and an object folder of our own: the repository's stay as they are."""
    objects = (top / _git(top, "rev-parse", "--git-path", "objects").decode().strip()).resolve()
    with tempfile.TemporaryDirectory(prefix="cowork-changes-") as folder:
        env = {
            "GIT_INDEX_FILE": str(Path(folder) / "index"),
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects),
        }
        _git(top, "read-tree", "HEAD", env=env)
        _git(top, "add", "--update", "--", ".", *kept, env=env)
        if fresh:
            _git(top, "add", "--", *fresh, env=env)
        return _git(top, "diff", "--cached", "--binary", "--no-color", "--no-ext-diff", "HEAD", env=env)
