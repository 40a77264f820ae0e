"""Open cases of group 5 (keys, typed parameters, sizes, forced stages). The adapters translate names only.

C53 row g (the new run's links in MLflow) is the lineage tests' business; here it is what the run's record says.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from components.contracts.errors import ClusterError, OrchestrationError, ParamsError
from components.contracts.load_params import coerce_text, load_text, parse_set
from components.contracts.params import Params
from components.tracking.lineage import RunRecord
from components.tracking.mlflow_names import fit_param
from pipelines.codekeys import CodeBase
from pipelines.dvcfiles import Locked, read_lock
from pipelines.kfp_compile import check_size
from pipelines.kfp_settings import StepSettings, check_length, read_overrides
from pipelines.kfp_step import _check_names
from pipelines.kfp_store import describe, publish
from pipelines.plan import _reasons
from pipelines.registry import StageDef
from tests.unit.pipelines import toy

ROOT = Path(__file__).resolve().parents[2]
ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "g5_pipelines.jsonl").read_text().splitlines()]


def rows(case: str) -> Any:
    own = [row for row in ROWS if row["case"] == case]
    return pytest.mark.parametrize("row", own, ids=[row["row"] for row in own])


def meets(got: dict[str, Any], row: dict[str, Any]) -> None:
    wanted = [row["expect"], *row.get("also_ok", [])]
    assert any(all(got.get(name) == value for name, value in one.items()) for one in wanted), (got, wanted)


# C45: what a key is made of.

TRAIN = StageDef("train", "components.training.step_sft:run", {"data": "data"}, {"model": "model"}, ("train",))


def _key(run: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The code key in an image with this code."""
    module = folder / run["code_hash"] / "components"
    module.mkdir(parents=True, exist_ok=True)
    (module / "__init__.py").write_text("")
    (module / "train.py").write_text(f"CODE = {run['code_hash']!r}\n")
    monkeypatch.setenv("COWORK_IMAGE_DIGEST", run["image_digest"])
    # Names, tags, times and secrets of a run are in its environment, if anywhere.
    for name in ("image_tag", "run_name", "started", "secret_version"):
        monkeypatch.setenv(f"RUN_{name.upper()}", str(run.get(name, "")))
    return CodeBase(module.parent).key("components.train:run")


def _values(run: dict[str, Any]) -> dict[str, Any]:
    return {"seed": run.get("seed", 1), "train": {name: coerce_text(v, float) for name, v in run["params"].items()}}


@rows("C45")
def test_c45_a_key_is_code_image_parameters_data_and_seed(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, now = row["given"]["earlier_run"], row["given"]["new_run"]
    if "mounted_folder" in now:
        with pytest.raises(OrchestrationError, match="the registry names"):
            _check_names(TRAIN, {*now["inputs"], now["mounted_folder"]}, {"model"})
        meets({"error": "undeclared_input"}, row)
        return
    out = {"model": "md5:made"}
    locked = Locked(
        cmd="cowork step train", deps=dict(before["inputs"]), outs=dict(out), params=_values(before),
        code_key=_key(before, tmp_path, monkeypatch),
    )  # fmt: skip
    # Only a stage that succeeded is in dvc.lock.
    known = locked if before["status"] == "succeeded" else None
    why = _reasons(TRAIN, known, _values(now), _key(now, tmp_path, monkeypatch), dict(now["inputs"]) | out)
    meets({"reuse": why == []}, row)


# C47: typed parameters, the same through every door.


class Section(BaseModel):
    depth: list[int]
    share: list[float]


def _schema(declared: str) -> type[BaseModel]:
    kinds: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str, "list": list[str], "dict": Section}
    return type("Declared", (BaseModel,), {"__annotations__": {"value": kinds[declared]}})


def _arrives(assignments: list[str], schema: type[BaseModel]) -> Any:
    """What the assignments make of `value`: itself, or for a section its leaves."""
    found: dict[str, Any] = {}
    for item in assignments:
        key, value = parse_set(item, schema)
        found[key.removeprefix("value").removeprefix(".")] = value
    return found[""] if "" in found else found


def _form(given: Any, schema: type[BaseModel]) -> Any:
    """As a field of Kubeflow's run form or of a compiled file: JSON."""
    return _arrives(read_overrides(json.dumps({"value": given})), schema)


def _command_line(given: Any, schema: type[BaseModel]) -> Any:
    if isinstance(given, dict):
        return _arrives([f"value.{name}={json.dumps(inner)}" for name, inner in given.items()], schema)
    return _arrives([f"value={given if isinstance(given, str) else json.dumps(given)}"], schema)


@rows("C47")
@pytest.mark.parametrize("door", [_form, _command_line])
def test_c47_the_declared_type_decides_whatever_the_door(
    row: dict[str, Any], door: Callable[[Any, type[BaseModel]], Any]
) -> None:
    given = row["given"]
    try:
        value = door(given["given"], _schema(given["declared"]))
    except ParamsError as error:
        meets({"error": "bad_parameter", "names_parameter": "value" in str(error)}, row)
        return
    assert value == row["expect"].get("value", KeyError), "a bad value was taken"
    assert json.dumps(value) == json.dumps(row["expect"]["value"]), "equal to the last digit, and of the same type"


# C49: what is too big for a parameter.


def c49(given: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    if given.get("embedded_mode"):
        value = "x" * given["parameter_chars"]
        text = (ROOT / "params.yaml").read_text(encoding="utf-8")
        params = load_text(text, "params.yaml", [f"model.base={value}"])
        assert params.model.base == value
        sent = fit_param("model.base", value)
        return {"channel": "artifact" if sent.whole == value and "sha256:" in sent.value else "parameter"}
    if "parameter_chars" in given:
        try:
            check_length("overrides", "x" * given["parameter_chars"])
        except ParamsError as error:
            named = "overrides" in str(error)
            return {"error": "parameter_too_long", "names_parameter": named, "when": "before submit"}
        return {"channel": "parameter"}
    if "all_parameters_chars" in given:
        each = given["each_at_most"]
        values = {f"p{k}": "x" * each for k in range(given["all_parameters_chars"] // each)}
        try:
            StepSettings(stage="rl", params=values, code_key="k").encode()
        except ParamsError:
            return {"error": "parameters_too_long", "when": "before submit"}
        return {"ok": True}
    if "compiled_pipeline_bytes" in given:
        with pytest.raises(ClusterError, match="300,000 bytes"):
            check_size(given["compiled_pipeline_bytes"])
        return {"error": "pipeline_too_large", "when": "before submit"}
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(f'{{"id": {k}}}\n' for k in range(given["output_list_items"])))
    store = tmp_path / "store"
    told = describe("collect-gui", "trajectories", publish(folder, store), store)
    assert told.counts == {"rows": given["output_list_items"]} or sum(told.counts.values()) == 2000
    small = len(told.text()) < 1000 and told.digest.startswith("sha256:")
    return {"channel": "artifact" if small else "parameter", "shards": told.files < 10}


@rows("C49")
def test_c49_big_values_travel_as_artifacts_and_sizes_are_checked_before(row: dict[str, Any], tmp_path: Path) -> None:
    meets(c49(row["given"], tmp_path), row)


# C53: forcing one stage.

NAMES = {"prepare": "forge", "train": "midtrain", "evaluate": "evaluate-midtrain"}
CHAIN = {name: toy.STAGES[name] for name in NAMES.values()}
BACK = {ours: theirs for theirs, ours in NAMES.items()}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("c53") / "recipe"
    toy.write_recipe(root, CHAIN)
    done = _cowork(root, "run")
    assert done.returncode == 0, done.stderr
    return root


def _cowork(root: Path, *arguments: str) -> Any:
    env = toy.environment() | {"COWORK_REGISTRY": "tests.cases.test_g5_pipelines:CHAIN"}
    return toy.cowork(root, *arguments, "--no-mlflow", "--json", env=env)


def _forget(root: Path, path: str) -> None:
    """Delete an output, in the working tree and in DVC's cache."""
    digest = read_lock(root / "dvc.lock")["forge"].outs[path].removeprefix("md5:")
    cache = root / ".dvc" / "cache" / "files" / "md5"
    listing = cache / digest[:2] / digest[2:]
    for entry in [*(row["md5"] for row in json.loads(listing.read_text())), digest]:
        (cache / entry[:2] / entry[2:]).unlink()
    shutil.rmtree(root / path)


@pytest.mark.full  # half a minute; the ordinary suite has the same in test_run.py: forced, deleted and unknown stages
@rows("C53")
def test_c53_only_the_forced_stage_runs_and_later_ones_follow_its_output(row: dict[str, Any], chain: Path) -> None:
    given = row["given"]
    (forced,) = given.get("forced") or given["cache_off_for"]
    if given.get("artifact_of_prepare") == "deleted":
        _forget(chain, "outputs/tasks")
    if given.get("output_of_prepare") == "new hash":
        (chain / "knobs.json").write_text(json.dumps({"salt": f"row {row['row']}"}))
    done = _cowork(chain, "rerun", NAMES.get(forced, forced))
    if "error" in row["expect"]:
        assert done.returncode == 6 and "unknown stage 'nope'" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    if "note" in row["expect"]:
        assert "forge: started" in done.stderr, "the user sees that it was made again"
    told = json.loads(done.stdout)
    executed = sorted(BACK[name] for name in told["executed"])
    record = RunRecord.load(chain / ".cowork" / "runs" / told["run"])
    linked = [BACK[e.name] for e in record.stages if e.status == "reused" and e.outputs and e.key]
    if "executed" in row["expect"]:
        assert executed == sorted(row["expect"]["executed"])
        assert set(row["expect"].get("reused", [])) <= set(linked)
    else:
        assert row["expect"]["new_run_in_lineage"] and len(list((chain / ".cowork" / "runs").glob("*/run.json"))) > 1
        assert set(row["expect"]["reused_inputs_linked"]) <= set(linked)


def test_every_row_of_these_cases_is_here() -> None:
    counts = {case: sum(row["case"] == case for row in ROWS) for case in ("C45", "C47", "C49", "C53")}
    assert counts == {"C45": 11, "C47": 17, "C49": 6, "C53": 7}
    assert Params.model_fields
