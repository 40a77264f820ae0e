"""Shared preparers for real applications: what a setup step puts into the slot, as values.

Like `components.forge.preparers`, a preparer is a pure function `args -> Made`: the verifier asks the same steps what
was there at the start. `scene.py` carries a `Made` out on a desktop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from components.contracts.errors import TaskError
from components.contracts.task import SetupStep
from components.forge.realapps import documents
from components.sandbox.web.seed import seed_bytes
from components.sandbox.web.site import ADDRESS

HOME = "/home/user"


@dataclass(frozen=True)
class Opening:
    """An application to start: `argv`, and the text that its window's title holds when it is there."""

    argv: tuple[str, ...]
    title: str


@dataclass
class Made:
    """What setup makes. `files`: path in home -> bytes; `site`: the shop's database, b"" for no shop;
    `save_at_end`: the task says that its open document is saved for the agent."""

    files: dict[str, bytes] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    openings: list[Opening] = field(default_factory=list)
    site: bytes = b""
    save_at_end: bool = False


def _text(path: str, text: str) -> Made:
    return Made(files={path: text.encode()})


def _csv(path: str, rows: list[list[Any]]) -> Made:
    return Made(files={path: "".join(",".join(map(str, row)) + "\n" for row in rows).encode()})


def _workbook(path: str, sheets: list[dict[str, Any]]) -> Made:
    return Made(files={path: documents.make("workbook", sheets=sheets)})


def _document(path: str, paragraphs: list[list[str]]) -> Made:
    return Made(files={path: documents.make("document", paragraphs=paragraphs)})


def _deck(path: str, slides: list[dict[str, Any]]) -> Made:
    return Made(files={path: documents.make("deck", slides=slides)})


def _picture(path: str, **drawing: Any) -> Made:
    form = "JPEG" if path.endswith(".jpg") else "PNG"
    return Made(files={path: documents.make("picture", form=form, **drawing)})


def _folder(path: str) -> Made:
    return Made(folders=[path])


def _shop(rows: dict[str, list[list[Any]]]) -> Made:
    return Made(site=seed_bytes(rows))


def _open(app: str, path: str = "") -> Made:
    name = path.rsplit("/", 1)[-1]
    place = f"{HOME}/{path}" if path else HOME
    known = {
        "office": Opening(("soffice", "--norestore", "--nologo", place), name),
        "gimp": Opening(("gimp", "--no-splash", place), f"[{name.rsplit('.', 1)[0]}]"),
        "browser": Opening(("chromium", ADDRESS + path), "Corner Shop"),
        "files": Opening(("pcmanfm", place), name or "user"),
        "editor": Opening(("mousepad", place), name),
        "terminal": Opening(("xterm",), "xterm"),
    }
    return Made(openings=[known[app]])


def _save_at_end() -> Made:
    return Made(save_at_end=True)


PREPARERS: dict[str, Callable[..., Made]] = {
    "text": _text, "csv": _csv, "workbook": _workbook, "document": _document, "deck": _deck, "picture": _picture,
    "folder": _folder, "shop": _shop, "open": _open, "save_at_end": _save_at_end,
}  # fmt: skip


def made_by(setup: tuple[SetupStep, ...]) -> Made:
    """All steps together, in order. An unknown preparer, bad arguments, or one path twice is a `TaskError`."""
    total = Made()
    for step in setup:
        maker = PREPARERS.get(step.preparer)
        if maker is None:
            raise TaskError(f"unknown preparer {step.preparer!r}", where="setup", remedy=f"one of {sorted(PREPARERS)}")
        try:
            made = maker(**step.args)
        except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
            raise TaskError(f"preparer {step.preparer!r} refused its arguments: {error!r}", where="setup") from error
        clash = sorted(set(total.files) & set(made.files))
        if clash or (total.site and made.site):
            raise TaskError(f"two setup steps make {clash or 'a shop'}", where="setup", remedy="name each once")
        total.files |= made.files
        total.folders += made.folders
        total.openings += made.openings
        total.site = total.site or made.site
        total.save_at_end = total.save_at_end or made.save_at_end
    for path in [*total.files, *total.folders]:
        if path.startswith(("/", ".")) or ".." in path.split("/"):
            raise TaskError(f"setup path {path!r} leaves the home directory", where="setup")
    return total
