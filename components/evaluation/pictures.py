"""The pictures of a grounding benchmark: each annotation has its own, of the stated size, and no training run saw it.

A benchmark that is short of a picture is not evaluated on the rest: its score would be of another benchmark.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.contracts.errors import DataError
from components.evaluation.grounding import Annotation, load_annotations

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


class PictureError(DataError):
    """A benchmark that cannot be evaluated as it is.

    `code`: picture_missing, image_size_differs, duplicate_item, train_eval_overlap. `names` lists all that are meant
    (files, or digests for the last). `hint` is "case" where a file of the same name in other letters is there.
    """

    def __init__(self, code: str, names: Sequence[str], message: str, *, hint: str = "", where: str = "") -> None:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        remedy = "a file of that name in other letters is there: rename one" if hint else "mend the benchmark's files"
        super().__init__(f"{code}: {message}: {shown}", where=where, remedy=f"{remedy}; nothing was evaluated")
        self.code, self.names, self.hint = code, tuple(names), hint


@dataclass(frozen=True)
class Picture:
    """A file of a benchmark. `digest` is that of its pixels, as training stores name theirs; size in pixels."""

    digest: str
    size: tuple[int, int]


@dataclass(frozen=True)
class Benchmark:
    """Annotations that can be evaluated, and pictures that none of them names."""

    annotations: tuple[Annotation, ...]
    extra: tuple[str, ...]


def check_pictures(
    annotations: Sequence[Annotation],
    pictures: Mapping[str, Picture],
    trained: Collection[str] = (),
    *,
    where: str = "",
) -> Benchmark:
    """The benchmark, or PictureError. `pictures` by name; `trained`: digests of every picture that was trained on."""
    named = list(dict.fromkeys(annotation.image for annotation in annotations))
    if missing := [name for name in named if name not in pictures]:
        there = {_folded(name) for name in pictures}
        hint = "case" if any(_folded(name) in there for name in missing) else ""
        raise PictureError("picture_missing", missing, f"{len(missing)} of {len(named)}", hint=hint, where=where)
    if other := [a.image for a in annotations if tuple(a.image_size) != tuple(map(float, pictures[a.image].size))]:
        first = next(a for a in annotations if a.image == other[0])
        real = pictures[first.image].size
        said = f"stated {first.image_size[0]:g} x {first.image_size[1]:g}, is {real[0]} x {real[1]}"
        raise PictureError("image_size_differs", list(dict.fromkeys(other)), said, where=where)
    asked = Counter((annotation.image, annotation.instruction) for annotation in annotations)
    if twice := [name for (name, _), count in asked.items() if count > 1]:
        raise PictureError("duplicate_item", twice, "the same question about the same picture", where=where)
    if seen := sorted({pictures[name].digest for name in named} & set(trained)):
        raise PictureError("train_eval_overlap", seen, "pictures that were trained on", where=where)
    return Benchmark(tuple(annotations), tuple(sorted(pictures.keys() - set(named))))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def read_pictures(folder: Path) -> dict[str, Picture]:
    """Every picture below a folder by its relative path. Raises DataError for a file that is no picture."""
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    from components.rollout.screens import screen_digest

    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES):
        try:
            with Image.open(path) as picture:
                pixels = np.asarray(picture.convert("RGB"))
        except (OSError, UnidentifiedImageError) as error:
            raise DataError(f"not a picture: {error}", where=str(path), remedy="restore the file") from error
        height, width = pixels.shape[:2]
        found[path.relative_to(folder).as_posix()] = Picture(screen_digest(pixels), (int(width), int(height)))
    return found


def load_benchmark(file: Path, folder: Path, trained: Collection[str] = ()) -> Benchmark:
    """An annotation file (`grounding.load_annotations`) with the pictures in `folder`."""
    return check_pictures(load_annotations(file), read_pictures(folder), trained, where=file.name)
