"""Which program of our desktop stands for one that OSWorld's tasks name, and which opens a kind of file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

_CHROMIUM = (
    "chromium", "--no-sandbox", "--test-type", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
    "--remote-allow-origins=*",
)  # fmt: skip
INSTEAD: dict[str, tuple[str, ...]] = {
    "google-chrome": _CHROMIUM, "google-chrome-stable": _CHROMIUM, "chromium": _CHROMIUM,
    "chromium-browser": _CHROMIUM, "gedit": ("mousepad",), "nautilus": ("pcmanfm",), "gnome-terminal": ("xterm",),
    "libreoffice": ("soffice", "--norestore", "--nologo"), "soffice": ("soffice", "--norestore", "--nologo"),
    "python": ("python3",),
}  # fmt: skip
"""First word of a command -> what is started. Chromium runs without a sandbox of its own: it is in one."""

_SHEETS = ("xlsx", "xls", "ods", "csv")
_PAGES = ("docx", "doc", "odt", "rtf")
_SLIDES = ("pptx", "ppt", "odp")
_PICTURES = ("png", "jpg", "jpeg", "gif", "bmp", "tif", "tiff", "xcf", "webp")
_WEB = ("html", "htm", "pdf", "svg")


def started(words: Sequence[str]) -> list[str]:
    """A command with its first word replaced where our desktop has another program for it."""
    return [*INSTEAD.get(words[0], (words[0],)), *words[1:]]


def opener(path: str) -> list[str]:
    """The command that opens a document."""
    kind = PurePosixPath(path).suffix.lower().lstrip(".")
    if kind in (*_SHEETS, *_PAGES, *_SLIDES):
        return [*INSTEAD["soffice"], path]
    if kind in _PICTURES:
        return ["gimp", "--no-splash", path]
    return started(["google-chrome", path]) if kind in _WEB else ["mousepad", path]
