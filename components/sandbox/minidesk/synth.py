"""Layout-free screens: random widgets at random grid places.

They have no layout prior, so a click rate on them measures reading, not habit (tiny-vlm.md part 1, section 2).
Stage 1 and its bench use them with words of their own split.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from components.contracts.desktop import Element, Screen
from components.sandbox.minidesk.draw import APPS, CELL_W, HALF, HEIGHT, ROW, THEMES, TRACK, WIDTH, Canvas

_EXTENSIONS = (".txt", ".log", ".csv", ".md")


@dataclass(frozen=True)
class SynthWords:
    """Vocabulary of synthetic screens: `stems` (files, values), `labels` (buttons, fields, checks), `numbers`."""

    stems: tuple[str, ...]
    labels: tuple[str, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class SynthScreen:
    screen: Screen
    elements: tuple[Element, ...]
    tracks: tuple[Element, ...] = ()
    """Whole sliders: places on them are asked by number, not by name."""
    handles: tuple[Element, ...] = ()
    """The handles of those."""


class _Places:
    """Free rectangles in units of (8 px, 16 px); nothing overlaps."""

    def __init__(self) -> None:
        self.used: set[tuple[int, int]] = set()

    def take(self, rng: random.Random, width: int, height: int, tries: int = 24) -> tuple[int, int] | None:
        """A free place for width x height px, or None. Height is rounded up to whole 16 px rows."""
        columns, rows = -(-width // CELL_W), -(-height // HALF)
        for _ in range(tries):
            cx = rng.randrange(0, WIDTH // CELL_W - columns + 1)
            cy = rng.randrange(0, HEIGHT // HALF - rows + 1)
            cells = {(x, y) for x in range(cx, cx + columns) for y in range(cy, cy + rows)}
            if not cells & self.used:
                # One column of air to the right keeps neighbouring labels apart.
                self.used |= cells | {(cx + columns, y) for y in range(cy, cy + rows)}
                return cx * CELL_W, cy * HALF
        return None


def synth_screen(rng: random.Random, words: SynthWords, track: bool = False, files: int = 0) -> SynthScreen:
    """One screen with about 6 to 12 named widgets; labels are unique within a kind.

    `track`: and a slider of full width. `files`: and up to so many rows more.
    """
    canvas = Canvas(rng.choice(THEMES))
    canvas.rect((0, 0, WIDTH, HEIGHT), canvas.theme.panel if rng.random() < 0.8 else canvas.theme.wall)
    places = _Places()
    elements: list[Element] = []
    seen: set[tuple[str, str]] = set()
    full = _track(canvas, rng, words, places) if track else ()
    if rng.random() < 0.35:
        elements.extend(_sheet(canvas, rng, words, places))
    makers = (_button, _row, _row, _checkbox, _checkbox, _field, _item, _icon, _slider, _title, _menu)
    for k in range(files + rng.randint(7, 12)):
        maker = _row if k < files else rng.choice(makers)
        for element in maker(canvas, rng, words, places):
            if (element.kind, element.label) in seen:
                continue
            seen.add((element.kind, element.label))
            elements.append(element)
    counts: dict[tuple[str, str], int] = {}
    for e in elements:
        counts[e.kind, e.label] = counts.get((e.kind, e.label), 0) + 1
    named = tuple(e for e in elements if counts[e.kind, e.label] == 1)
    return SynthScreen(canvas.pixels, named, full[:1], full[1:])


def _file(rng: random.Random, words: SynthWords) -> str:
    return rng.choice(words.stems) + (rng.choice(_EXTENSIONS) if rng.random() < 0.85 else "")


def _button(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    label = rng.choice(w.labels)
    at = p.take(rng, CELL_W * (len(label) + 1), 20)
    return [c.button(*at, label, hot=rng.random() < 0.1)] if at else []


def _menu(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    label = rng.choice(w.labels)
    at = p.take(rng, CELL_W * (len(label) + 1), 20)
    return [c.button(*at, label, kind="menu")] if at else []


def _row(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    label = _file(rng, w)
    width = 16 + CELL_W * len(label) + rng.choice((0, 16, 32))
    at = p.take(rng, width, ROW)
    return [c.row(*at, label, width, selected=rng.random() < 0.3, folder="." not in label)] if at else []


def _checkbox(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    label = rng.choice(w.labels)
    at = p.take(rng, 24 + CELL_W * len(label), 20)
    return [c.checkbox(*at, label, rng.random() < 0.5)] if at else []


def _field(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    label = rng.choice(w.labels)
    value = rng.choice(("", "", rng.choice(w.stems), str(rng.choice(w.numbers))))
    box = rng.choice((56, 72, 88))
    at = p.take(rng, CELL_W * (len(label) + 1) + box, 20)
    return [c.field(*at, label, value, box, focus=rng.random() < 0.25)] if at else []


def _item(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    label = rng.choice(w.labels)
    width = max(64, CELL_W * (len(label) + 2))
    at = p.take(rng, width, 20)
    return [c.item(*at, label, width, selected=rng.random() < 0.2)] if at else []


def _icon(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    at = p.take(rng, 48, ROW)
    if not at:
        return []
    # An icon stands on the wallpaper, as on the desktop.
    c.rect((at[0], at[1], at[0] + 48, at[1] + ROW), c.theme.wall)
    return [c.icon(*at, rng.choice(APPS), active=rng.random() < 0.15)]


def _slider(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    label = rng.choice(w.labels)
    width = rng.choice((80, 96, 112))
    at = p.take(rng, CELL_W * (len(label) + 1) + width, 20)
    if not at:
        return []
    c.text(at[0], at[1] + 2, label, c.theme.ink, c.theme.panel)
    x = at[0] + CELL_W * (len(label) + 1)
    _, handle = c.slider(x, at[1], label, 5 * rng.randrange(0, 21), width)
    return [handle]


def _track(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> tuple[Element, ...]:
    """A slider below its name and its number: track and handle, or nothing where there is no place."""
    label, percent = rng.choice(w.labels), 5 * rng.randrange(0, 21)
    at = p.take(rng, TRACK, 2 * ROW)
    if not at:
        return ()
    c.text(at[0], at[1] + 2, f"{label} {percent}", c.theme.ink, c.theme.panel)
    return c.slider(at[0], at[1] + ROW, label, percent, TRACK)


def _title(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    label = _file(rng, w) if rng.random() < 0.5 else rng.choice(APPS)
    width = rng.choice((144, 176, 208))
    at = p.take(rng, width, HALF)
    return list(c.title_bar((at[0], at[1], at[0] + width, at[1] + HALF), label)) if at else []


def _sheet(c: Canvas, rng: random.Random, w: SynthWords, p: _Places) -> list[Element]:
    """A block of cells with its heads. Cell names come from the heads, so the block may start at any row."""
    columns, rows = rng.randint(3, 4), rng.randint(2, 5)
    at = p.take(rng, 16 + 48 * columns, 16 + ROW * rows, tries=40)
    if not at:
        return []
    x0, y0 = at
    first = rng.choice((1, 1, 1, 2, 3))
    out: list[Element] = []
    c.rect((x0, y0, x0 + 16, y0 + 16), c.theme.face)
    for i in range(columns):
        out.append(c.head(x0 + 16 + 48 * i, y0, "abcd"[i], 48, HALF))
    chosen = (rng.randrange(columns), rng.randrange(rows)) if rng.random() < 0.5 else None
    for j in range(rows):
        y = y0 + 16 + ROW * j
        out.append(c.head(x0, y, str(first + j), 16, ROW))
        for i in range(columns):
            value = (
                ""
                if rng.random() < 0.3
                else rng.choice((rng.choice(w.stems), str(rng.choice(w.numbers)), str(rng.choice(w.numbers))))
            )
            out.append(c.cell(x0 + 16 + 48 * i, y, f"{'abcd'[i]}{first + j}", value, selected=(i, j) == chosen))
    return out
