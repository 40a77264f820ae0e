"""Presentations (.pptx), over python-pptx, and Impress's settings."""

from __future__ import annotations

import posixpath
import zipfile
from math import sqrt
from typing import Any
from xml.etree import ElementTree

from components.contracts.errors import VerifierError
from components.sandbox.osworld.metrics import files
from components.sandbox.osworld.metrics.documents import registry_value

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_MAX_PART = 64 << 20


def _presentation(path: str) -> Any:
    from pptx import Presentation

    return Presentation(path)


def _near(a: Any, b: Any, tolerance: float) -> bool:
    if a == b:
        return True
    if a is None or b is None or 0 in (a, b):
        return False
    return bool(abs(a - b) / max(abs(a), abs(b)) <= tolerance)


_NOT_HERE = (
    "examine_title_bottom_position", "examine_table_bottom_position", "examine_right_position",
    "examine_top_position", "examine_shape_for_shift_size", "examine_image_size", "examine_modify_height",
)  # fmt: skip
"""Options that turn the comparison into a task's own question; the package has them."""


def compare_pptx_files(file1: Any, file2: Any, **options: Any) -> float:
    """Slides, shapes, texts and their looks agree, as far as the options ask."""
    asked = [name for name in _NOT_HERE if options.get(name, False)]
    if asked:
        raise VerifierError(f"compare_pptx_files does not offer {asked[0]} here", where="metric",
                            remedy="install the package desktop-env for it")  # fmt: skip
    ours, theirs = files.result(file1, _presentation), files.reference(file2, _presentation)
    if ours is None:
        return 0.0

    def on(name: str) -> bool:
        return bool(options.get(f"examine_{name}", True))

    if on("number_of_slides") and len(ours.slides) != len(theirs.slides):
        return 0.0
    tolerance = float(options.get("approximately_tolerance", 0.005))
    for left, right in zip(ours.slides, theirs.slides, strict=False):
        if on("background_color") and _fill(left) != _fill(right):
            return 0.0
        if on("note") and _notes(left) != _notes(right):
            return 0.0
        if len(left.shapes) != len(right.shapes):
            return 0.0
        for a, b in zip(left.shapes, right.shapes, strict=True):
            sides = ("left", "top", "width", "height")
            if on("shape") and not all(_near(getattr(a, s), getattr(b, s), tolerance) for s in sides):
                return 0.0
            if a.has_text_frame != b.has_text_frame or (a.has_text_frame and not _same_text(a, b, on)):
                return 0.0
    return 1.0


def _same_text(a: Any, b: Any, on: Any) -> bool:
    left, right = a.text_frame.paragraphs, b.text_frame.paragraphs
    if on("text") and (a.text_frame.text.strip() != b.text_frame.text.strip() or len(left) != len(right)):
        return False
    fonts = {"font_name": "name", "font_size": "size", "font_bold": "bold", "font_italic": "italic",
             "font_underline": "underline"}  # fmt: skip
    for one, two in zip(left, right, strict=False):
        if (on("alignment") and (one.alignment or 1) != (two.alignment or 1)) or (
            on("indent") and one.level != two.level
        ):
            return False
        for x, y in zip(one.runs, two.runs, strict=False):
            for name, field in fonts.items():
                # Nothing said and "no" look the same.
                if on(name) and (getattr(x.font, field) or None) != (getattr(y.font, field) or None):
                    return False
            if on("color_rgb") and _color(x.font) != _color(y.font):
                return False
            if on("strike_through") and _strike(x) != _strike(y):
                return False
    return True


def _color(font: Any) -> Any:
    try:
        return font.color.rgb
    except AttributeError:
        return None


def _strike(run: Any) -> str:
    return str(run.font._element.attrib.get("strike", "noStrike"))


def _fill(slide: Any) -> Any:
    fill = slide.background.fill
    try:
        return fill.type, fill.fore_color.rgb
    except (AttributeError, TypeError):
        return fill.type, None


def _notes(slide: Any) -> str:
    return str(slide.notes_slide.notes_text_frame.text).strip() if slide.has_notes_slide else ""


def check_strikethrough(path: Any, rules: dict[str, Any]) -> float:
    deck = files.result(path, _presentation)
    if deck is None:
        return 0.0
    try:
        for number in rules["slide_index_s"]:
            for shape in rules["shape_index_s"]:
                paragraphs = deck.slides[number].shapes[shape].text_frame.paragraphs
                for index in rules["paragraph_index_s"]:
                    if _strike(paragraphs[index].runs[0]) == "noStrike":
                        return 0.0
    except (IndexError, AttributeError):
        return 0.0
    return 1.0


def check_slide_orientation_Portrait(path: Any) -> float:  # noqa: N802
    deck = files.result(path, _presentation)
    return float(deck is not None and deck.slide_width < deck.slide_height)


def check_transition(path: Any, rules: dict[str, Any]) -> float:
    root = files.result(path, lambda name: _part(name, f"ppt/slides/slide{int(rules['slide_idx']) + 1}.xml"))
    found = root.find(f".//{_P}transition") if root is not None else None
    return float(found is not None and found.find(f".//{_P}{rules['transition_type']}") is not None)


def evaluate_presentation_fill_to_rgb_distance(path: Any, rules: dict[str, Any]) -> float:
    """How near the slides' backgrounds are to a colour, 0 to 1; the first colour does not count."""
    deck = files.result(path, _presentation)
    if deck is None or not len(deck.slides):
        return 0.0

    def distance(slide: Any) -> float:
        kind, color = _fill(slide)
        if kind == 5:  # the master's
            kind, color = _fill(slide.slide_layout.slide_master)
        if kind != 1 or color is None or list(color) == list(rules.get("original_rgb") or []):
            return 1.0
        return sqrt(sum((a - b) ** 2 for a, b in zip(color, rules["rgb"], strict=True))) / sqrt(3 * 255**2)

    return 1.0 - sum(distance(slide) for slide in deck.slides) / len(deck.slides)


def check_auto_saving_time(path: Any, rules: dict[str, Any]) -> float:
    value = registry_value(path, "/org.openoffice.Office.Common/Save/Document", "AutoSaveTimeIntervall")
    return float(value is not None and value.strip() == str(int(rules["minutes"])))


def check_presenter_console_disable(path: Any) -> float:
    value = registry_value(path, "/org.openoffice.Office.Impress/Misc/Start", "EnablePresenterScreen")
    return float(value is not None and value.strip().lower() == "false")


def media_of_slide(path: str, number: int, kind: str) -> bytes | None:
    """The background picture (`image`) or sound (`audio`) of a slide; None when there is none or it is no file."""

    def read(name: str) -> bytes | None:
        slide = f"ppt/slides/slide{number + 1}.xml"
        links = _part(name, f"ppt/slides/_rels/slide{number + 1}.xml.rels")
        wanted = None
        if kind == "image":
            blip = _part(name, slide).find(f".//{_P}bg//{_A}blip")
            wanted = None if blip is None else blip.get(f"{_R}embed")
        for link in links:
            right = link.get("Id") == wanted if kind == "image" else str(link.get("Type")).endswith(f"/{kind}")
            if right and link.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("ppt/slides", str(link.get("Target"))))
                return _bytes(name, target)
        return None

    return files.result(path, read)


def _bytes(path: str, part: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo(part).file_size > _MAX_PART:
            raise ValueError("too large")
        return archive.read(part)


def _part(path: str, part: str) -> ElementTree.Element:
    data = _bytes(path, part)
    if b"<!ENTITY" in data:
        raise ValueError("a slide has no entities")
    return ElementTree.fromstring(data)
