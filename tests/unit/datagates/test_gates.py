"""Each gate passes sound data and, for every kind of fault, fails with the rule that is about it and the row by name.

Faults of single rows are put into one copy of the data, each into a row of its own: a gate reports all of them at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.contracts.digests import digest_tree
from components.contracts.errors import DataError, ParamsError
from components.contracts.stage import StepContext
from components.contracts.task import Task
from components.curation.datagates import of_corpora
from components.curation.datagates.of_corpora import learned_chars
from components.curation.datagates.step import LOADERS, run
from components.curation.gate import Told, tell
from components.forge.store import load_tasks
from components.rollout.tables import read_table, write_table
from tests.unit.datagates.world import COUNTS, World, build, regenerate
from tests.unit.rollout_store.small import params

Row = dict[str, Any]
Rules = dict[tuple[str, str], list[Row]]
COUNT = "expect_table_row_count_to_be_between"
UNIQUE = "expect_compound_columns_to_be_unique"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def world(sound: World, tmp_path: Path) -> World:
    return sound.copy(tmp_path / "world")


@pytest.fixture(scope="module")
def faulty(sound: World, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Rules, dict[str, Row]]]:
    """For a kind of data, after all its faults: the rules that are broken, and what names the row of each fault."""
    known: dict[str, tuple[Rules, dict[str, Row]]] = {}

    def of(kind: str) -> tuple[Rules, dict[str, Row]]:
        if kind not in known:
            world = sound.copy(tmp_path_factory.mktemp(kind) / "world")
            named = {fault: change(world, number) for number, (fault, (change, _)) in enumerate(FAULTS[kind].items())}
            world.failure(kind)
            known[kind] = world.broken_rules(kind), named
        return known[kind]

    return of


@pytest.mark.parametrize("kind", LOADERS)
def test_sound_data_passes_and_leaves_a_page_and_the_same_bytes_every_time(kind: str, world: World) -> None:
    metrics = world.check(kind)
    assert metrics["rules"] > 20 and metrics["rows"] > 50
    outputs = world.outputs(kind)
    assert json.loads((outputs["gate"] / "passed.json").read_text()) == {"gate": kind, "verdict": "pass"}
    before = {name: digest_tree(path) for name, path in outputs.items()}
    assert world.check(kind) == metrics
    assert {name: digest_tree(path) for name, path in outputs.items()} == before
    page = (outputs["validation"] / "page.html").read_text()
    assert "<script" not in page and not re.findall(r"(?:https?:)?//|src=|@import|url\(", page)
    assert not (outputs["validation"] / "failed_rows.jsonl").read_text()


def test_the_pass_says_the_same_for_other_sound_data(world: World) -> None:
    world.check("tasks")
    before = digest_tree(world.outputs("tasks")["gate"])
    first, *others = load_tasks(world.root / "tasks")
    fields = {name: getattr(first, name) for name in Task.model_fields if name != "task_id"}
    regenerate(world, [Task.build(**fields | {"max_steps": first.max_steps + 1}), *others])
    world.check("tasks")
    assert digest_tree(world.outputs("tasks")["gate"]) == before


# Faults of single rows: (change, (table, column or type of the rule)).


def _task(split: str, change: Callable[[Row, list[Row]], Any]) -> Callable[[World, int], Row]:
    """Change one task of a split, knowing all of them."""

    def apply(world: World, number: int) -> Row:
        line = 0

        def edit(rows: list[Row]) -> None:
            nonlocal line
            line = [i for i, row in enumerate(rows, start=1) if row["split"] == split][number]
            change(rows[line - 1], rows)

        world.edit_tasks(edit)
        return {"line": line}

    return apply


def _last_train(rows: list[Row]) -> Row:
    return [row for row in rows if row["split"] == "train"][-1]


def _train(**changes: Any) -> Callable[[World, int], Row]:
    return _task("train", lambda row, rows: row.update(changes))


def _same_spec(row: Row, rows: list[Row]) -> None:
    row.update(skill=_last_train(rows)["skill"], spec={**_last_train(rows)["spec"], "plan": []})


def _same_task(row: Row, rows: list[Row]) -> None:
    """A training task once more under the held-out split's name and other looks, with an id that fits."""
    copied = Task.model_validate_json(json.dumps(_last_train(rows) | {"split": "heldout", "seed": 5}))
    fields = {name: getattr(copied, name) for name in Task.model_fields if name != "task_id"}
    row.update(Task.build(**fields).model_dump(mode="json"))


def _same_text(row: Row, rows: list[Row]) -> None:
    longest = max((r["instruction"] for r in rows if r["split"] == "train"), key=len)
    row["instruction"] = longest.upper().replace(" ", "  ") + ", now."


def _episode(store: str, step: Row | None = None, **changes: Any) -> Callable[[World, int], Row]:
    return lambda world, number: world.edit_episode(store, number, step, **changes)


def _heldout_episode(world: World, number: int) -> Row:
    return world.edit_episode("gui", number, task_id=load_tasks(world.root / "tasks", "heldout")[0].task_id)


def _call(**values: Any) -> Row:
    return {"call": {"tool": "computer_use", "action": "left_click", **values}}


def _sample(corpus: str, **changes: Any) -> Callable[[World, int], Row]:
    """Replace columns of a sample, or change them by a function."""

    def apply(world: World, number: int) -> Row:
        named: Row = {}

        def edit(rows: list[Row]) -> None:
            row = [row for row in rows if row["kind"] == "agent" and "[7, 14]" in row["response"]][2 * number]
            row.update({name: to(row[name]) if callable(to) else to for name, to in changes.items()})
            named.update(corpus=corpus, sample_id=row["sample_id"])

        world.edit_samples(corpus, edit)
        return named

    return apply


def _answer(pattern: str, to: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        changed = re.sub(pattern, to, text)
        assert changed != text
        return changed

    return change


def _without_picture(messages: str) -> str:
    told = json.loads(messages)
    told[-1]["parts"] = [part for part in told[-1]["parts"] if "image" not in part]
    return json.dumps(told[:1] + told[-1:])


def _heldout_text(world: World, number: int) -> Row:
    text = load_tasks(world.root / "tasks", "heldout")[2].instruction.title()
    return _sample("hybrid-sft", messages=lambda m: re.sub(r"Task: [^\\]*", lambda _: f"Task: {text}", m))(
        world, number
    )


def _score(folder: str, **changes: Any) -> Callable[[World, int], Row]:
    def apply(world: World, number: int) -> Row:
        world.edit_scores(folder, **changes)
        return {"file_of": folder}

    return apply


def _played(**changes: Any) -> Callable[[World, int], Row]:
    def apply(world: World, number: int) -> Row:
        world.edit_episodes("rl", lambda rows: rows[number].update(changes))
        return {"stage": "rl", "line": number + 1}

    return apply


def _train_task_played(world: World, number: int) -> Row:
    return _played(task_id=load_tasks(world.root / "tasks", "train")[0].task_id)(world, number)


def _played_twice(world: World, number: int) -> Row:
    world.edit_episodes("rl", lambda rows: rows[number].update(task_id=rows[30]["task_id"]))
    return {"stage": "rl", "line": number + 1}


_BASH = r'{"name": "bash", "arguments": {"command": "ls"}}'

FAULTS: dict[str, dict[str, tuple[Callable[[World, int], Row], tuple[str, str]]]] = {
    "tasks": {
        "the same task under the held-out split": (_task("heldout", _same_task), ("heldout", "same_task")),
        "the same specification in other words": (
            _task("heldout", _same_spec), ("heldout", "same_specification"),
        ),
        "nearly the same text": (_task("heldout", _same_text), ("heldout", "similarity")),
        "a wording of the training split": (
            _task("dev", lambda row, rows: row.update(wording=_last_train(rows)["wording"])),
            ("heldout", "same_wording"),
        ),
        "a task edited by hand": (_train(max_steps=11), ("tasks", "content_is_its_id")),
        "a task twice": (_task("train", lambda row, rows: row.update(rows[-2])), ("tasks", "task_id")),
        "nothing that can fail": (_train(verifier=[]), ("tasks", "checks")),
        "no way to solve it": (_train(channels=[]), ("tasks", "routes")),
        "two lines": (_train(instruction="do this\nand that"), ("tasks", "instruction")),
        "a line end after it": (_train(instruction="do this now\n"), ("tasks", "instruction")),
        "next to no words": (_train(instruction="go on"), ("tasks", "instruction_chars")),
        "no steps allowed": (_train(max_steps=0), ("tasks", "max_steps")),
    },
    "trajectories": {
        "right of the screen": (_episode("gui", _call(coordinate=[288, 3])), ("points", "width")),
        "below the screen": (_episode("hybrid", _call(coordinate=[3, 224])), ("points", "height")),
        "left of the screen": (_episode("gui", _call(coordinate=[-1, 3])), ("points", "x")),
        "above the screen": (_episode("gui", _call(coordinate=[5, -7])), ("points", "y")),
        "a drag from off the screen": (
            _episode("gui", _call(action="left_click_drag", start=[500, 1], coordinate=[2, 2])), ("points", "width"),
        ),
        "a coordinate in quotes": (_episode("gui", _call(coordinate="1,2")), ("steps", "call_error")),
        "an unknown action": (_episode("gui", _call(action="hover")), ("steps", "call_error")),
        "an unknown tool": (_episode("gui", {"call": {"tool": "browser"}}), ("steps", "call_error")),
        "neither call nor error": (_episode("gui", {"call": None}), ("steps", "call_error")),
        "a tool the harness lacks": (
            _episode("gui", {"call": {"tool": "bash", "command": "ls"}}), ("steps", "own_tool"),
        ),
        "an action of two lines": (_episode("gui", {"action": "click\nclick"}), ("steps", "format_error")),
        "no action": (_episode("terminal", {"action": ""}), ("steps", "format_error")),
        "a tag in the reasoning": (_episode("gui", {"think": "so </think> then"}), ("steps", "format_error")),
        "a picture nobody stored": (_episode("gui", {"screen": "sha256:none"}), ("steps", "pictures")),
        "a held-out task": (_heldout_episode, ("trajectories", "task_split")),
        "a task of no split": (_episode("gui", task_id="sha256:0"), ("trajectories", "task_split")),
        "a held-out label": (_episode("hybrid", split="heldout"), ("trajectories", "split")),
        "another instruction": (
            _episode("gui", instruction="do as you like"), ("trajectories", "instruction_is_the_tasks"),
        ),
        "another harness": (_episode("gui", harness="hybrid"), ("trajectories", "store")),
        "a gap in the steps": (_episode("gui", {"index": 4}), ("trajectories", "indexed")),
        "no steps": (_episode("gui", steps=()), ("trajectories", "steps")),
        "kept and never finished": (_episode("gui", ending="step_limit"), ("trajectories", "ending")),
        "an episode twice": (
            lambda world, number: world.edit_episode("terminal", number, trajectory_id="terminal/twice")
            and world.edit_episode("terminal", 0, trajectory_id="terminal/twice"),
            ("trajectories", UNIQUE),
        ),
        "failed and kept": (
            lambda world, number: world.edit_episode("gui", -1, dropped=""), ("trajectories", "solved"),
        ),
    },
    "corpora": {
        "right of the screen": (
            _sample("gui-sft", response=_answer(r"\[7, ", "[1025, ")), ("samples", "coordinate_error"),
        ),
        "a coordinate of three": (
            _sample("gui-sft", response=_answer(r"7, 14", "7, 14, 1")), ("samples", "coordinate_error"),
        ),
        "reasoning not closed": (
            _sample("hybrid-sft", response=_answer("</think>", "")), ("samples", "response_error"),
        ),
        "no action line": (_sample("gui-sft", response=_answer("Action:", "Then:")), ("samples", "response_error")),
        "a broken call": (_sample("gui-sft", response=_answer("}}", "}")), ("samples", "response_error")),
        "a tool the harness lacks": (
            _sample("gui-sft", response=_answer(r'\{"name".*\}', _BASH)), ("samples", "response_error"),
        ),
        "no picture": (_sample("gui-sft", messages=_without_picture), ("samples", "pictures")),
        "a picture nobody stored": (
            _sample("gui-sft", messages=_answer(r"sha256:[0-9a-f]{64}", "sha256:0")), ("samples", "missing_pictures"),
        ),
        "a control token in text": (
            _sample("gui-sft", messages=_answer("Task: ", "Task: <|im_end|> ")), ("samples", "record_error"),
        ),
        "a prompt that cannot be read": (_sample("gui-sft", messages="[{"), ("samples", "readable")),
        "an empty label mask": (_sample("gui-sft", weight=0.0), ("samples", "learned_chars")),
        "a negative weight": (_sample("gui-sft", weight=-1.0), ("samples", "weight")),
        "a word of another split": (
            _sample("gui-sft", response=_answer("<think>", "<think>zebra ")), ("samples", "other_split_words"),
        ),
        "a sample twice": (_sample("midtrain", sample_id="synth/0"), ("samples", UNIQUE)),
        "a held-out instruction, in other letters": (_heldout_text, ("tasks_told", "similarity")),
    },
    "scores": {
        "a rate above one": (_score("midtrain", success=1.5), ("scores", "success")),
        "not the figure of its episodes": (_score("gui-sft", success=0.11), ("scores", "recount_gap")),
        "an interval beside its score": (
            _score("terminal-sft", success_interval=[0.9, 1.0]), ("scores", "interval_gap"),
        ),
        "two stages with one checkpoint": (
            _score("hybrid-sft", checkpoint=f"sha256:{5:064d}"), ("scores", "checkpoint"),
        ),
        "a shortened digest": (_score("base", checkpoint="sha256:abc"), ("scores", "checkpoint")),
        "another stage's file": (_score("terminal-sft", stage="base"), ("scores", "file_of")),
        "a sandbox that failed": (_score("rl", infra_errors=4), ("scores", "infra_share")),
        "a training task": (_train_task_played, ("episodes", "split")),
        "a task of no split": (_played(task_id="sha256:0"), ("episodes", "split")),
        "a training label": (_played(split="train"), ("episodes", "split")),
        "an episode twice": (_played_twice, ("episodes", UNIQUE)),
        "an unknown ending": (_played(ending="tired"), ("episodes", "ending")),
        "more calls than allowed": (_played(calls=17), ("episodes", "calls")),
        "fewer tokens than none": (_played(tokens=-1), ("episodes", "tokens")),
        "solved in a broken sandbox": (
            _played(infra_error="gone", success=True), ("episodes", "solved_without_sandbox"),
        ),
    },
}  # fmt: skip


@pytest.mark.parametrize(("kind", "fault"), [(kind, fault) for kind, own in FAULTS.items() for fault in own])
def test_a_fault_fails_its_gate_under_its_rule_with_its_row(
    kind: str, fault: str, faulty: Callable[[str], tuple[Rules, dict[str, Row]]]
) -> None:
    broken, named = faulty(kind)
    rule = FAULTS[kind][fault][1]
    assert rule in broken
    assert any(named[fault].items() <= row.items() for row in broken[rule]), (named[fault], broken[rule])


def test_a_leak_is_told_with_what_it_repeats_in_error_page_and_rows(world: World) -> None:
    change, _ = FAULTS["tasks"]["the same specification in other words"]
    named = change(world, 0)
    error = world.failure("tasks")
    (row,) = world.broken_rules("tasks")["heldout", "same_specification"]
    tasks = load_tasks(world.root / "tasks")
    assert row["task_id"] == tasks[named["line"] - 1].task_id and row["same_specification"] == tasks[-1].task_id
    page = (world.outputs("tasks")["validation"] / "page.html").read_text()
    for text in (str(error), page):
        assert row["task_id"] in text and row["same_specification"] in text
    assert not world.outputs("tasks")["gate"].exists()


# Faults of whole tables.


def test_what_a_split_lacks_and_a_channel_that_is_gone_fail_the_tasks(world: World) -> None:
    def change(rows: list[Row]) -> None:
        rows.remove(next(row for row in rows if row["split"] == "heldout"))
        for row in rows:
            row.update(channels=[["terminal"]])

    world.edit_tasks(change)
    error = world.failure("tasks")
    broken = world.broken_rules("tasks")
    assert ("tasks", COUNT) in broken and "too_few" in error.codes
    assert len(broken["splits", "terminal_share"]) == len(broken["splits", "gui_share"]) == 3


def test_a_record_that_is_no_task_is_named_by_line_and_field_and_the_rest_is_still_judged(world: World) -> None:
    world.edit_tasks(lambda rows: rows[6].update(max_steps="12"))
    error = world.failure("tasks")
    assert "line 7, field max_steps: type" in str(error) and "schema" in error.codes
    report = json.loads((world.outputs("tasks")["validation"] / "results.json").read_text())
    assert report["tables"]["tasks"]["rows"] == sum(COUNTS.values()) - 1


@pytest.mark.parametrize("text", ["", "\n"])
def test_no_tasks_at_all_is_a_failure_and_an_earlier_pass_is_gone(text: str, world: World) -> None:
    world.outputs("tasks")["gate"].mkdir(parents=True)
    (world.root / "tasks" / "tasks.jsonl").write_text(text)
    error = world.failure("tasks")
    assert error.codes == ("empty",) and error.exit_code == 4
    assert not world.outputs("tasks")["gate"].exists()


def test_a_broken_teacher_and_a_channel_that_is_gone_fail_the_stores(world: World) -> None:
    world.edit_store("gui", lambda whole: [t.model_copy(update={"dropped": "failed"}) for t in whole[:20]] + whole[20:])
    world.edit_store("hybrid", lambda whole: [
        t.model_copy(update={"steps": tuple(s.model_copy(update={"channel": "gui"}) for s in t.steps)}) for t in whole
    ])  # fmt: skip
    world.failure("trajectories")
    broken = world.broken_rules("trajectories")
    assert [row["store"] for row in broken["stores", "kept_share"]] == ["gui"]
    assert [row["store"] for row in broken["stores", "terminal_share"]] == ["hybrid"]


def test_an_empty_store_and_a_trajectory_of_another_type_are_named(world: World) -> None:
    from pyarrow.parquet import read_schema

    world.edit_store("terminal", lambda whole: [])
    path = world.root / "trajectories" / "gui" / "trajectories.parquet"
    columns = read_table(path, read_schema(path).names)
    columns["steps"][2] = columns["steps"][2].replace('"index":0', '"index":"0"')
    columns["steps"][4] = columns["steps"][4].replace("[7,14]", "[NaN,14]")
    kinds: Row = {"length": "int", "success": "bool"}
    write_table(path, {name: (kinds.get(name, "text"), values) for name, values in columns.items()})
    error = world.failure("trajectories")
    assert "gui/trajectories.parquet, record 3, field steps.0.index: type" in str(error)
    assert "gui/trajectories.parquet, record 5: not_finite" in str(error)
    assert "empty_file" in error.codes and "terminal/trajectories.parquet" in str(error)


def test_a_corpus_out_of_balance_fails(world: World) -> None:
    def terminal_only(rows: list[Row]) -> None:
        for row in rows:
            row.update(response=re.sub(r'\{"name".*\}', _BASH, row["response"]))

    def as_pack(rows: list[Row]) -> None:
        screen = next(part["image"] for part in json.loads(rows[0]["messages"])[-1]["parts"] if "image" in part)
        items = [{"instruction": "click", "response": rows[0]["response"]}]
        rows[0].update(kind="click_pack", messages=json.dumps({"system": "s", "screen": screen, "items": items}))
        rows.pop()

    world.edit_samples("hybrid-sft", terminal_only)
    world.edit_samples("terminal-sft", lambda rows: [row.update(skill=rows[-1]["skill"]) for row in rows[4:]])
    world.edit_samples("gui-sft", as_pack)
    world.failure("corpora")
    broken = world.broken_rules("corpora")
    assert [row["corpus"] for row in broken["corpora", "gui_share"]] == ["hybrid-sft"]
    assert [row["corpus"] for row in broken["corpora", "skill_balance"]] == ["terminal-sft"]
    assert [row["corpus"] for row in broken["corpora", "click_packs"]] == ["gui-sft"]
    assert ("samples", COUNT) in broken


def test_an_empty_corpus_is_named(world: World) -> None:
    world.edit_samples("hybrid-sft", lambda rows: rows.clear())
    error = world.failure("corpora")
    assert "empty_file" in error.codes and "hybrid-sft/samples.parquet" in str(error)


def test_placeholders_and_pictures_are_counted_against_each_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stored prompt names each picture where it stands, so a difference can only come from another reader of it."""

    def other(kind: str, messages: str, response: str) -> Told:
        told = tell(kind, messages, response)
        return replace(told, images=(*told.images, told.images[-1]))

    monkeypatch.setattr(of_corpora, "tell", other)
    world.failure("corpora")
    assert len(world.broken_rules("corpora")["samples", "placeholders"]) > 300


def test_a_masked_rationale_leaves_the_rest_of_a_response_to_learn() -> None:
    response = "<think>all of this</think>\nAction: wait"
    assert learned_chars(response, False) == len(response)
    assert learned_chars(response, True) == len(response) - len("all of this")


def test_scores_without_a_figure_of_other_tasks_or_with_a_lost_picture_fail(world: World) -> None:
    world.edit_scores("base", gui_share=None)  # may be missing
    world.edit_scores("midtrain", success=None, grounding=None)  # may not
    world.edit_episodes("gui-sft", lambda rows: rows.pop())
    gallery = world.root / "scores" / "gui-sft" / "gallery.json"
    gallery.write_text(
        re.sub('"screen": "sha256:[0-9a-f]{64}"', '"screen": "sha256:none"', gallery.read_text(), count=1)
    )
    world.failure("scores")
    broken = world.broken_rules("scores")
    assert {("scores", "success"), ("scores", "grounding"), ("scores", "task_set")} <= set(broken)
    (row,) = broken["shown", "stored"]
    assert (row["stage"], row["picture"]) == ("gui-sft", "sha256:none")
    report = json.loads((world.outputs("scores")["validation"] / "results.json").read_text())
    (rule,) = [r for r in report["tables"]["scores"]["rules"] if r["kwargs"].get("column") == "gui_share"]
    assert rule["flags"] == ["nulls"] and rule["verdict"] == "pass"


def test_a_score_that_is_no_number_is_no_missing_one(world: World) -> None:
    path = world.root / "scores" / "rl" / "scores.json"
    path.write_text(path.read_text().replace('"gui_share": 1.0', '"gui_share": NaN'))
    error = world.failure("scores")
    assert "rl/scores.json, record 1: not_finite" in str(error) and error.codes == ("schema", "empty_file")


# All of them.


def test_rows_are_escaped_on_the_page(world: World) -> None:
    world.edit_tasks(lambda rows: rows[0].update(instruction="<script>alert(1)</script>\n"))
    world.failure("tasks")
    page = (world.outputs("tasks")["validation"] / "page.html").read_text()
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page


def test_a_missing_input_is_the_stage_s_error_and_no_verdict(world: World) -> None:
    (world.root / "tasks" / "tasks.jsonl").unlink()
    with pytest.raises(DataError, match=r"tasks\.jsonl"):
        world.check("tasks")
    assert not world.outputs("tasks")["validation"].exists()


def test_there_are_four_gates(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="gate-models"):
        run(params(), {}, {}, StepContext("gate-models", 0, tmp_path))
