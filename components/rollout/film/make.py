"""An episode as a filmstrip, a GIF or a film. Strip and GIF: the same episode gives the same bytes."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from components.contracts.errors import DataError, ParamsError
from components.rollout.film.draw import (
    BAD,
    GOOD,
    INK,
    PAPER,
    RULE,
    SOFT,
    WHITE,
    Words,
    caption,
    draw_mark,
    open_screen,
    terminal_panel,
    words_height,
    write_words,
)
from components.rollout.film.find import Film, FilmStep
from components.rollout.live.plain import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

Format = Literal["strip", "gif", "mp4"]
FORMATS: dict[str, Format] = {".png": "strip", ".gif": "gif", ".mp4": "mp4"}
"""By the ending of the file."""
_TILE, _GAP, _COLUMNS = 420, 16, 4
_STEP_MS, _END_MS = 1500, 3000
_FRAMES = 10
"""Frames a second of a film: whole tenths of a second are shown."""
_COLOURS = 128
_FFMPEG_SECONDS = 300.0


def format_of(path: Path) -> Format:
    """Raises ParamsError for an ending that is none of ours."""
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        raise ParamsError(
            f"cannot tell from {path.suffix or 'no ending'!r} what to write", where="--out",
            remedy="use .png (a strip), .gif or .mp4",
        )  # fmt: skip
    return found


def write_film(film: Film, target: Path) -> None:
    """Writes the file, whole or not at all. Raises DataError for a full disk, a missing or failing ffmpeg."""
    kind = format_of(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".cowork-", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise _unwritable(target, error) from error
    draft = Path(name)
    try:
        if kind == "mp4":
            _mp4(film, draft)
        else:
            draft.write_bytes(strip(film) if kind == "strip" else gif(film))
        draft.chmod(0o644)
        draft.replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        draft.unlink(missing_ok=True)


def _unwritable(target: Path, error: OSError) -> DataError:
    return DataError(f"cannot be written: {error.strerror or error}", where=str(target), remedy="give another --out")


def strip(film: Film) -> bytes:
    """A PNG: the task, then every step with its number, its action line and the action on its screen."""
    from PIL import Image, ImageDraw

    tiles = [_tile(shown) for shown in _shown(film, _TILE)]
    if film.last == film.steps[-1].png:
        tiles.pop()  # a last step that only says it is done
    columns = min(_COLUMNS, len(tiles))
    wide = max(tile.width for tile, _ in tiles)
    rows = [tiles[start : start + columns] for start in range(0, len(tiles), columns)]
    width = columns * wide + (columns + 1) * _GAP
    head = [Words(one_line(film.instruction), 20, INK, 4, True), Words(_subtitle(film), 14, _tone(film), 3)]
    top = words_height(head, width - 2 * _GAP) + 2 * _GAP
    heights = [max(t.height + words_height(w, wide - 12) + 14 for t, w in row) for row in rows]
    sheet = Image.new("RGB", (width, top + sum(heights) + _GAP * len(rows)), PAPER)
    pen = ImageDraw.Draw(sheet)
    write_words(pen, (_GAP, _GAP), width - 2 * _GAP, head)
    y = top
    for row, height in zip(rows, heights, strict=True):
        for place, (tile, words) in enumerate(row):
            x = _GAP + place * (wide + _GAP)
            pen.rounded_rectangle((x - 1, y - 1, x + wide, y + height), 6, fill=WHITE, outline=RULE)
            sheet.paste(tile, (x, y))
            write_words(pen, (x + 6, y + tile.height + 7), wide - 12, words)
        y += height + _GAP
    out = io.BytesIO()
    sheet.save(out, "PNG", compress_level=6)
    return out.getvalue()


def gif(film: Film) -> bytes:
    """A GIF that is shown over and over."""
    from PIL import Image

    frames, times = zip(*_frames(film, 576 if film.size[0] < 640 else 800), strict=True)
    small = [frame.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE) for frame in frames]
    out = io.BytesIO()
    small[0].save(out, "GIF", save_all=True, append_images=small[1:], duration=list(times), loop=0, optimize=False)
    return out.getvalue()


def _mp4(film: Film, target: Path) -> None:
    program = shutil.which("ffmpeg")
    if program is None:
        raise DataError("there is no ffmpeg here", where="mp4", remedy="install ffmpeg, or write a .gif or .png")
    frames = list(_frames(film, 864 if film.size[0] < 640 else 1280))
    width, height = frames[0][0].size
    command = [
        program, "-v", "error", "-nostdin", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
        "-r", str(_FRAMES), "-i", "pipe:0", "-an", "-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt",
        "yuv420p", "-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1",
        "-movflags", "+faststart", "-f", "mp4", str(target),
    ]  # fmt: skip
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as said:
        for image, milliseconds in frames:
            data = image.tobytes()
            for _ in range(milliseconds * _FRAMES // 1000):
                source.write(data)
        source.seek(0)
        try:
            done = subprocess.run(
                command, stdin=source, stdout=subprocess.DEVNULL, stderr=said, timeout=_FFMPEG_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DataError(
                f"ffmpeg took more than {_FFMPEG_SECONDS:g} s", where="mp4", remedy="write a .gif"
            ) from error
        said.seek(0)
        words = said.read()[-300:].decode(errors="replace").strip()
    if done.returncode:
        raise DataError(f"ffmpeg failed ({done.returncode}): {words}", where="mp4", remedy="write a .gif or .png")


# -- frames ------------------------------------------------------------------------------------------------------


def _shown(film: Film, width: int) -> Iterator[tuple[int, FilmStep | None, Image]]:
    """(number, step, picture) of every step, and at the end (0, None, the last screen)."""
    for number, step in enumerate(film.steps, 1):
        image = draw_mark(open_screen(step.png, width), step.mark, film.size)
        if step.terminal:
            image = terminal_panel(image, step.mark["caption"], step.output)
        yield number, step, image
    if film.last:
        yield 0, None, open_screen(film.last, width)


def _tile(shown: tuple[int, FilmStep | None, Image]) -> tuple[Image, list[Words]]:
    number, step, image = shown
    if step is None:
        return image, [Words("the screen at the end", 13, SOFT, 1)]
    return image, caption(number, step.action, step.mark, step.error, step.decision, 15)


def _frames(film: Film, width: int) -> Iterator[tuple[Image, int]]:
    """(picture, milliseconds): every step with a bar below it that says what is done."""
    from PIL import Image, ImageDraw

    size = 17 if width <= 576 else 20
    shown = list(_shown(film, width))
    bars = [
        [Words(_subtitle(film), size, _tone(film), 2, True)] if step is None
        else caption(number, step.action, step.mark, step.error, step.decision, size)
        for number, step, _ in shown
    ]  # fmt: skip
    wide, high = shown[0][2].size
    head = [Words(one_line(film.instruction), size - 2, SOFT, 2)]
    top = words_height(head, wide - 24) + 14
    bottom = max(words_height(bar, wide - 24) for bar in bars) + 18
    whole = (wide + wide % 2, (top + high + bottom + 1) // 2 * 2)  # films need even sides
    for (_, step, image), bar in zip(shown, bars, strict=True):
        frame = Image.new("RGB", whole, PAPER)
        pen = ImageDraw.Draw(frame)
        write_words(pen, (12, 8), wide - 24, head)
        frame.paste(image, (0, top))
        write_words(pen, (12, top + high + 9), wide - 24, bar)
        yield frame, _END_MS if step is None else _STEP_MS


def _subtitle(film: Film) -> str:
    return f"{len(film.steps)} step{'s' * (len(film.steps) != 1)}, {one_line(film.result)}"


def _tone(film: Film) -> tuple[int, int, int]:
    return SOFT if film.good is None else GOOD if film.good else BAD
