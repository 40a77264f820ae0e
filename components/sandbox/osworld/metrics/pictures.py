"""Pictures, over Pillow and numpy. Likeness is the mean structural similarity (Wang et al. 2004, windows of 7 x 7)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.sandbox.osworld.metrics import files

Plane = NDArray[np.float64]
_WINDOW = 7
_MAX_PIXELS = 50_000_000


def _open(path: str) -> Any:
    from PIL import Image

    image = Image.open(path)
    if image.width * image.height > _MAX_PIXELS:
        raise ValueError("too large")
    image.load()
    return image


def _both(left: Any, right: Any) -> tuple[Any, Any]:
    return files.result(left, _open), files.reference(right, _open)


def _planes(image: Any) -> list[Plane]:
    pixels = np.asarray(image.convert("RGB"), dtype=np.float64)
    return [pixels[..., channel] for channel in range(3)]


def _means(plane: Plane) -> Plane:
    """The mean of each window."""
    sums = np.zeros((plane.shape[0] + 1, plane.shape[1] + 1))
    sums[1:, 1:] = plane.cumsum(0).cumsum(1)
    w = _WINDOW
    boxes: Plane = sums[w:, w:] - sums[:-w, w:] - sums[w:, :-w] + sums[:-w, :-w]
    return boxes / (w * w)


def likeness(a: Plane, b: Plane) -> float:
    """Mean structural similarity of two planes of one size with values 0 to 255; 0 when they are too small."""
    if a.shape != b.shape or min(a.shape) < _WINDOW:
        return 0.0
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    unbiased = _WINDOW**2 / (_WINDOW**2 - 1)
    ma, mb = _means(a), _means(b)
    va, vb = (unbiased * (_means(p * p) - m * m) for p, m in ((a, ma), (b, mb)))
    cov = unbiased * (_means(a * b) - ma * mb)
    score = (2 * ma * mb + c1) * (2 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2))
    return float(score.mean())


def _alike(left: Any, right: Any, threshold: float = 0.9) -> bool:
    if left.size != right.size:
        return False
    return sum(likeness(a, b) for a, b in zip(_planes(left), _planes(right), strict=True)) / 3 >= threshold


def compare_images(path: Any, expected: Any, **options: Any) -> float:
    """Likeness of the grey pictures, at the smaller one's size."""
    ours, theirs = _both(path, expected)
    if ours is None:
        return 0.0
    size = min(ours.size, theirs.size)
    grey = [np.asarray(side.convert("L").resize(size), dtype=np.float64) for side in (ours, theirs)]
    score = max(0.0, likeness(grey[0], grey[1]))
    base = options.get("reference_base_result")
    if base is None:
        return score
    return (score - base) / (1 - base) if score >= base + 0.01 else 0.0


def compare_image_list(paths: Any, expected: Any) -> float:
    """No pixel differs, in any pair."""
    pairs = zip(*([side] if not isinstance(side, list) else side for side in (paths, expected)), strict=True)
    for left, right in pairs:
        ours, theirs = _both(left, right)
        if ours is None or ours.size != theirs.size:
            return 0.0
        if not np.array_equal(np.asarray(ours.convert(theirs.mode)), np.asarray(theirs)):
            return 0.0
    return 1.0


def check_structure_sim(path: Any, expected: Any) -> float:
    ours, theirs = _both(path, expected)
    return float(ours is not None and _alike(ours, theirs))


def check_structure_sim_resized(path: Any, expected: Any) -> float:
    """After what is transparent was cut off and the rest brought to the reference's size."""
    ours, theirs = _both(path, expected)
    if ours is None:
        return 0.0
    if "A" in ours.getbands():
        box = ours.getchannel("A").getbbox()
        if box is None:
            return 0.0
        ours = ours.crop(box)
    return float(_alike(ours.convert("RGB").resize(theirs.size), theirs))


def check_file_exists(folder: Any, name: Any) -> float:
    if not isinstance(folder, str) or not isinstance(name, str):
        return 0.0
    return float(os.path.isfile(os.path.join(folder, name)))


def check_file_exists_and_structure_sim(path: Any, expected: Any) -> float:
    return check_structure_sim(path, expected)


def check_image_size(path: Any, rule: dict[str, Any]) -> float:
    image = files.result(path, _open)
    if image is None:
        return 0.0
    width, height = image.size
    if rule.get("ignore_transparent", False) and "A" in image.getbands():
        x0, y0, x1, y1 = image.getchannel("A").getbbox() or (0, 0, 0, 0)
        width, height = x1 - x0, y1 - y0
    return float(rule.get("width") in (None, width) and rule.get("height") in (None, height))


def check_image_file_size(path: Any, rule: dict[str, Any]) -> float:
    size = files.result(path, os.path.getsize)
    return float(size is not None and size < rule["max_size"])


def check_image_mirror(path: Any, expected: Any) -> float:
    """The result is the reference seen in a mirror."""
    from PIL import Image

    ours, theirs = _both(path, expected)
    return float(ours is not None and _alike(ours.transpose(Image.Transpose.FLIP_LEFT_RIGHT), theirs, 0.99))


# In what follows the agent's picture comes first, as OSWorld's task files have it, but for the first two functions.


def _mean(image: Any, mode: str, channel: int = 0) -> float:
    return float(np.asarray(image.convert(mode), dtype=np.float64).reshape(-1, len(mode)).mean(0)[channel])


def increase_saturation(before: Any, after: Any) -> float:
    ours, theirs = files.result(after, _open), files.reference(before, _open)
    return float(ours is not None and _mean(ours, "HSV", 1) > _mean(theirs, "HSV", 1))


def decrease_brightness(before: Any, after: Any) -> float:
    ours, theirs = files.result(after, _open), files.reference(before, _open)
    return float(ours is not None and _mean(ours, "L") < _mean(theirs, "L"))


def check_brightness_decrease_and_structure_sim(path: Any, expected: Any, threshold: float = 0.03) -> float:
    """Darker, and else the same: with both brought to one brightness they hardly differ."""
    ours, theirs = _both(path, expected)
    if ours is None:
        return 0.0
    dark, bright = _mean(ours, "L"), _mean(theirs, "L")
    if not dark < bright:
        return 0.0
    ours = ours.resize(theirs.size)
    level = [
        np.clip(np.stack(_planes(side)) * (128 / max(mean, 1e-9)), 0, 255) / 255
        for side, mean in ((ours, dark), (theirs, bright))
    ]
    return float(float(((level[0] - level[1]) ** 2).mean()) < threshold)


def check_saturation_increase_and_structure_sim(path: Any, expected: Any) -> float:
    """More colourful, with hue and brightness as they were."""
    ours, theirs = _both(path, expected)
    if ours is None or ours.size != theirs.size or not _mean(ours, "HSV", 1) > _mean(theirs, "HSV", 1):
        return 0.0
    left, right = (np.asarray(side.convert("HSV"), dtype=np.float64) for side in (ours, theirs))
    return float(all(likeness(left[..., c], right[..., c]) >= 0.9 for c in (0, 2)))


def check_contrast_increase_and_structure_sim(path: Any, expected: Any) -> float:
    ours, theirs = _both(path, expected)
    if ours is None:
        return 0.0
    spread = [float(np.asarray(side, dtype=np.float64).std()) for side in (ours, theirs)]
    return float(spread[0] > spread[1] and _alike(ours, theirs, 0.65))


def check_sharper(path: Any, expected: Any) -> float:
    """Whether neighbouring pixels differ more (variance of the Laplacian)."""

    def sharpness(image: Any) -> float:
        g = np.asarray(image.convert("L"), dtype=np.float64)
        return float((g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:] - 4 * g[1:-1, 1:-1]).var())

    ours, theirs = _both(path, expected)
    return float(ours is not None and min(ours.size) > 2 and sharpness(ours) > sharpness(theirs))


def check_config_status(path: Any, rule: dict[str, Any]) -> float:
    """A line `(key ... value)` of GIMP's settings; a key may be two words."""
    key = rule["key"] if isinstance(rule["key"], list) else [rule["key"]]
    for line in (files.result(path, files.text) or "").splitlines():
        words = line.strip().lstrip("(").rstrip(")").split()
        if words and not line.startswith("#") and words[: len(key)] == key and words[-1] == rule["value"]:
            return 1.0
    return 0.0
