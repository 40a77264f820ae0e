"""The files of a desktop's home, for the judge of commands. What cannot be listed is taken as there."""

from __future__ import annotations

from typing import Any

from components.contracts.errors import CoworkError
from components.rollout.live.risk import Places


def places_of(desktop: Any) -> Places:
    """Looks at the home of a minidesk, of an X11 desktop, or of either inside a live slot."""
    inner = getattr(desktop, "inner", desktop)
    try:
        guest = getattr(inner, "guest", None)
        if guest is not None:
            return Places(frozenset(file.path.removeprefix("./") for file in guest.files()))
        root = getattr(inner, "root", None)
        if root is not None:
            from components.sandbox.shell.files import list_files

            return Places(frozenset(list_files(root / "home")))
    except (CoworkError, OSError):
        pass
    return Places()
