"""The live view over a real desktop: a real browser, a real application, and a look at what is still going on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.calls import BashCall
from components.forge.realapps.generate import generate
from components.rollout.film.find import episodes_in, load_film
from components.rollout.film.make import write_film
from components.sandbox.live.eyes import EyeThread
from components.sandbox.live.hub import Hub
from components.sandbox.live.server import LiveServer
from components.sandbox.live.slot import LiveSlot
from tests.unit.live.browser import BROWSER, browser
from tests.unit.live.kit import DONE, bash, gui, speaker
from tests.x11.conftest import Person, line_of, wait_for

SECONDS = 60.0
ROOT = Path(__file__).resolve().parents[2]


class Watched:
    """A live view of a shared desktop."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.hub = Hub(person.desktop.size, title="a real desktop", backend="x11", task="write a line")
        self.slot = LiveSlot(person.desktop, self.hub)
        self.eye = EyeThread(person.desktop, self.hub)
        self.server = LiveServer(self.slot, self.hub)

    def close(self) -> None:
        self.server.close()
        self.eye.close()


@pytest.fixture
def watched(shared: Person) -> Iterator[Watched]:
    view = Watched(shared)
    yield view
    view.close()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to look with: apt-get install chromium")
def test_a_person_in_a_browser_writes_into_a_real_application(watched: Watched) -> None:
    window = watched.person.edit("live.txt", "one\n")
    with browser() as page:
        page.open(watched.server.address)
        assert page.until("Number(document.documentElement.dataset.pictures) >= 1")
        page.click_on("#control")
        assert page.until("document.documentElement.classList.contains('driving')")
        left, top, wide, high = page.value("(b => [b.x, b.y, b.width, b.height])"
                                           "(document.querySelector('#canvas').getBoundingClientRect())")  # fmt: skip

        def on(x: float, y: float) -> tuple[float, float]:
            return left + (x + 0.5) / watched.slot.size[0] * wide, top + (y + 0.5) / watched.slot.size[1] * high

        page.click(*on(*line_of(window, 1)))
        assert page.until("document.querySelectorAll('#log li.person').length == 1")
        for letter in "from afar":
            page.key(letter)
        assert page.until("document.querySelectorAll('#log li.person').length == 2")
        page.key("s", modifiers=2, code="KeyS", windowsVirtualKeyCode=83)
        assert page.until("document.querySelectorAll('#log li.person').length == 3")
        page.picture("live-x11-test")
    assert wait_for(lambda: watched.person.guest.get("live.txt").decode() == "one\nfrom afar", SECONDS)
    assert [entry["error"] for entry in watched.hub.log_since(0)[0]] == ["", "", ""]


def test_the_screen_is_seen_while_a_command_is_still_running(watched: Watched) -> None:
    """The terminal holds the agent's one channel; the eye has its own."""
    pictures: list[int] = []
    end = watched.hub.subscribe(lambda: pictures.append(1))
    assert wait_for(lambda: len(pictures) >= 1, SECONDS)
    done: list[Any] = []
    command = "xmessage -geometry 300x90+500+300 hello & sleep 60"
    thread = threading.Thread(target=lambda: done.append(watched.slot.act(BashCall(command=command, timeout=6))))
    before = watched.hub.picture
    thread.start()
    assert wait_for(lambda: watched.hub.picture is not before, 30), "the message box was painted meanwhile"
    assert not done
    end()
    thread.join(SECONDS)
    assert done and done[0].timed_out


def test_act_works_on_real_applications_and_asks_by_the_files_that_are_there(tmp_path: Path) -> None:
    """The command line, a scripted endpoint, a real editor; nobody is there to allow the last command."""
    answers = (
        gui("type", text="typed for real"), bash("echo new > made.txt; cat made.txt"), bash("echo over > made.txt"),
        DONE,
    )  # fmt: skip
    with speaker(*answers) as told:
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", "act", "write", "--backend", "x11", "--app", "mousepad", "--policy",
             told.base, "--model", "m", "--out", str(tmp_path / "ep")],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=4 * SECONDS, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "> overwrites: made.txt" in told.told(3)
    (episode,) = episodes_in(tmp_path / "ep")
    film = load_film(episode)
    assert film.good is None and film.size == (1280, 720)
    assert [step.error for step in film.steps] == ["", "", "refused", ""]
    assert film.steps[0].png != film.steps[1].png, "the text is to be seen"
    write_film(film, Path(os.environ.get("COWORK_SCREENSHOTS") or tmp_path) / "strip-x11.png")


def test_nobody_watching_costs_the_desktop_nothing_and_closing_is_quick(person: Person) -> None:
    view = Watched(person)
    assert not view.hub.watched.is_set() and view.hub.picture is None
    end = view.hub.subscribe(lambda: None)
    assert wait_for(lambda: view.hub.picture is not None, SECONDS)
    end()
    assert wait_for(lambda: not view.hub.watched.is_set(), SECONDS)
    start = time.monotonic()
    view.slot.close()
    view.close()
    assert time.monotonic() - start < 30 and not any(t.name.startswith("live-") for t in threading.enumerate())


def test_act_sets_up_a_task_over_real_applications_and_its_verifier_grades(tmp_path: Path) -> None:
    """By the skill's name: done as asked is a success, nothing done and claimed is none."""
    task = next(task for task in generate(0) if task.skill == "files-rename")
    right = bash(task.spec["plan"][0]["terminal"]["command"])
    for name, answers, wanted in (("done", (right, DONE), True), ("claimed", (DONE,), False)):
        with speaker(*answers) as told:
            done = subprocess.run(
                [sys.executable, "-m", "pipelines.cli", "act", "--backend", "x11", "--task", "files-rename", "--policy",
                 told.base, "--model", "m", "--yes", "--out", str(tmp_path / name)],
                cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=4 * SECONDS, check=False,
            )  # fmt: skip
        assert (done.returncode == 0) is wanted, done.stdout + done.stderr
        (episode,) = episodes_in(tmp_path / name)
        assert load_film(episode).good is wanted
