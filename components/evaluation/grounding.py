"""Grounding benchmarks: does the predicted point fall into the annotated box?

Public grounding sets store boxes as corners or as corner and size, in pixels or in shares, and the two look alike; so
the format is declared once per data file and checked against the picture. An annotation that contradicts its declared
format stops the evaluation: counted as a miss it would hide as a low score. A prediction that cannot be read is a miss
and is counted, and so is one that is not there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contracts.errors import DataError

BBOX_FORMATS = ("xyxy_pixel", "xywh_pixel", "xyxy_unit", "xywh_unit", "xyxy_1000", "xywh_1000")


class AnnotationError(DataError):
    """A benchmark file that contradicts itself. `code` is a stable short name."""

    def __init__(self, code: str, message: str, *, where: str = "") -> None:
        super().__init__(f"{code}: {message}", where=where, remedy="correct the file or its declared bbox_format")
        self.code = code


@dataclass(frozen=True)
class PixelBox:
    """Corners in pixels of the picture; the edges belong to the box."""

    x0: float
    y0: float
    x1: float
    y1: float

    def contains(self, x: float, y: float) -> bool:
        return self.x0 <= x <= self.x1 and self.y0 <= y <= self.y1


@dataclass(frozen=True)
class Annotation:
    box: PixelBox
    image_size: tuple[float, float]
    image: str = ""
    instruction: str = ""
    cell: str = "all"
    """Where the item counts, e.g. `desktop/icon`."""


def read_box(bbox: Any, bbox_format: str | None, image_size: Any, *, where: str = "") -> PixelBox:
    """The box in pixels, or AnnotationError.

    Codes: bbox_format_not_declared, bbox_format_unknown, image_size_missing, bbox_not_four_numbers,
    bbox_corners_reversed, bbox_empty, bbox_outside_image, bbox_format_contradiction.
    """
    if not bbox_format:
        raise AnnotationError("bbox_format_not_declared", "the file must declare its bbox_format", where=where)
    if bbox_format not in BBOX_FORMATS:
        raise AnnotationError(
            "bbox_format_unknown", f"{bbox_format!r} is none of {', '.join(BBOX_FORMATS)}", where=where
        )
    size = _numbers(image_size, 2)
    if size is None or min(size) <= 0:
        raise AnnotationError("image_size_missing", f"image size is {image_size!r}", where=where)
    values = _numbers(bbox, 4)
    if values is None:
        raise AnnotationError("bbox_not_four_numbers", f"box is {bbox!r}", where=where)
    layout, unit = bbox_format.split("_")
    if unit == "pixel" and max(values) <= 1.0 and any(v != int(v) for v in values):
        raise AnnotationError("bbox_format_contradiction", f"{values} are shares, not pixels", where=where)
    x0, y0, x1, y1 = values
    if layout == "xywh":
        x1, y1 = x0 + x1, y0 + y1
    if x1 < x0 or y1 < y0:
        raise AnnotationError("bbox_corners_reversed", f"{values} read as {bbox_format}", where=where)
    if x1 == x0 or y1 == y0:
        raise AnnotationError("bbox_empty", f"{values} read as {bbox_format} has no area", where=where)
    width, height = {"pixel": size, "unit": (1.0, 1.0), "1000": (1000.0, 1000.0)}[unit]
    slack = 1e-6 * max(width, height)  # the sum of a stored corner and size may round past the edge
    if x0 < -slack or y0 < -slack or x1 > width + slack or y1 > height + slack:
        raise AnnotationError(
            "bbox_outside_image",
            f"{values} read as {bbox_format} in a picture of {size[0]:g} x {size[1]:g}",
            where=where,
        )
    sx, sy = size[0] / width, size[1] / height
    return PixelBox(x0 * sx, y0 * sy, x1 * sx, y1 * sy)


def _numbers(value: Any, count: int) -> tuple[float, ...] | None:
    """`count` finite numbers, or None."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence) or len(value) != count:
        return None
    if any(isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v) for v in value):
        return None
    return tuple(float(v) for v in value)


def read_annotations(document: Mapping[str, Any], *, where: str = "") -> list[Annotation]:
    """All annotations of a file's content: `{"bbox_format", "image_size"?, "items": [...]}`.

    An item has `bbox` and may have `image_size`, `img_filename`, `instruction`, `data_source` and `data_type` (its
    cell). A format on an item must be the file's.
    """
    declared = document.get("bbox_format")
    annotations = []
    for number, item in enumerate(document.get("items") or [], start=1):
        place = f"{where or 'annotations'} item {number}"
        if item.get("bbox_format", declared) != declared:
            raise AnnotationError(
                "bbox_format_contradiction", f"item says {item['bbox_format']}, file says {declared}", where=place
            )
        size = item.get("image_size", document.get("image_size"))
        box = read_box(item.get("bbox"), declared, size, where=place)
        cell = "/".join(str(item[key]) for key in ("data_source", "data_type") if item.get(key)) or "all"
        annotations.append(
            Annotation(
                box, (float(size[0]), float(size[1])), item.get("img_filename", ""), item.get("instruction", ""), cell
            )
        )
    if not annotations:
        raise AnnotationError("no_items", "the file has no annotations", where=where)
    return annotations


def load_annotations(path: Path) -> list[Annotation]:
    """`read_annotations` of a JSON file."""
    try:
        document = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise AnnotationError("unreadable_file", str(error), where=str(path)) from error
    if not isinstance(document, Mapping):
        raise AnnotationError("bbox_format_not_declared", "the file is a bare list", where=str(path))
    return read_annotations(document, where=Path(path).name)


@dataclass(frozen=True)
class Judgement:
    """One item's outcome. Every item has exactly one, so the denominator is the benchmark's size."""

    hit: bool
    format_error: bool = False
    missing: bool = False
    point: tuple[float, float] | None = None


def judge(box: PixelBox, prediction: Mapping[str, Any] | None) -> Judgement:
    """Judge a prediction: `{"point_pixel": [x, y]}` or `{"box_pixel": [x0, y0, x1, y1]}` (by its centre).

    Anything else is a format error, None a missing prediction; both are misses. So is a point outside the picture.
    """
    if prediction is None:
        return Judgement(False, missing=True)
    point = _numbers(prediction.get("point_pixel"), 2)
    corners = _numbers(prediction.get("box_pixel"), 4)
    if point is None and corners is not None:
        point = ((corners[0] + corners[2]) / 2, (corners[1] + corners[3]) / 2)
    if point is None:
        return Judgement(False, format_error=True)
    x, y = point
    return Judgement(box.contains(x, y), point=(x, y))


def judge_all(annotations: Sequence[Annotation], predictions: Sequence[Mapping[str, Any] | None]) -> list[Judgement]:
    """Judgements in order; predictions that stop early are missing ones, more predictions than items are an error."""
    if len(predictions) > len(annotations):
        raise DataError(f"{len(predictions)} predictions for {len(annotations)} annotations", where="grounding")
    padded = [*predictions, *[None] * (len(annotations) - len(predictions))]
    return [judge(a.box, p) for a, p in zip(annotations, padded, strict=True)]


@dataclass(frozen=True)
class CellScores:
    """Correct and total by cell. `micro` weighs items, `macro` weighs non-empty cells; None when there is nothing."""

    cells: dict[str, tuple[int, int]]
    micro: float | None
    macro: float | None
    empty_cells: tuple[str, ...]

    @property
    def items(self) -> int:
        return sum(total for _, total in self.cells.values())

    @property
    def rates(self) -> dict[str, float]:
        """Hit rate of every cell that has items."""
        return {name: correct / total for name, (correct, total) in self.cells.items() if total}


def score_cells(cells: Mapping[str, Sequence[int]]) -> CellScores:
    """Scores from (correct, total) by cell; totals include unreadable and missing predictions."""
    counts: dict[str, tuple[int, int]] = {}
    for name, (correct, total) in cells.items():
        if not 0 <= correct <= total:
            raise DataError(f"{correct} correct of {total}", where=f"cell {name}")
        counts[name] = (int(correct), int(total))
    filled = [(c, t) for c, t in counts.values() if t]
    items = sum(t for _, t in filled)
    return CellScores(
        cells=counts,
        micro=sum(c for c, _ in filled) / items if items else None,
        macro=math.fsum(c / t for c, t in filled) / len(filled) if filled else None,
        empty_cells=tuple(name for name, (_, total) in counts.items() if not total),
    )


@dataclass(frozen=True)
class GroundingScore:
    """A benchmark's result. `accuracy` divides by all items."""

    items: int
    correct: int
    format_errors: int
    missing: int
    cells: CellScores

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.items if self.items else None

    @property
    def format_error_rate(self) -> float | None:
        return self.format_errors / self.items if self.items else None


def score(
    judgements: Sequence[Judgement], cells: Sequence[str] | None = None, expected_cells: Sequence[str] = ()
) -> GroundingScore:
    """Add up judgements. `cells` names each item's cell; `expected_cells` without an item are reported as empty."""
    names = ["all"] * len(judgements) if cells is None else list(cells)
    counts: dict[str, tuple[int, int]] = {name: (0, 0) for name in expected_cells}
    for name, judgement in zip(names, judgements, strict=True):
        correct, total = counts.get(name, (0, 0))
        counts[name] = (correct + judgement.hit, total + 1)
    return GroundingScore(
        items=len(judgements),
        correct=sum(j.hit for j in judgements),
        format_errors=sum(j.format_error for j in judgements),
        missing=sum(j.missing for j in judgements),
        cells=score_cells(counts),
    )
