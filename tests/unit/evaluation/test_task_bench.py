from __future__ import annotations

import json

import pytest

from components.contracts.errors import DataError
from components.contracts.outcome import Outcome
from components.contracts.task import channel_class
from components.evaluation.step import fixed_set, single_step_part
from components.evaluation.tasks import headline, run_tasks, slices, with_looks
from tests.unit.rollout.test_episodes import CLICK, RUN, Script, settings
from tests.unit.training.fake_desk import DONE, GIVE_UP, FakeDesk, desks, make_task


def test_the_fixed_set_takes_skills_in_turn_and_depends_on_nothing_but_the_tasks() -> None:
    tasks = [make_task(i, skill) for i, skill in enumerate("aaaaabbc")]
    chosen = fixed_set(tasks, 6, "heldout")
    assert [t.skill for t in chosen] == ["a", "b", "c", "a", "b", "a"]
    assert chosen == fixed_set(tasks[::-1], 6, "heldout")
    assert fixed_set(tasks, 3, "heldout") == chosen[:3], "a smaller bench is the beginning of a larger one"
    assert [t.task_id for t in chosen if t.skill == "a"] == sorted(t.task_id for t in tasks if t.skill == "a")[:3]
    assert len({t.task_id for t in fixed_set(tasks, 8, "heldout")}) == 8
    with pytest.raises(DataError, match="9 heldout tasks are asked for, 8 exist"):
        fixed_set(tasks, 9, "heldout")


def test_channel_classes_name_the_routes_a_task_admits() -> None:
    rows = {
        "gui": [("gui",)], "terminal": [("terminal",)], "either": [("gui",), ("terminal",)],
        "hybrid": [("gui", "terminal")],
    }  # fmt: skip
    for name, routes in rows.items():
        assert channel_class(make_task(1, channels=tuple(routes))) == name
    assert channel_class(make_task(1, channels=(("gui", "terminal"), ("terminal",)))) == "terminal"


def play(workers: int = 1, repeats: int = 1, shown: tuple[str, ...] = ()) -> tuple[list[Outcome], list]:
    """Six tasks: done by clicks, done by the terminal, given up, unreadable, and two whose sandbox breaks."""
    apps = [("files",), ("notes", "files"), *[("files",)] * 4]
    tasks = [make_task(i, "look" if i < 3 else "find", apps=apps[i]) for i in range(6)]
    answers = [(CLICK, DONE), (RUN, DONE), (GIVE_UP, GIVE_UP), ("?", "?"), (CLICK, DONE), (CLICK, DONE)]

    def rule(text: str, step: int) -> str:
        number = int(text.split("total ")[1][:2]) - 10
        return answers[number][step > 0]

    class Fragile(FakeDesk):
        def reset(self, task):  # type: ignore[no-untyped-def]
            self.breaks = {tasks[4].instruction: "reset", tasks[5].instruction: "grade"}.get(task.instruction, "")
            return super().reset(task)

    ids = tuple(tasks[int(k)].task_id for k in shown)
    return run_tasks(
        tasks, Script(rule), settings(), desks(Fragile), repeats=repeats, workers=workers, shown=ids
    )  # fmt: skip


def test_infrastructure_failures_count_0_in_the_headline_and_are_listed() -> None:
    outcomes, _ = play()
    figures = headline(outcomes)
    assert figures["episodes"] == 6 and figures["success"] == pytest.approx(2 / 6)
    assert figures["infra_errors"] == 2
    assert figures["infra_error_tasks"] == sorted([make_id(outcomes, 4), make_id(outcomes, 5)])
    assert figures["calls"] == pytest.approx((2 + 2 + 1 + 3) / 4), "means are over the episodes that ran"
    low, high = figures["success_interval"]
    assert 0 < low < 2 / 6 < high < 1
    assert figures["endings"] == {"infra_error": 2, "step_limit": 1, "terminated": 2, "unparsable": 1}
    assert figures["gui_share"] == pytest.approx(0.5)


def make_id(outcomes: list[Outcome], place: int) -> str:
    return outcomes[place].task_id


def test_slices_count_an_outcome_in_each_of_its_applications() -> None:
    outcomes, _ = play()
    by_app = slices(outcomes, lambda o: o.apps)
    assert by_app == {"files": {"success": pytest.approx(2 / 6), "n": 6}, "notes": {"success": 1.0, "n": 1}}
    figures = headline(outcomes)
    assert figures["by_skill"] == {
        "find": {"success": 0.0, "n": 3}, "look": {"success": pytest.approx(2 / 3), "n": 3},
    }  # fmt: skip
    assert set(figures["by_channel"]) == {"either"} and set(figures["by_split"]) == {"train"}


def test_outcomes_do_not_depend_on_the_number_of_workers_and_stand_in_order() -> None:
    alone, _ = play(workers=1, repeats=2)
    shared, _ = play(workers=3, repeats=2)
    assert alone == shared and [o.repeat for o in alone] == [0] * 6 + [1] * 6


def test_a_repeat_is_the_same_task_in_other_looks() -> None:
    task = make_task(1)
    assert with_looks(task, 0) == task
    other = with_looks(task, 1)
    assert other.seed != task.seed and other.task_id == task.task_id and other.setup == task.setup
    assert with_looks(task, 1) == other != with_looks(task, 2)


def test_a_shown_episode_has_every_step_and_one_screen_more() -> None:
    _, views = play(shown=("1", "3"))
    done, unread = views
    assert [s["channel"] for s in done.data["steps"]] == ["terminal", "none"]
    assert done.data["success"] is True and len(done.screens) == 3
    assert done.data["steps"][0]["call"] == {"name": "bash", "arguments": {"command": "ls"}}
    assert done.data["checks"][0]["passed"] is True
    assert unread.data["steps"][0]["call"] is None and unread.data["steps"][0]["error"] == "missing_tool_call"
    assert unread.data["success"] is False
    assert json.dumps([v.data for v in views])


def test_a_shown_episode_whose_sandbox_broke_has_no_success_at_all() -> None:
    _, views = play(shown=("4", "5"))
    assert [v.data["success"] for v in views] == [None, None]


def test_single_step_shares_are_over_all_items() -> None:
    from components.evaluation.single_step import StepItem, StepScore

    rows = [
        ("key", StepScore(True, True, True, True)), ("key", StepScore(True, True, False, False)),
        ("scroll", StepScore(True, False, False, False)), ("scroll", StepScore(False, False, False, False)),
    ]  # fmt: skip
    items = [StepItem(name, (), None, (), None, (288, 224)) for name, _ in rows]  # type: ignore[arg-type]
    part = single_step_part(items, [score for _, score in rows])
    assert [part[name] for name in ("syntax", "action", "arguments", "hit", "joint")] == [0.75, 0.5, 0.25, 0.25, 0.25]
    assert part["by_primitive"] == {"key": 0.5, "scroll": 0.0} and part["items"] == 4
    assert single_step_part([], [])["joint"] == 0.0
