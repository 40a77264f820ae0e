"""`cowork lineage` on a recipe that really ran: whatever one has in hand leads to the tree, and no byte is believed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from components.contracts.digests import digest_tree
from components.contracts.errors import DataError
from components.tracking.lineage import RunRecord
from pipelines.dvcfiles import read_lock
from pipelines.lineage_show import show_lineage
from tests.unit.pipelines import toy
from tests.unit.tracking import toy_policy

RL, SCORES = "outputs/models/rl", "outputs/scores/rl"
Ask = Callable[..., dict[str, Any]]


def cowork(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        toy_policy.command(*arguments), cwd=root, env=toy_policy.environment(), capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: the second with another learning rate for rl, so that outputs of the first are in the cache only."""
    root = tmp_path_factory.mktemp("lineage") / "recipe"
    toy.write_recipe(root, toy_policy.STAGES)
    for extra in ([], ["--set", "rl.lr=0.5"]):
        done = cowork(root, "run", "--no-mlflow", *extra)
        assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.fixture
def recipe(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to disturb, as the current folder."""
    root = tmp_path / "recipe"
    shutil.copytree(finished, root, symlinks=True, ignore=shutil.ignore_patterns("fork.sock"))
    monkeypatch.chdir(root)
    monkeypatch.setenv("COWORK_REGISTRY", "tests.unit.tracking.toy_policy:STAGES")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return root


@pytest.fixture
def ask(recipe: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(what: str, code: int = 0) -> dict[str, Any]:
        assert show_lineage(what, as_json=True) == code
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return ask


def runs(root: Path) -> list[str]:
    return sorted(path.parent.name for path in (root / ".cowork" / "runs").glob("*/run.json"))


def states(answer: dict[str, Any]) -> dict[str, str]:
    return {node["path"]: node["state"] for node in answer["nodes"].values()}


def rl_digest(root: Path) -> str:
    return read_lock(root / "dvc.lock")["rl"].outs[RL]


def test_whatever_one_has_in_hand_leads_to_the_same_tree(ask: Ask, recipe: Path) -> None:
    digest = rl_digest(recipe)
    record = RunRecord.load(recipe / ".cowork" / "runs" / runs(recipe)[1])
    bare = digest.removeprefix("md5:")
    words = [
        "rl", RL, f"{RL}/weights.txt", f"./{RL}", str(recipe / RL), digest, bare, bare.removesuffix(".dir"), bare[:12],
        bare[:12].upper(), record.stage("rl").key, digest_tree(recipe / RL),
    ]  # fmt: skip
    roots = {word: ask(word)["roots"] for word in words}
    assert {tuple(found) for found in roots.values()} == {(f"{RL}@{digest}",)}, roots
    whole = ask(runs(recipe)[1])
    assert {item.partition("@")[0] for item in whole["roots"]} == {SCORES, "outputs/scores/midtrain"}


def test_the_tree_goes_down_to_tasks_parameters_commit_and_the_given_checkpoint(ask: Ask, recipe: Path) -> None:
    answer = ask("evaluate-rl")
    paths = (SCORES, RL, "outputs/models/midtrain", "outputs/corpora/midtrain", "outputs/tasks", "given")
    assert states(answer) == {path: "verified" for path in paths}
    steps = {step["stage"]: step for step in answer["steps"].values()}
    first, second = runs(recipe)
    assert {name: step["run"] for name, step in steps.items()} == {
        "forge": first, "curate-midtrain": first, "midtrain": first, "rl": second, "evaluate-rl": second,
    }, "reused stages belong to the run that did the work"  # fmt: skip
    assert steps["rl"]["params"]["rl.lr"] == "0.5" and "midtrain.lr" not in steps["rl"]["params"]
    assert steps["midtrain"]["params"]["midtrain.steps"] == "260"
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=recipe, capture_output=True, text=True).stdout.strip()
    assert {facts["commit"] for facts in answer["runs"].values()} == {head}
    assert all(facts["environment"]["python"] for facts in answer["runs"].values())


def test_an_output_of_an_earlier_run_is_verified_in_the_cache_and_missing_without_it(ask: Ask, recipe: Path) -> None:
    old = RunRecord.load(recipe / ".cowork" / "runs" / runs(recipe)[0]).stage("rl").outputs[0].digest
    assert old != rl_digest(recipe)
    answer = ask(old)
    assert states(answer)[RL] == "verified" and answer["nodes"][f"{RL}@{old}"]["note"] == "in the cache"
    bare = old.removeprefix("md5:")
    store = recipe / ".dvc" / "cache" / "files" / "md5"
    members = json.loads((store / bare[:2] / bare[2:]).read_text())
    member = store / members[0]["md5"][:2] / members[0]["md5"][2:]
    member.chmod(0o644)
    kept = member.read_bytes()
    member.write_bytes(kept[:-1] + b"!")
    assert states(ask(old, DataError.exit_code))[RL] == "different", "one byte of one file in the cache"
    member.unlink()
    assert states(ask(old))[RL] == "missing"


@pytest.mark.parametrize("path", ["outputs/corpora/midtrain/data.txt", "given"])
def test_a_byte_that_was_changed_is_seen_wherever_it_lies(ask: Ask, recipe: Path, path: str) -> None:
    file = recipe / path
    file.chmod(0o644)
    content = file.read_bytes()
    file.unlink()  # not through a link into the cache
    file.write_bytes(content[:-2] + b"!\n")
    found = states(ask("rl", DataError.exit_code))
    changed = path.removesuffix("/data.txt")
    assert found.pop(changed) == "different" and set(found.values()) == {"verified"}


def test_a_deleted_output_is_found_in_the_cache_and_can_still_be_asked_for(ask: Ask, recipe: Path) -> None:
    shutil.rmtree(recipe / RL)
    assert states(ask("rl"))[RL] == states(ask(RL))[RL] == "verified"
    shutil.rmtree(recipe / ".dvc" / "cache")
    assert states(ask("rl"))[RL] == "missing"


def test_without_any_record_dvc_lock_alone_gives_the_tree(ask: Ask, recipe: Path) -> None:
    shutil.rmtree(recipe / ".cowork" / "runs")
    answer = ask(rl_digest(recipe)[:14])
    assert set(states(answer).values()) == {"verified"} and len(answer["nodes"]) == 5
    rl = next(step for step in answer["steps"].values() if step["stage"] == "rl")
    assert (rl["run"], rl["params"]["rl.lr"]) == ("dvc.lock", "0.5")


@pytest.mark.parametrize(
    ("word", "says"),
    [("ab", "too short"), ("deadbeef", "no stage, path, run or recorded"), ("nonsense", "stages: forge"),
     ("outputs/nothing", "no stage, path"), ("", "no stage, path"), ("champion", "nothing was sent to MLflow")],
)  # fmt: skip
def test_what_means_nothing_is_refused_with_a_reason(recipe: Path, word: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        show_lineage(word)


def test_a_beginning_that_two_digests_share_is_refused_with_both(recipe: Path) -> None:
    run = recipe / ".cowork" / "runs" / runs(recipe)[1]
    record = RunRecord.load(run)
    twin = rl_digest(recipe)[:20] + "0" * 12
    record.stages[0].outputs.append(
        record.stages[0].outputs[0].model_copy(update={"digest": twin, "path": "outputs/twin"})
    )
    record.save(run)
    with pytest.raises(DataError, match="ambiguous, 2 artifacts") as caught:
        show_lineage(rl_digest(recipe)[:12])
    assert twin in str(caught.value) and rl_digest(recipe) in str(caught.value)


def test_a_path_with_content_that_nobody_made_is_named_as_such(recipe: Path) -> None:
    (recipe / RL / "surprise.txt").write_text("by hand")
    with pytest.raises(DataError, match="no recorded run made or read"):
        show_lineage(RL)


def test_the_command_prints_the_tree_draws_it_and_ends_with_the_code_of_what_it_found(recipe: Path) -> None:
    done = cowork(recipe, "lineage", "rl", "--svg", "tree.svg")
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.count("verified") >= 5 and "made by rl" in done.stdout and "5 artifacts: 5 verified" in done.stdout
    )
    texts = [node.text for node in ElementTree.parse(recipe / "tree.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert {"rl", "midtrain", "curate-midtrain", "forge", "given", "✓"} <= set(texts) and "evaluate-rl" not in texts
    (recipe / "given").unlink()
    done = cowork(recipe, "lineage", "rl")
    assert "1 missing" in done.stdout
    done = cowork(recipe, "lineage", "unheard-of")
    assert done.returncode == DataError.exit_code and "unheard-of" in done.stderr


def test_a_run_leaves_its_picture_and_graph_beside_its_record(recipe: Path) -> None:
    folder = recipe / ".cowork" / "runs" / runs(recipe)[1]
    texts = [node.text for node in ElementTree.parse(folder / "lineage.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert set(toy_policy.STAGES) <= set(texts) and texts.count("✓") == 7, "six stages, and what was given"
    graph = json.loads((folder / "lineage.json").read_text())
    assert {node["state"] for node in graph["nodes"].values()} == {"verified"}
