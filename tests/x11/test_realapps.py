"""Tasks over real applications on real desktops: demonstrations, one task an application, the shop, many at once.

Few starts of large applications: a start costs seconds of a core.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from components.contracts.errors import SandboxError
from components.contracts.task import SetupStep, Task, Verdict
from components.forge.realapps import scene
from components.forge.realapps.gate import make_desktop, refuse, run_plan
from components.forge.realapps.generate import generate
from components.forge.realapps.moves import Hands, play
from components.sandbox.web.seed import digest, seed_bytes
from components.sandbox.x11 import starts
from components.sandbox.x11.channel import GuestError
from components.sandbox.x11.desktop import X11Desktop

pytestmark = [
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("soffice", "gimp", "chromium")),
        reason="LibreOffice, GIMP or Chromium is not installed (make desktops)",
    ),
    pytest.mark.timeout(600),
]

GUI, TERMINAL = ("gui",), ("terminal",)


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    return {task.skill: task for task in generate(0)}


@pytest.fixture
def desktop() -> Iterator[X11Desktop]:
    with closing(make_desktop()) as opened:
        yield opened


def reasons(verdict: Verdict) -> str:
    return "; ".join([verdict.error, *(f"{r.check}: {r.reason}" for r in verdict.results if not r.passed)])


def passes(verdict: Verdict) -> bool:
    assert verdict.success, reasons(verdict)
    return True


def test_the_calc_demonstration_is_solved_through_the_screen_and_in_the_terminal(
    tasks: dict[str, Task], desktop: X11Desktop
) -> None:
    task = tasks["calc-banner-chart"]
    desktop.reset(task)
    windows = desktop.guest.windows()
    assert [window.kind for window in windows] == ["normal"]  # no question of a first start
    assert windows[0].box[2] - windows[0].box[0] == desktop.size[0]
    play(desktop, task.spec["plan"], GUI)
    assert passes(desktop.grade())
    assert passes(run_plan(task, desktop, task.spec["plan"], TERMINAL))


def test_the_gimp_demonstration_is_solved_through_the_screen_and_in_the_terminal(
    tasks: dict[str, Task], desktop: X11Desktop
) -> None:
    task = tasks["gimp-layers"]
    desktop.reset(task)
    assert [window.kind for window in desktop.guest.windows()] == ["normal"]
    play(desktop, task.spec["plan"], GUI)
    assert passes(desktop.grade())
    assert passes(run_plan(task, desktop, task.spec["plan"], TERMINAL))


def test_a_document_that_is_right_on_the_screen_counts_when_it_is_saved_and_not_before(
    tasks: dict[str, Task], desktop: X11Desktop
) -> None:
    task = tasks["writer-append"]
    desktop.reset(task)
    moves = task.spec["plan"][0]["gui"]["moves"]
    hands = Hands(desktop)
    for move in moves[:2]:
        hands.move(*move)
    early = desktop.grade()
    assert not early.success and not early.error
    assert f"unsaved: {task.spec['args']['path']}" in reasons(early)
    desktop.reset(task)  # a look at the result ends an episode
    hands = Hands(desktop)
    for move in moves:
        hands.move(*move)
    assert passes(desktop.grade())


def test_a_slide_deleted_in_impress_is_gone_from_the_file(tasks: dict[str, Task], desktop: X11Desktop) -> None:
    task = tasks["impress-delete"]
    assert passes(run_plan(task, desktop, task.spec["plan"], GUI))


def test_an_order_placed_in_the_browser_is_in_the_shop_outside_the_sandbox(
    tasks: dict[str, Task], desktop: X11Desktop
) -> None:
    task = tasks["shop-order"]
    desktop.reset(task)
    assert [(w.kind, w.title) for w in desktop.guest.windows()] == [("normal", "Products - Corner Shop - Chromium")]
    play(desktop, task.spec["plan"], GUI)
    assert passes(desktop.grade())
    # The shop's socket is no process of the sandbox: what runs inside cannot take its place.
    desktop.guest.kill_apps()
    with pytest.raises(GuestError, match="in use"):
        desktop.guest.listen(scene.PORT)
    page = desktop.guest.bash("curl -s http://shop.local:8100/orders; ls -a; ss -ltnp 2>/dev/null")
    assert task.spec["args"]["city"] in page.output and "sqlite" not in page.output.lower()


def test_file_manager_and_editor_are_used_by_mouse_and_keys(tasks: dict[str, Task], desktop: X11Desktop) -> None:
    for skill in ("files-rename", "editor-append"):
        assert passes(run_plan(tasks[skill], desktop, tasks[skill].spec["plan"], GUI)), skill


def test_a_command_typed_in_a_terminal_window_makes_its_file(tasks: dict[str, Task], desktop: X11Desktop) -> None:
    task = tasks["editor-new"]
    setup = (
        *(step for step in task.setup if step.preparer != "open"),
        SetupStep(preparer="open", args={"app": "terminal"}),
    )
    desktop.reset(task.model_copy(update={"setup": setup}))
    hands = Hands(desktop)
    hands.move("type", task.spec["plan"][0]["terminal"]["command"] + "\n")
    hands.move("saved", task.spec["args"]["path"])
    assert passes(desktop.grade())


def test_a_slot_whose_application_shows_a_bad_window_is_not_handed_out(
    tasks: dict[str, Task], desktop: X11Desktop
) -> None:
    task = tasks["editor-append"]
    path = "plan (read-only).txt"
    setup = (
        SetupStep(preparer="text", args={"path": path, "text": "x"}),
        SetupStep(preparer="open", args={"app": "editor", "path": path}),
    )
    with pytest.raises(SandboxError, match="not ready"):
        desktop.reset(task.model_copy(update={"setup": setup}))
    assert desktop.reset(task).screen.shape == (720, 1280, 3)  # the next one is fresh


def test_starts_of_applications_take_their_turns_at_the_given_limiter(
    tasks: dict[str, Task], desktop: X11Desktop
) -> None:
    taken: list[str] = []

    @contextmanager
    def turn() -> Iterator[None]:
        taken.append("in")
        yield
        taken.append("out")

    before = starts.limit_by(turn)
    try:
        desktop.reset(tasks["editor-append"])
    finally:
        starts.limit_by(before)
    assert taken == ["in", "out"]


def test_the_gate_keeps_a_good_task_and_refuses_one_whose_check_is_always_true(
    tasks: dict[str, Task], desktop: X11Desktop
) -> None:
    task = tasks["shop-stock"]
    assert refuse(task, desktop) == ""
    careless = task.model_copy(update={"verifier": task.verifier[3:]})  # only "nothing else changed"
    assert refuse(careless, desktop) == "noop: passes and must not"


SMALL = ("shop-stock", "calc-sort", "writer-replace", "gimp-scale", "deck-and-file", "files-move")


def _alone(task: Task) -> Verdict:
    with closing(make_desktop()) as own:
        return run_plan(task, own, task.spec["plan"], TERMINAL)


def _at_once(chosen: list[Task], count: int) -> dict[str, Verdict]:
    with ThreadPoolExecutor(count) as pool:
        return dict(zip([task.task_id for task in chosen], pool.map(_alone, chosen), strict=True))


def test_four_slots_at_once_in_another_order_give_the_verdicts_of_one_alone(tasks: dict[str, Task]) -> None:
    chosen = [tasks[skill] for skill in SMALL]
    alone = {task.task_id: _alone(task) for task in chosen}
    mixed = list(chosen)
    random.Random(3).shuffle(mixed)
    assert _at_once(mixed, 4) == alone
    assert all(passes(verdict) for verdict in alone.values())


def test_four_slots_with_one_task_have_each_a_shop_of_their_own(tasks: dict[str, Task]) -> None:
    task = tasks["shop-order"]
    quiet = task.model_copy(update={"setup": tuple(step for step in task.setup if step.preparer != "open")})
    desktops = [make_desktop() for _ in range(4)]
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda one: one.reset(quiet), desktops))
        sites: list[Any] = [scene._slot(one.guest).site for one in desktops]
        seed = digest(seed_bytes(task.setup[0].args["rows"]))
        assert {digest(site.record().after) for site in sites} == {seed}
        play(desktops[0], task.spec["plan"], TERMINAL)
        assert passes(desktops[0].grade())
        assert [digest(site.record().after) == seed for site in sites] == [False, True, True, True]
        assert [len(site.record().visits) > 0 for site in sites] == [True, False, False, False]
    finally:
        for one in desktops:
            one.close()


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_the_gate_keeps_every_task() -> None:
    from components.forge.realapps.gate import gate_tasks

    results = gate_tasks(generate(0), workers=2)
    assert [(one.skill, one.refused) for one in results if one.refused] == []


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_all_tasks_give_the_same_verdicts_four_at_once_in_another_order() -> None:
    chosen = [task for task in generate(0) if TERMINAL in task.channels]
    alone = {task.task_id: _alone(task) for task in chosen}
    mixed = list(chosen)
    random.Random(5).shuffle(mixed)
    assert _at_once(mixed, 4) == alone
