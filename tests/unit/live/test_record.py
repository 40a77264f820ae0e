"""Stored episodes as pictures: found by what a person would type, drawn where the action was, the same bytes again."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from components.contracts.errors import DataError, ParamsError
from components.contracts.task import CheckResult, Verdict
from components.contracts.trajectory import Step, Trajectory
from components.rollout.film.draw import draw_mark, wrap
from components.rollout.film.find import episodes_in, find_episode, load_film
from components.rollout.film.make import gif, strip, write_film
from components.rollout.screens import encode_png, screen_digest
from components.rollout.store import StoredScreen, write_screens, write_store

ROOT = Path(__file__).resolve().parents[3]
W, H = 288, 224


def screen(shade: int) -> Any:
    return np.full((H, W, 3), shade, np.uint8)


CALLS: tuple[dict[str, Any], ...] = (
    {"tool": "computer_use", "action": "left_click", "coordinate": [200, 50]},
    {"tool": "computer_use", "action": "left_click_drag", "start": [20, 20], "coordinate": [120, 180]},
    {"tool": "bash", "command": "ls -l /very/long " + "path " * 60},
    {"tool": "computer_use", "action": "terminate", "status": "success"},
)


def trajectory(name: str, task: str = "0" * 64, verdict: Verdict | None = None, **changes: Any) -> Trajectory:
    names = [screen_digest(screen(40 * n)) for n in range(len(CALLS) + 1)]
    steps = tuple(
        Step(index=n, screen=names[n], screen_after=names[n + 1], think="because", action=f"do thing {n}", call=call,
             output="one\ntwo\n" * 30 if call["tool"] == "bash" else "",
             channel="terminal" if call["tool"] == "bash" else "gui")
        for n, call in enumerate(CALLS)
    )  # fmt: skip
    fields: dict[str, Any] = {
        "trajectory_id": f"sha256:{name}", "task_id": f"sha256:{task}", "skill": "s", "split": "dev",
        "instruction": "do the things", "harness": "hybrid", "source": "x", "steps": steps,
        "verdict": verdict or Verdict(success=True, results=(CheckResult(check="c", passed=True),)),
        "ending": "terminated",
    }  # fmt: skip
    return Trajectory(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    screens = {screen_digest(s): StoredScreen(encode_png(s)) for s in (screen(40 * n) for n in range(len(CALLS) + 1))}
    both = [trajectory("abcd11" + "0" * 58), trajectory("abcd22" + "0" * 58, "1" * 64)]
    write_store(tmp_path / "store", both, screens)
    return tmp_path / "store"


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    """As an evaluation writes it: calls as the model wrote them, on the grid of 0..1000."""
    shots = [screen(0), screen(90)]
    call = {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 250]}}
    step = {"screen": screen_digest(shots[0]), "screen_after": screen_digest(shots[1]), "think": "t",
            "action": "click it", "call": call, "raw": "", "output": "", "error": "", "channel": "gui"}  # fmt: skip
    entry = {"task_id": "sha256:" + "c" * 64, "skill": "s", "instruction": "click", "split": "heldout",
             "success": False, "ending": "step_limit", "steps": [step],
             "checks": [{"check": "c", "passed": False, "reason": "no a"}],
             "verdict_error": "", "stage": "rl"}  # fmt: skip
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores" / "gallery.json").write_text(json.dumps([entry]))
    write_screens(tmp_path / "scores", {screen_digest(s): StoredScreen(encode_png(s)) for s in shots})
    return tmp_path / "scores"


def red(image: Image.Image) -> Any:
    pixels = np.asarray(image.convert("RGB")).astype(int)
    return (pixels[:, :, 0] > 200) & (pixels[:, :, 1] < 90) & (pixels[:, :, 2] < 110)


def test_an_episode_is_found_by_id_beginning_task_and_number(folder: Path, gallery: Path) -> None:
    places = [folder, gallery]
    assert find_episode("abcd11", places).number == 0 == find_episode("sha256:abcd11", [folder]).number
    assert find_episode("abcd22" + "0" * 58, places).number == 1 == find_episode("1111", places).number
    assert find_episode("1", [folder]).number == 1 and find_episode("cccc", places).folder == gallery


@pytest.mark.parametrize(
    ("wanted", "one", "words"),
    [("abcd", True, "ambiguous"), ("abcd", False, "number 1"), ("ffff", True, "no episode 'ffff' among 2"),
     ("7", True, "there are 0 to 1"), ("1", False, "--in"), ("ab", True, "too short")],
)  # fmt: skip
def test_an_ambiguous_or_unknown_episode_is_named_with_what_there_is(
    folder: Path, gallery: Path, wanted: str, one: bool, words: str
) -> None:
    with pytest.raises(DataError) as error:
        find_episode(wanted, [folder] if one else [folder, gallery])
    assert words in str(error.value)


def test_the_strip_shows_every_step_and_the_action_where_it_was(folder: Path) -> None:
    film = load_film(find_episode("abcd11", [folder]))
    picture = Image.open(io.BytesIO(strip(film)))
    assert [step.terminal for step in film.steps] == [False, False, True, False] and film.good is True
    marks = red(picture)
    first = np.argwhere(marks[:, : picture.width // 4])
    y, x = first.mean(axis=0)
    # The first tile begins below the heading, 16 pixels from the left.
    top = next(row for row in range(picture.height) if tuple(picture.getpixel((100, row))[:3]) == (0, 0, 0))
    assert abs(x - (16 + 200)) < 3 and abs(y - (top + 50)) < 3


def test_a_gallery_s_coordinates_are_those_of_its_grid(gallery: Path) -> None:
    film = load_film(find_episode("cccc", [gallery]))
    assert film.steps[0].mark["points"] == [(144.0, 56.0)] and film.good is False and "no a" in film.result
    marks = np.argwhere(red(Image.open(io.BytesIO(strip(film)))))
    assert len(marks) > 20


@pytest.mark.parametrize("make", [strip, gif])
def test_the_same_episode_gives_the_same_bytes(folder: Path, make: Any) -> None:
    film = load_film(find_episode("abcd11", [folder]))
    again = load_film(find_episode("abcd11", [folder]))
    assert make(film) == make(again)


def test_a_gif_has_a_picture_a_step_and_one_for_the_end(folder: Path) -> None:
    picture = Image.open(io.BytesIO(gif(load_film(find_episode("abcd11", [folder])))))
    assert picture.n_frames == len(CALLS) + 1  # type: ignore[attr-defined]
    picture.seek(0)
    assert red(picture).sum() > 50


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg: apt-get install ffmpeg")
def test_a_film_lasts_as_long_as_its_steps_and_shows_the_marks(folder: Path, tmp_path: Path) -> None:
    film = load_film(find_episode("abcd11", [folder]))
    write_film(film, tmp_path / "a.mp4")
    write_film(film, tmp_path / "b.mp4")
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()
    subprocess.run(["ffmpeg", "-v", "error", "-ss", "0.5", "-i", tmp_path / "a.mp4", "-frames:v", "1",
                    tmp_path / "frame.png"], check=True)  # fmt: skip
    assert red(Image.open(tmp_path / "frame.png")).sum() > 50
    probe = subprocess.run(["ffmpeg", "-i", tmp_path / "a.mp4", "-f", "null", "-"], capture_output=True, text=True,
                           check=True)  # fmt: skip
    assert "Duration: 00:00:09" in probe.stderr, probe.stderr


def test_without_ffmpeg_a_film_is_refused_with_what_to_do(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="ffmpeg") as error:
        write_film(load_film(find_episode("abcd11", [folder])), tmp_path / "a.mp4")
    assert ".gif" in error.value.remedy and not list(tmp_path.glob("*.mp4")) and not list(tmp_path.glob(".cowork-*"))


def test_a_failing_ffmpeg_leaves_nothing_and_says_why(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ffmpeg").write_text("#!/bin/sh\necho no codec >&2\nexit 3\n")
    (tmp_path / "bin" / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    with pytest.raises(DataError, match="no codec"):
        write_film(load_film(find_episode("abcd11", [folder])), tmp_path / "out" / "a.mp4")
    assert not list((tmp_path / "out").iterdir())


def test_a_full_disk_leaves_the_old_file_and_says_so(folder: Path, tmp_path: Path) -> None:
    film = load_film(find_episode("abcd11", [folder]))
    (tmp_path / "a.png").write_bytes(b"old")
    script = (
        "import resource, signal, sys\nfrom pathlib import Path\n"
        "from components.rollout.film.find import find_episode, load_film\n"
        "from components.rollout.film.make import write_film\n"
        "film = load_film(find_episode('abcd11', [Path(sys.argv[1])]))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_film(film, Path(sys.argv[2]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, folder, tmp_path / "a.png"], cwd=ROOT, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)  # fmt: skip
    assert "DataError" in done.stderr and "cannot be written" in done.stderr
    assert (tmp_path / "a.png").read_bytes() == b"old" and not list(tmp_path.glob(".cowork-*"))
    assert len(strip(film)) > 1000


def test_an_ending_that_is_none_of_ours_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="webm"):
        write_film(load_film(find_episode("abcd11", [folder])), tmp_path / "a.webm")


def test_damaged_pictures_are_named(folder: Path) -> None:
    store = folder / "screens.parquet"
    store.write_bytes(store.read_bytes()[:200])
    with pytest.raises(DataError, match="screens.parquet"):
        load_film(find_episode("abcd11", [folder]))


def test_another_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no episodes"):
        episodes_in(tmp_path)


def test_marks_off_the_screen_and_long_words_do_no_harm() -> None:
    image = Image.new("RGB", (100, 80))
    for points in ([(-500.0, 9000.0)], [(5.0, 5.0), (1e6, -1e6)], []):
        drawn = draw_mark(image, {"kind": "drag", "points": points, "caption": "", "tone": "pointer"}, (100, 80))
        assert drawn.size == (100, 80)
    lines = wrap("x" * 5000 + " and more", 14, 200, 3)
    assert len(lines) == 3 and lines[-1].endswith("…") and wrap("", 14, 200, 3) == []


def test_the_command_writes_lists_and_says_what_it_did(folder: Path, tmp_path: Path) -> None:
    def record(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "pipelines.cli", "desktop", "record", *args], cwd=tmp_path,
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
        )  # fmt: skip

    told = json.loads(record("1", "--in", str(folder), "--json").stdout)
    assert told["steps"] == len(CALLS) and (tmp_path / told["file"]).read_bytes()[:4] == b"\x89PNG"
    listed = json.loads(record("list", "--in", str(folder), "--json").stdout)
    assert [row["number"] for row in listed] == [0, 1]
    for args, code in ((("abcd", "--in", str(folder)), 4), (("last",), 4), (("1", "--format", "avi"), 2)):
        done = record(*args)
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
