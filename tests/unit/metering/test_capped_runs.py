"""`cowork run` with a spend cap, and `cowork costs`: real processes, real DVC, a real endpoint on loopback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.contracts.errors import OrchestrationError
from components.tracking.costs import Costs, text
from pipelines.costs import choose_run, costs_of, show_costs
from pipelines.workspace import Workspace
from tests.unit.metering import paid_recipe
from tests.unit.metering.chat_server import Provider, provider
from tests.unit.pipelines import toy

PRICES = """
models:
  - {model: priced, from: 2026-01-01, input: 1000000, output: 2000000, source: a test}
machine:
  - {unit: sandbox, from: 2026-01-01, usd_per_hour: 450, source: a test}
"""
EACH = 11.0
"""USD of a call: one token in at 1, five out at 2."""


def cowork(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = toy.environment() | {
        "COWORK_REGISTRY": f"{paid_recipe.HERE}:STAGES",
        "TEACHER_API_KEY": "canary-teacher-key-123",
    }
    return toy.cowork(root, *arguments, env=env)


def result(root: Path, code: int, *arguments: str) -> dict[str, Any]:
    done = cowork(root, *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def costs_now(root: Path, run: str = "") -> dict[str, Any]:
    """What `cowork costs --json` says, without a process."""
    workspace = Workspace(root)
    found = choose_run(workspace, run)
    assert found is not None
    return costs_of(workspace, *found).model_dump(mode="json")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    toy.write_recipe(tmp_path / "recipe", paid_recipe.STAGES)
    (tmp_path / "recipe" / "prices.yaml").write_text(PRICES)
    return tmp_path / "recipe"


def point(root: Path, told: Provider) -> None:
    (root / "endpoint.txt").write_text(told.base)


def test_a_capped_run_stops_in_time_keeps_its_work_and_goes_on_with_a_higher_cap(recipe: Path) -> None:
    with provider() as told:
        point(recipe, told)
        stopped = cowork(recipe, "run", "--no-mlflow", "--cap-usd", "34")
        assert stopped.returncode == 7, stopped.stdout + stopped.stderr
        assert "stopped in collect-hybrid" in stopped.stdout and "the cap is 34 USD" in stopped.stdout
        # 1 USD of sandbox time; 3 batches of 2 calls at 11 USD go over 34.
        assert len(told.bill) == 4
        again = result(recipe, 7, "run", "--no-mlflow")
        assert again["status"] == "capped" and again["failed"] == "collect-hybrid" and len(told.requests) == 4
        spent = costs_now(recipe)
        assert spent["caps"] == {"usd": 34.0, "tokens": None}
        assert spent["spent"]["usd_models"] == 4 * EACH
        done = result(recipe, 0, "run", "--no-mlflow", "--cap-usd", "1000")
        assert done["executed"] == ["collect-hybrid", "evaluate-midtrain"] or "evaluate-base" in done["executed"]
        assert len(told.bill) == len(told.requests) == paid_recipe.QUESTIONS, "nothing was paid twice"
    assert len({key for key in told.keys}) == 1 and told.keys[0] == "Bearer canary-teacher-key-123"
    costs = result(recipe, 0, "costs")
    paid = EACH * paid_recipe.QUESTIONS
    assert costs["spent"]["usd_models"] == costs["made"]["usd_models"] == paid
    assert costs["spent"]["models"]["priced"]["tokens_in"] == told.total("prompt_tokens")
    assert costs["spent"]["models"]["priced"]["cache_hits"] == 4
    assert costs["spent"]["usd_machine"] == pytest.approx(8 / 3600 * 450)
    assert "cpu" in costs["spent"]["unpriced_units"]
    per = {one["unit"]: one for one in costs["per_unit"]}
    assert per["kept task"]["count"] == 4 and per["kept task"]["amounts"]["sandbox_seconds"] == 2.0
    assert per["kept trajectory"]["amounts"]["usd_models"] == EACH
    assert per["point of score"]["count"] == pytest.approx(50) and per["point of score"]["amounts"]["usd_models"] == (
        pytest.approx(paid / 50)
    )
    shown = text(Costs.model_validate(costs))
    assert "132.00" in shown and "priced" in shown and "kept trajectory" in shown and "of 1000 USD" in shown
    # What is taken from the cache costs this run nothing, and still has its price.
    result(recipe, 0, "run", "--no-mlflow", "--set", "evaluate.gallery=3")
    later = costs_now(recipe)
    assert later["spent"]["usd_models"] == 0.0 and later["made"]["usd_models"] == paid
    assert later["caps"] == {"usd": None, "tokens": None}, "a new run begins without a cap"
    assert {s["stage"]: s["run"] for s in later["stages"]}["collect-hybrid"] == costs["run"]
    chosen = costs_now(recipe, costs["run"][:-1])
    assert chosen["spent"] == costs["spent"]


def test_what_a_stage_spent_beyond_the_cap_stops_the_next_one_before_its_first_call(recipe: Path) -> None:
    with provider() as told:
        point(recipe, told)
        stopped = cowork(recipe, "run", "--no-mlflow", "--cap-usd", "0.5")
    assert stopped.returncode == 7 and "spent 1.0000 USD, the cap is 0.5 USD" in stopped.stdout
    assert (recipe / "outputs" / "tasks").is_dir() and told.requests == []


def test_a_senseless_cap_and_a_broken_price_file_are_refused_before_anything_begins(recipe: Path) -> None:
    for cap in ("0", "nan"):
        done = cowork(recipe, "run", "--no-mlflow", "--cap-usd", cap)
        assert done.returncode == 2 and "--cap-usd: a cap is a number above 0" in done.stderr
    (recipe / "prices.yaml").write_text("models: [{model: priced}]")
    done = cowork(recipe, "run", "--no-mlflow")
    assert done.returncode == 2 and "prices.yaml: models.0" in done.stderr
    assert not (recipe / "outputs").exists()


def test_costs_before_the_first_run_and_of_an_unknown_run_say_what_to_do(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(recipe)
    assert show_costs("", "", False) == 0 and "cowork run" in capsys.readouterr().out
    with pytest.raises(OrchestrationError, match="no run 'nope'"):
        show_costs("", "nope", False)
