"""The compiled components, one process, toy stages under the real names."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from components.contracts.digests import digest_tree, digest_value
from components.contracts.errors import (
    CheckpointError,
    ClusterError,
    DataError,
    OrchestrationError,
    SandboxError,
    VerifierError,
)
from components.contracts.load_params import load_params
from components.contracts.params import Params
from components.contracts.stage import StepContext
from components.tracking.events import end_of, list_spools, read_events, start_of
from pipelines.kfp_settings import StepSettings, base_settings, settings_by_stage
from pipelines.kfp_store import entry_path, read_manifest
from pipelines.local_kfp import server
from pipelines.registry import BASE, STAGES
from pipelines.stage_params import stage_params
from pipelines.step import with_source
from pipelines.workspace import SOURCE
from tests.contract.kfp_graph import registry_name
from tests.unit.kfp import toy_stage
from tests.unit.kfp.harness import TASKS, Outputs, execute, execute_all


@dataclass(frozen=True)
class World:
    settings: dict[str, str]
    store: Path
    root: Path

    def run(self, name: str, inputs: Outputs | None = None, attempt: str = "") -> Outputs:
        """One task. `attempt` gives its outputs another place, as another run of the pipeline does."""
        parameters = {"settings": self.settings[name], "store": str(self.store)}
        return execute(TASKS[name], self.root / f"{name}{attempt}", parameters, inputs)


def _params(seed: int = 7) -> Params:
    return load_params(SOURCE / "params.yaml", [f"seed={seed}"])


def _settings(base: Path, seed: int = 7) -> dict[str, str]:
    told = {"base": base_settings(str(base))}
    return told | settings_by_stage(_params(seed), dict.fromkeys(STAGES, "code"), STAGES)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def world(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("COWORK_REGISTRY", "tests.unit.kfp.toys:STAGES")
    monkeypatch.delenv("COWORK_FORKSERVER", raising=False)
    monkeypatch.delenv("COWORK_RUN_DIR", raising=False)
    return World(_settings(base), tmp_path / "store", tmp_path / "tasks")


def _run_plainly(root: Path, base: Path) -> dict[str, dict[str, str]]:
    """The same toys without Kubeflow: the registry's paths below `root`, in the registry's order."""
    shutil.copytree(base, root / BASE)
    digests: dict[str, dict[str, str]] = {}
    for name, stage in STAGES.items():
        outputs = {role: root / path for role, path in stage.outputs.items()}
        inputs = {role: root / path for role, path in stage.inputs.items()}
        toy_stage.run(stage_params(_params(), stage), inputs, outputs, StepContext(name, 7, root))
        digests[name] = {role: digest_tree(path) for role, path in outputs.items()}
    return digests


def test_the_whole_compiled_recipe_gives_the_bytes_of_a_plain_run(world: World, tmp_path: Path, base: Path) -> None:
    done = execute_all(world.settings, world.store, world.root)
    through_kubeflow = {
        name: {
            registry_name(role): read_manifest(Path(artifact.path)).digest
            for role, artifact in outputs.items()
            if role not in ("metrics", "page")
        }
        for name, outputs in done.items()
        if name != "base"
    }
    assert through_kubeflow == _run_plainly(tmp_path / "plain", base)


def test_artifacts_are_small_manifests_and_say_so_in_the_interface(world: World) -> None:
    tasks = world.run("forge")["tasks"]
    manifest = read_manifest(Path(tasks.path))
    assert (manifest.stage, manifest.output, manifest.files) == ("forge", "tasks", 2)
    assert manifest.counts == {"files.html": 1, "rows": 3}
    assert tasks.metadata["digest"] == manifest.digest == digest_tree(entry_path(world.store, manifest.digest))
    assert Path(tasks.path).stat().st_size < 1_000


def test_figures_reach_the_metrics_artifact_and_nan_does_not_break_it(world: World) -> None:
    metrics = world.run("forge")["metrics"]
    assert metrics.metadata == {"inputs": 0.0, "broken": "nan"}


def test_the_report_s_page_is_an_html_artifact(world: World) -> None:
    done = execute_all(world.settings, world.store, world.root)
    assert Path(done["report"]["page"].path).read_text() == "<h1>report</h1>"


def test_the_page_of_a_gate_that_failed_stays_in_the_store(
    world: World, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = world.run("forge")["tasks"]
    failing = World(_settings(base, seed=16), world.store, world.root)
    with pytest.raises(DataError, match="breaks its rules"):
        failing.run("gate-tasks", {"tasks": tasks})
    assert (world.root / "gate-tasks" / "page").read_text() == "<h1>gate-tasks</h1>"
    (said,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("page of the failed stage: ")]
    assert (Path(said.partition(": ")[2]) / "page.html").read_text() == "<h1>gate-tasks</h1>"


def test_a_flipped_byte_in_the_store_is_refused_and_named(world: World) -> None:
    tasks = world.run("forge")
    file = entry_path(world.store, tasks["tasks"].metadata["digest"]) / "rows-0000.jsonl"
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[10] ^= 4
    file.write_bytes(data)
    with pytest.raises(DataError, match="rows-0000.jsonl"):
        world.run("gate-tasks", {"tasks": tasks["tasks"]})
    assert not list((world.root / "gate-tasks").glob("gate"))


def test_a_lost_manifest_names_the_file(world: World) -> None:
    tasks = world.run("forge")["tasks"]
    Path(tasks.path).unlink()
    with pytest.raises(DataError, match=str(tasks.path)):
        world.run("gate-tasks", {"tasks": tasks})


def test_a_wrong_wire_is_refused_by_the_names_the_registry_has(world: World) -> None:
    base = world.run("base")["checkpoint"]
    corpus = world.run("forge")["tasks"]
    with pytest.raises(OrchestrationError, match="grounding"):
        world.run("gui-sft", {"checkpoint": base, "corpus": corpus})


def test_a_failure_that_stays_is_not_worked_on_again_by_a_retry(
    world: World, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = World(_settings(base, seed=13), world.store, world.root)
    with pytest.raises(VerifierError):
        stuck.run("forge")
    monkeypatch.setenv("COWORK_REGISTRY", "pipelines.registry:STAGES")  # a stage called now would raise another error
    with pytest.raises(OrchestrationError, match="VerifierError.*this will not change"):
        stuck.run("forge")


def test_another_run_of_the_pipeline_tries_again_after_a_failure_that_stays(world: World, base: Path) -> None:
    stuck = World(_settings(base, seed=13), world.store, world.root)
    for attempt in ("", "-next-run"):
        with pytest.raises(VerifierError):
            stuck.run("forge", attempt=attempt)


def test_a_failure_of_the_infrastructure_is_tried_again(world: World, base: Path) -> None:
    unlucky = World(_settings(base, seed=14), world.store, world.root)
    for _ in range(2):
        with pytest.raises(SandboxError):
            unlucky.run("forge")


def test_a_killed_attempt_s_half_output_is_not_mixed_in(world: World) -> None:
    first = world.run("forge")["tasks"].metadata["digest"]
    shutil.rmtree(world.store)
    key = digest_value([StepSettings.decode(world.settings["forge"]).model_dump(), {}])
    left = world.store / ".work" / key[7:] / "outputs" / "tasks"
    left.mkdir(parents=True)
    (left / "half.jsonl").write_text("{")
    assert world.run("forge")["tasks"].metadata["digest"] == first
    assert not left.exists()


def test_the_base_task_refuses_a_checkpoint_other_than_the_run_began_with(world: World) -> None:
    told = StepSettings.decode(world.settings["base"]).model_copy(update={"code_key": "sha256:other"})
    other = World({"base": told.encode()}, world.store, world.root)
    with pytest.raises(CheckpointError, match="sha256:other"):
        other.run("base")


@pytest.fixture
def fork_server(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COWORK_PRELOAD", "json")
    env = with_source(dict(os.environ))
    with (tmp_path / "server.log").open("wb") as log, server(tmp_path, env, log.fileno()):
        monkeypatch.setenv("COWORK_FORKSERVER", env["COWORK_FORKSERVER"])
        yield


def test_a_step_through_the_fork_server_gives_the_same_bytes_from_another_process(
    world: World, fork_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COWORK_RUN_DIR", str(world.root / "run"))
    forked = world.run("forge")["tasks"].metadata["digest"]
    (spool,) = list_spools(world.root / "run")
    assert start_of(read_events(spool.path).events)["pid"] != os.getpid()
    monkeypatch.delenv("COWORK_FORKSERVER")
    assert world.run("forge", attempt="-here")["tasks"].metadata["digest"] == forked


@pytest.mark.parametrize(
    ("seed", "error", "words"),
    [(13, OrchestrationError, "VerifierError.*not change"), (14, SandboxError, "gone"), (15, ClusterError, "code 137")],
)
def test_failures_behind_the_fork_server_keep_their_kind_and_their_words(
    world: World, base: Path, fork_server: None, seed: int, error: type[Exception], words: str
) -> None:
    failing = World(_settings(base, seed=seed), world.store, world.root)
    with pytest.raises(error, match=words):
        failing.run("forge")
    assert (world.store / ".refused").exists() == (seed == 13)


def test_events_of_a_step_are_kept_where_the_run_wants_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = world.root / "run"
    monkeypatch.setenv("COWORK_RUN_DIR", str(run_dir))
    world.run("forge")
    (spool,) = list_spools(run_dir)
    events = read_events(spool.path).events
    assert [event["k"] for event in events] == ["start", "params", "progress", "end"]
    assert end_of(events)["status"] == "finished"
    assert json.dumps(events[1]["values"]).count("forge.") > 0
