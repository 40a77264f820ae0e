from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from components.contracts.desktop import Element
from components.contracts.digests import digest_tree
from components.contracts.errors import DataError
from components.contracts.task import Verdict
from components.contracts.trajectory import Step, Trajectory
from components.rollout import store
from components.rollout.screens import encode_png, screen_digest
from components.rollout.store import (
    StoredScreen,
    load_screens,
    pack_elements,
    read_trajectories,
    turn_output,
    write_store,
)

ELEMENTS = (Element("button", "save", (8, 16, 48, 36)), Element("checkbox", "wifi", (0, 0, 9, 9), "on"))


def screens(count: int = 5) -> dict[str, StoredScreen]:
    made = {}
    for i in range(count):
        picture = np.full((14, 18, 3), i * 9, np.uint8)
        made[screen_digest(picture)] = StoredScreen(encode_png(picture), pack_elements(ELEMENTS))
    return made


def trajectories(digests: list[str], count: int = 4) -> list[Trajectory]:
    out = []
    for i in range(count):
        call = {"tool": "computer_use", "action": "left_click", "coordinate": [i, 7]}
        step = Step(
            index=0,
            screen=digests[i],
            screen_after=digests[i + 1],
            think="",
            action="click é",
            call=call,
            channel="gui",
        )
        out.append(
            Trajectory(
                trajectory_id=f"t{i}",
                task_id=f"k{i}",
                skill="ba"[i % 2],
                split="train",
                instruction="do it",
                harness="gui",
                source="teacher",
                steps=(step,),
                verdict=Verdict(success=bool(i % 2)),
                ending="terminated",
                reward=None if i == 2 else i / 4,
                dropped="failed" if i == 3 else "",
                meta={"steps": [{"intent": {"why": "x"}}]},
            )  # fmt: skip
        )
    return out


def test_what_was_written_is_read_back_kept_and_dropped(tmp_path: Path):
    pictures = screens()
    made = trajectories(sorted(pictures))
    write_store(tmp_path / "s", made, pictures)
    read = read_trajectories(tmp_path / "s")
    assert sorted(read, key=lambda t: t.trajectory_id) == made
    assert [t.skill for t in read] == ["a", "a", "b", "b"]
    table = load_screens(tmp_path / "s")
    assert set(table) == set(pictures) and len(table) == 5
    for digest in table:
        assert screen_digest(table[digest]) == digest
        assert table.elements(digest) == ELEMENTS


def test_the_order_of_the_input_does_not_change_a_byte(tmp_path: Path):
    pictures = screens()
    made = trajectories(sorted(pictures))
    write_store(tmp_path / "one", made, pictures)
    write_store(tmp_path / "two", reversed(made), dict(reversed(pictures.items())))
    assert digest_tree(tmp_path / "one") == digest_tree(tmp_path / "two")


@pytest.mark.parametrize("shard", ["trajectories.parquet", "screens.parquet"])
def test_a_truncated_shard_is_named(tmp_path: Path, shard: str):
    pictures = screens()
    write_store(tmp_path / "s", trajectories(sorted(pictures)), pictures)
    path = tmp_path / "s" / shard
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=shard):
        read_trajectories(tmp_path / "s") if shard.startswith("t") else load_screens(tmp_path / "s")


@pytest.mark.parametrize("shard", ["trajectories.parquet", "screens.parquet"])
def test_a_missing_shard_is_named(tmp_path: Path, shard: str):
    pictures = screens()
    write_store(tmp_path / "s", trajectories(sorted(pictures)), pictures)
    (tmp_path / "s" / shard).unlink()
    with pytest.raises(DataError, match=shard):
        read_trajectories(tmp_path / "s") if shard.startswith("t") else load_screens(tmp_path / "s")


def test_a_step_without_its_screenshot_is_refused_and_the_old_store_stays(tmp_path: Path):
    pictures = screens()
    made = trajectories(sorted(pictures))
    write_store(tmp_path / "s", made[:1], pictures)
    before = digest_tree(tmp_path / "s")
    gone = dict(pictures)
    del gone[sorted(pictures)[2]]
    with pytest.raises(DataError, match="t1"):
        write_store(tmp_path / "s", made, gone)
    assert digest_tree(tmp_path / "s") == before
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_a_large_store_is_cut_into_shards_and_a_lost_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pictures = screens()
    made = trajectories(sorted(pictures))
    monkeypatch.setattr(store, "SHARD_BYTES", 400)
    write_store(tmp_path / "s", made, pictures)
    names = sorted(p.name for p in (tmp_path / "s").iterdir())
    assert "screens-00001.parquet" in names and "trajectories-00001.parquet" in names
    assert len(load_screens(tmp_path / "s")) == 5 and len(read_trajectories(tmp_path / "s")) == 4
    (tmp_path / "s" / "trajectories-00001.parquet").unlink()
    with pytest.raises(DataError, match="trajectories-0000"):
        read_trajectories(tmp_path / "s")


def test_output_belongs_to_the_next_observation_only_where_something_was_printed():
    def step(**fields: object) -> Step:
        return Step(index=0, screen="", screen_after="", think="", action="a", **fields)  # type: ignore[arg-type]

    assert turn_output(step(call={"tool": "computer_use"}, output="")) is None
    assert turn_output(step(call={"tool": "bash"}, output="")) == ""
    assert turn_output(step(call=None, error="bad_json", output="error: bad_json")) == "error: bad_json"
