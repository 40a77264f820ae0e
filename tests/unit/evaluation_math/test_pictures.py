"""A benchmark is evaluated whole or not at all: its pictures are there, of their size, and were not trained on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.contracts.errors import DataError
from components.evaluation.pictures import PictureError, load_benchmark
from components.rollout.screens import screen_digest


def picture(shade: int, width: int = 64, height: int = 48) -> np.ndarray:
    made = np.full((height, width, 3), shade, np.uint8)
    made[: height // 2] += 7
    return made


def save(path: Path, pixels: np.ndarray, level: int = 6) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, compress_level=level)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    save(root / "web" / "a.png", picture(10))
    save(root / "web" / "b.png", picture(20))
    save(root / "desk" / "c.png", picture(30))
    return root


def write(tmp_path: Path, *items: tuple[str, str], size: tuple[int, int] = (64, 48)) -> Path:
    rows = [{"img_filename": name, "instruction": asked, "bbox": [1, 1, 9, 9]} for name, asked in items]
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps({"bbox_format": "xyxy_pixel", "image_size": size, "items": rows}))
    return path


ALL = (("web/a.png", "open"), ("web/b.png", "open"), ("desk/c.png", "close"), ("desk/c.png", "save"))


def refused(file: Path, folder: Path, trained: tuple[str, ...] = ()) -> PictureError:
    with pytest.raises(PictureError) as caught:
        load_benchmark(file, folder, trained)
    assert "nothing was evaluated" in str(caught.value)
    return caught.value


def test_a_whole_benchmark_is_loaded_and_what_nobody_names_is_told(tmp_path: Path, folder: Path) -> None:
    benchmark = load_benchmark(write(tmp_path, *ALL[:2]), folder)
    assert len(benchmark.annotations) == 2 and benchmark.extra == ("desk/c.png",)


@pytest.mark.parametrize(
    ("name", "hint"), [("web/z.png", ""), ("web/A.png", "case"), ("WEB/a.PNG", "case"), ("a.png", "")]
)
def test_a_picture_that_is_not_there_by_that_name_stops_it(tmp_path: Path, folder: Path, name: str, hint: str) -> None:
    error = refused(write(tmp_path, *ALL, (name, "open")), folder)
    assert (error.code, error.names, error.hint) == ("picture_missing", (name,), hint)
    assert "1 of 4" in str(error)


def test_a_picture_of_another_size_stops_it_with_both_sizes(tmp_path: Path, folder: Path) -> None:
    save(folder / "web" / "b.png", picture(20, 128, 96))
    error = refused(write(tmp_path, *ALL), folder)
    assert (error.code, error.names) == ("image_size_differs", ("web/b.png",))
    assert "stated 64 x 48, is 128 x 96" in str(error)


def test_the_same_question_twice_stops_it_and_another_one_about_the_picture_does_not(
    tmp_path: Path, folder: Path
) -> None:
    assert load_benchmark(write(tmp_path, *ALL), folder)
    error = refused(write(tmp_path, *ALL, ALL[1]), folder)
    assert (error.code, error.names) == ("duplicate_item", ("web/b.png",))


def test_a_picture_that_was_trained_on_is_found_by_its_pixels_whatever_its_file(tmp_path: Path, folder: Path) -> None:
    trained = (screen_digest(picture(20)), screen_digest(picture(99)))
    save(folder / "web" / "b.png", picture(20), level=0)
    error = refused(write(tmp_path, *ALL), folder, trained)
    assert (error.code, error.names) == ("train_eval_overlap", trained[:1])
    assert load_benchmark(write(tmp_path, *ALL[2:]), folder, trained), "nobody asks about that picture here"


def test_a_file_that_is_no_picture_is_named(tmp_path: Path, folder: Path) -> None:
    (folder / "web" / "b.png").write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"b\.png"):
        load_benchmark(write(tmp_path, *ALL), folder)
