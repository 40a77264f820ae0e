"""Promises of the event spool: nothing torn, nothing doubled, nothing lost before the last progress."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.contracts.errors import DataError
from components.tracking.events import (
    SpoolSink,
    end_of,
    list_spools,
    next_attempt,
    read_events,
    spool_path,
    stage_curves,
)
from components.tracking.ledger import run_costs, total


def kinds(path: Path) -> list[str]:
    return [event["k"] for event in read_events(path).events]


def write(run_dir: Path, stage: str, attempt: int, points: list[tuple[int, float]], key: str = "k") -> None:
    with SpoolSink(spool_path(run_dir, stage, attempt)) as sink:
        sink.start(stage, attempt, key)
        for step, value in points:
            sink.metric("loss", value, step)


def test_a_stage_s_story_is_read_back_as_it_was_told(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "gui-sft", 1)
    with SpoolSink(path) as sink:
        sink.start("gui-sft", 1, "key", commit="abc")
        sink.params({"lr": 1e-4, "optim": {"name": "adamw", "betas": [0.9, 0.95]}})
        sink.artifact("input", "corpus", "d" * 32 + ".dir", path="data/corpus")
        sink.metric("loss", 2.5, 1)
        sink.note("warm-up over")
        sink.end("finished", metrics={"loss": 0.5})
    events = read_events(path).events
    assert [event["k"] for event in events] == ["start", "params", "artifact", "metric", "note", "end"]
    assert events[1]["values"] == {"lr": "0.0001", "optim.betas": "[0.9, 0.95]", "optim.name": "adamw"}
    assert events[2]["digest"] == "d" * 32 + ".dir"
    assert end_of(events)["metrics"] == {"loss": 0.5}


def test_a_torn_last_line_is_left_for_later_and_the_next_writer_starts_a_line_of_its_own(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "rl", 1)
    with SpoolSink(path) as sink:
        sink.metric("reward", 0.25, 1)
    whole = path.stat().st_size
    with path.open("ab") as handle:
        handle.write(b'{"k": "metric", "name": "rew')
    tail = read_events(path)
    assert (len(tail.events), tail.offset, tail.damaged) == (1, whole, 0)
    with SpoolSink(path) as sink:
        sink.metric("reward", 0.5, 2)
    tail = read_events(path)
    assert [event["value"] for event in tail.events] == [0.25, 0.5]
    assert tail.damaged == 1


def test_a_follower_sees_every_record_once_whatever_the_cuts(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "rl", 1)
    seen: list[int] = []
    offset = 0
    with SpoolSink(path, batch=7) as sink:
        for step in range(100):
            sink.metric("reward", step / 100, step)
            tail = read_events(path, offset, limit=3)
            seen += [event["step"] for event in tail.events]
            offset = tail.offset
    while (tail := read_events(path, offset, limit=3)).events:
        seen += [event["step"] for event in tail.events]
        offset = tail.offset
    assert seen == list(range(100))
    assert offset == path.stat().st_size


def test_a_killed_writer_loses_nothing_that_was_said_before_its_last_progress(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "midtrain", 1)
    child = os.fork()
    if child == 0:
        sink = SpoolSink(path, batch=1000)
        for step in range(50):
            sink.metric("loss", 1.0, step)
            if step == 40:
                sink.progress(step, 50, "steps")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    steps = [event["step"] for event in read_events(path).events if event["k"] == "metric"]
    assert steps[:41] == list(range(41))
    assert end_of(read_events(path).events) == {}


def test_a_forked_child_does_not_write_its_parent_s_records_again(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "collect-gui", 1)
    with SpoolSink(path, batch=1000) as sink:
        sink.metric("episodes", 1, 1)
        child = os.fork()
        if child == 0:
            sink.metric("episodes", 2, 2)
            sink.flush()
            os._exit(0)
        os.waitpid(child, 0)
    assert sorted(event["step"] for event in read_events(path).events) == [1, 2]


def test_writers_of_one_spool_never_mix_inside_a_line(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "rl", 1)
    children = []
    for writer in range(4):
        child = os.fork()
        if child == 0:
            with SpoolSink(path, batch=3) as sink:
                for step in range(200):
                    sink.metric(f"writer-{writer}", step, step)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    tail = read_events(path)
    assert (len(tail.events), tail.damaged) == (800, 0)


def test_progress_is_thinned_but_the_last_one_is_always_there(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "rl", 1)
    with SpoolSink(path) as sink:
        for done in range(1, 5001):
            sink.progress(done, 5000, "steps")
    events = read_events(path).events
    assert len(events) < 1000
    assert events[-1]["done"] == 5000


def test_an_exception_that_leaves_the_stage_is_its_end(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "rl", 1)
    with pytest.raises(ValueError), SpoolSink(path) as sink:
        sink.metric("reward", 1.0, 1)
        raise ValueError("no groups left")
    end = end_of(read_events(path).events)
    assert (end["status"], end["error"]) == ("failed", "ValueError: no groups left")
    interrupted = spool_path(tmp_path, "rl", 2)
    with pytest.raises(KeyboardInterrupt), SpoolSink(interrupted):
        raise KeyboardInterrupt
    assert end_of(read_events(interrupted).events)["status"] == "killed"


def test_numbers_that_are_none_stay_json_and_come_back(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "rl", 1)
    with SpoolSink(path) as sink:
        for value in (math.nan, math.inf, -math.inf):
            sink.metric("kl", value, 1)
    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    values = [float(event["value"]) for event in read_events(path).events]
    assert math.isnan(values[0]) and values[1:] == [math.inf, -math.inf]


def test_any_text_can_be_noted(tmp_path: Path) -> None:
    path = spool_path(tmp_path, "rl", 1)
    texts = ["line\nbreak", "Grüße 試", "\u2028 \x00 \r", "lone \udce9 surrogate"]
    with SpoolSink(path) as sink:
        for text in texts:
            sink.note(text)
    assert [event["text"] for event in read_events(path).events] == texts


def test_after_a_resume_the_last_word_on_a_step_counts(tmp_path: Path) -> None:
    write(tmp_path, "rl", 1, [(1, 0.9), (2, 0.8), (3, 0.7)])
    write(tmp_path, "rl", 2, [(3, 0.65), (4, 0.6)])
    assert stage_curves(tmp_path, "rl")["loss"].points == [(1, 0.9), (2, 0.8), (3, 0.65), (4, 0.6)]


def test_attempts_with_another_stage_key_are_other_work(tmp_path: Path) -> None:
    write(tmp_path, "rl", 1, [(1, 0.9), (9, 0.1)], key="old")
    write(tmp_path, "rl", 2, [(1, 0.8)], key="new")
    assert stage_curves(tmp_path, "rl")["loss"].points == [(1, 0.8)]


def test_what_is_not_a_number_is_counted_and_never_a_point(tmp_path: Path) -> None:
    write(tmp_path, "rl", 1, [(1, 0.9), (2, math.nan), (3, math.inf)])
    curve = stage_curves(tmp_path, "rl")["loss"]
    assert curve.points == [(1, 0.9)]
    assert curve.nonfinite == [2, 3]


def test_attempts_are_counted_per_stage_and_names_with_dots_and_dashes_are_kept_apart(tmp_path: Path) -> None:
    for stage, attempt in (("rl", 1), ("rl", 2), ("evaluate-rl", 1)):
        SpoolSink(spool_path(tmp_path, stage, attempt)).close()
    (tmp_path / "spool" / "notes.txt").write_text("not a spool")
    assert [(s.stage, s.attempt) for s in list_spools(tmp_path)] == [("evaluate-rl", 1), ("rl", 1), ("rl", 2)]
    assert (next_attempt(tmp_path, "rl"), next_attempt(tmp_path, "forge")) == (3, 1)


def test_curves_of_a_stage_that_never_ran_are_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no events of stage 'rl'"):
        stage_curves(tmp_path, "rl")


def test_the_ledger_adds_every_attempt_and_knows_the_nominal_operations(tmp_path: Path) -> None:
    for attempt in (1, 2):
        with SpoolSink(spool_path(tmp_path, "rl", attempt)) as sink:
            sink.start("rl", attempt, "k")
            sink.ledger("train", tokens=1000, parameters=700)
            sink.ledger("generate", calls=3, tokens_in=90, tokens_out=10, parameters=700)
            sink.ledger("sandbox", seconds=1.5, steps=12)
            sink.end("finished" if attempt == 2 else "failed")
    with SpoolSink(spool_path(tmp_path, "forge", 1)) as sink:
        sink.ledger("teacher", calls=2, tokens_in=5, tokens_out=1)
    costs = {cost.stage: cost for cost in run_costs(tmp_path)}
    rl = costs["rl"]
    assert rl.attempts == 2
    assert rl.flops == 2 * (6 * 700 * 1000 + 2 * 700 * 100)
    assert (rl.calls, rl.tokens_in, rl.tokens_out, rl.train_tokens) == (6, 180, 20, 2000)
    assert (rl.sandbox_seconds, rl.other) == (3.0, {"sandbox.steps": 24.0})
    whole = total(costs.values())
    assert (whole.calls, whole.tokens_in, whole.attempts) == (8, 185, 3)


def test_a_stage_that_only_reports_events_loads_no_tracking_library() -> None:
    code = (
        "import sys, components.tracking.events, components.tracking.mlflow_sink, components.tracking.ship,"
        " components.tracking.report.data; "
        "heavy = {'mlflow', 'torch', 'numpy', 'pandas', 'jinja2', 'rich', 'sqlalchemy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
