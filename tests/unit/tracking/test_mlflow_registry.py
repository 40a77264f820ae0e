"""The registered model on a real store: one version a checkpoint, aliases that only passed evaluations move."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import pytest

from components.contracts.errors import DataError, ParamsError
from components.tracking.events import SpoolSink, spool_path
from components.tracking.mlflow_registry import (
    CANDIDATE,
    CHAMPION,
    MODEL,
    check_alias,
    note_evaluation,
    register,
    resolve,
    settle_aliases,
)
from components.tracking.mlflow_sink import drain
from components.tracking.mlflow_store import Store, connect
from components.tracking.promotion import Evaluation
from tests.unit.tracking.mlflow_kit import Interrupting, aliases_of, client_of, runs_of, shift, uri_of


@pytest.fixture
def store(root: Path) -> Store:
    return connect(uri_of(root))


def version(store: Store, letter: str) -> int:
    """A version without a logged model behind it."""
    if not store.client.search_registered_models():
        store.client.create_registered_model(MODEL)
    made = store.client.create_model_version(MODEL, Path("/nowhere").as_uri(), tags={"cowork.digest": letter * 32})
    return int(made.version)


def found(success: float | None, bench: str = "b", **changed: int) -> Evaluation:
    facts = {"episodes": 4, "expected": 4, "infra_errors": 0, **changed}
    return Evaluation(stage="rl", success=success, bench=bench, **facts)


@pytest.mark.parametrize("alias", ["v3", "V12", "latest", "Latest", "", "has space", "a/b", "ü", "x" * 256])
def test_an_alias_that_could_mean_a_version_or_that_nobody_can_hold_is_refused(alias: str) -> None:
    with pytest.raises(ParamsError, match="cannot be an alias"):
        check_alias(alias)
    assert [check_alias(name) for name in ("champion", "mage-4b_rl", "v3x")] == ["champion", "mage-4b_rl", "v3x"]


def test_aliases_move_with_passed_evaluations_only(store: Store, root: Path) -> None:
    first, second, third = (version(store, letter) for letter in "123")
    assert "became champion" in note_evaluation(store, first, found(0.5), 10)
    assert aliases_of(uri_of(root)) == {CANDIDATE: first, CHAMPION: first}
    assert "champion stays version 1 with 50.0 %" in note_evaluation(store, second, found(0.4), 20)
    assert aliases_of(uri_of(root)) == {CANDIDATE: second, CHAMPION: first}
    for bad in (found(math.nan), found(None), found(0.99, infra_errors=1), found(0.99, episodes=3)):
        assert note_evaluation(store, third, bad, 30).startswith("not passed")
    assert aliases_of(uri_of(root)) == {CANDIDATE: second, CHAMPION: first}
    assert "not passed" in client_of(uri_of(root)).get_model_version(MODEL, str(third)).description
    assert "another held-out set" in note_evaluation(store, third, found(0.9, bench="easy"), 40)
    assert aliases_of(uri_of(root)) == {CANDIDATE: third, CHAMPION: first}
    assert "became champion" in note_evaluation(store, second, found(0.5), 50), "not below is enough"
    assert aliases_of(uri_of(root)) == {CANDIDATE: second, CHAMPION: second}


def test_a_deleted_version_leaves_no_alias_behind(store: Store) -> None:
    first, second = version(store, "1"), version(store, "2")
    note_evaluation(store, first, found(0.4), 10)
    note_evaluation(store, second, found(0.6), 20)
    pinned = resolve(store, CHAMPION)
    assert (pinned.version, pinned.digest) == (second, "2" * 32)
    store.client.delete_model_version(MODEL, str(second))
    with pytest.raises(DataError, match="alias_not_found"):
        resolve(store, CHAMPION)
    assert pinned.version == second, "whoever asked before keeps what it was told"
    note_evaluation(store, first, found(0.4), 30)
    assert resolve(store, CHAMPION).version == first


def test_promotions_at_the_same_time_end_with_the_best_one_and_tell_the_others(store: Store, root: Path) -> None:
    rates = {version(store, letter): rate for letter, rate in zip("1234", (0.5, 0.7, 0.6, 0.7), strict=True)}
    start = threading.Barrier(len(rates))
    said: dict[int, str] = {}
    errors: list[BaseException] = []

    def promote(number: int, rate: float) -> None:
        own = connect(uri_of(root))
        start.wait()
        for _ in range(8):  # a locked database is tried again, as the shipper does
            try:
                said[number] = note_evaluation(own, number, found(rate), number)
                return
            except Exception as error:
                last = error
        errors.append(last)

    threads = [threading.Thread(target=promote, args=item) for item in rates.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    settled = aliases_of(uri_of(root))
    assert settled == {CANDIDATE: 4, CHAMPION: 4}
    assert "became champion" in said[4] and len(said) == 4
    settle_aliases(store)
    assert aliases_of(uri_of(root)) == settled


def test_a_worse_one_that_moved_the_alias_last_gives_it_back(store: Store, root: Path) -> None:
    """The race that a last writer would win: 0.5 has read that nobody is champion, then 0.9 becomes it."""
    worse, better = version(store, "1"), version(store, "2")
    slow = Store(
        Interrupting(store.client, lambda: note_evaluation(store, better, found(0.9), 20)), store.experiment_id
    )
    said = note_evaluation(slow, worse, found(0.5), 10)
    assert aliases_of(uri_of(root)) == {CANDIDATE: better, CHAMPION: better}
    assert "champion stays version 2 with 90.0 %" in said


def test_a_promoter_that_died_with_its_result_written_is_made_good_by_the_next(store: Store, root: Path) -> None:
    died, other = version(store, "1"), version(store, "2")

    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    with pytest.raises(Killed):
        note_evaluation(Store(Interrupting(store.client, die), store.experiment_id), died, found(0.9), 10)
    note_evaluation(store, other, found(0.2), 20)
    assert aliases_of(uri_of(root)) == {CANDIDATE: other, CHAMPION: died}


def test_equal_weights_are_one_version_and_their_page_links_to_it(store: Store) -> None:
    model = store.client.create_logged_model(store.experiment_id, name="rl", model_type="checkpoint")
    told = {"digest": "md5:" + "a" * 32, "path": "outputs/models/rl", "stage": "rl", "mlflow_run": None}
    assert register(store, model, run="one", **told) == register(store, model, run="two", **told) == 1
    assert '"version": 1' in store.client.get_logged_model(model.model_id).tags["mlflow.modelVersions"]
    note_evaluation(store, 1, found(0.5), 10)
    assert resolve(store, CHAMPION) == (1, told["digest"], "outputs/models/rl", "rl", "one")


def spool_evaluation(run_dir: Path, success: float | None, *, fails: bool = False) -> None:
    """A recipe run: rl is trained, then evaluated with that result."""
    with SpoolSink(spool_path(run_dir, "rl", 1)) as sink:
        sink.start("rl", 1, "k")
        sink.artifact("output", "checkpoint", "md5:" + "a" * 32, kind="checkpoint", path="outputs/models/rl")
        sink.end("finished")
    with SpoolSink(spool_path(run_dir, "evaluate-rl", 1)) as sink:
        sink.start("evaluate-rl", 1, "e")
        sink.artifact("input", "checkpoint", "md5:" + "a" * 32, kind="checkpoint", path="outputs/models/rl")
        if fails:
            sink.end("failed", error="the sandbox is gone")
        else:
            sink.evaluation(**found(success).model_dump())
            sink.end("finished", metrics={"success": math.nan if success is None else success})
    shift(spool_path(run_dir, "evaluate-rl", 1), 1000)


@pytest.mark.parametrize(
    ("success", "fails", "verdict"),
    [(0.5, False, "became champion"), (None, False, "not passed"), (math.nan, False, "success is nan"),
     (0.5, True, "the sandbox is gone")],
)  # fmt: skip
def test_what_a_stage_spooled_decides(root: Path, success: float | None, fails: bool, verdict: str) -> None:
    run_dir = root / "runs" / "one"
    spool_evaluation(run_dir, success, fails=fails)
    assert drain(run_dir, uri_of(root)).error == ""
    assert aliases_of(uri_of(root)) == ({CANDIDATE: 1, CHAMPION: 1} if verdict == "became champion" else {})
    run = runs_of(uri_of(root))["evaluate-rl"]
    assert verdict in run.data.tags["cowork.evaluation"]
    assert os.environ.get("MLFLOW_TRACKING_URI") is None, "no test depends on a store from outside"


def test_the_base_checkpoint_is_measured_but_never_promoted(root: Path) -> None:
    run_dir = root / "runs" / "one"
    with SpoolSink(spool_path(run_dir, "evaluate-base", 1)) as sink:
        sink.start("evaluate-base", 1, "e")
        sink.artifact("input", "checkpoint", "md5:" + "b" * 32, kind="checkpoint", path="components/training/base")
        sink.evaluation(**{**found(0.9).model_dump(), "stage": "base"})
        sink.end("finished", metrics={"success": 0.9})
    assert drain(run_dir, uri_of(root)).error == ""
    assert client_of(uri_of(root)).search_registered_models() == []
