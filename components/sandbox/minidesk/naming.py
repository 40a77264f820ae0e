"""Asking for the name of a new document."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from components.sandbox.minidesk.app import Desk
from components.sandbox.minidesk.overlays import Dialog
from components.sandbox.minidesk.store import Parts


def ask_name(desk: Desk, extension: str, write: Callable[[Parts], None]) -> None:
    """A `save` dialog for a name in home; `extension` is put behind a name without one. Asks before replacing."""

    def replace(path: Parts, button: str, _text: str) -> None:
        if button == "yes":
            write(path)

    def named(button: str, name: str) -> None:
        if button != "ok":
            return
        path = (name if "." in name else name + extension,)
        if desk.home.exists(path):
            desk.show(Dialog("replace", f"replace {path[0]}?", ("yes", "no"), partial(replace, path)))
        else:
            write(path)

    desk.show(Dialog("save", "save as", ("ok", "cancel"), named, field="name"))
