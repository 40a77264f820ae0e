"""Directories that stages write: whole or not there at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def output_dir(final: Path) -> Iterator[Path]:
    """Yield an empty sibling folder to write into; on a clean exit it takes the place of `final`.

    An exception or a kill leaves `final` as it was; leftovers of an earlier kill are cleared on entry. For data that a
    rerun makes again: nothing is flushed to the disk by force.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = final.with_name(f".{final.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        yield draft
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    if final.is_dir():
        shutil.rmtree(final)
    else:
        final.unlink(missing_ok=True)
    draft.rename(final)
