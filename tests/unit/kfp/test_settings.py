from __future__ import annotations

import pytest

from components.contracts.errors import CheckpointError, ParamsError
from components.contracts.load_params import load_params
from components.contracts.params import Params
from pipelines.kfp_settings import LIMIT, StepSettings, base_settings, check_length, read_overrides, settings_by_stage
from pipelines.registry import STAGES
from pipelines.stage_params import stage_params
from pipelines.workspace import SOURCE


def _params(*overrides: str) -> Params:
    return load_params(SOURCE / "params.yaml", overrides)


def _settings(*overrides: str, code: str = "c") -> dict[str, str]:
    return settings_by_stage(_params(*overrides), dict.fromkeys(STAGES, code), STAGES)


def test_a_stage_gets_back_exactly_what_it_gets_under_dvc() -> None:
    params = _params()
    for name, text in _settings().items():
        assert StepSettings.decode(text).typed() == stage_params(params, STAGES[name])


def test_whole_numbers_stay_whole_on_the_way() -> None:
    told = StepSettings.decode(_settings("rl.iterations=3")["rl"])
    assert told.params["rl"]["iterations"] == 3
    assert isinstance(told.typed().rl.iterations, int)
    assert '"iterations":3,' in told.encode()


def test_a_changed_parameter_changes_the_settings_of_its_own_stages_only() -> None:
    before, after = _settings(), _settings("rl.lr=0.0002")
    assert {name for name in STAGES if before[name] != after[name]} == {"rl"}
    after = _settings("context.responses=2")
    changed = {name for name in STAGES if before[name] != after[name]}
    assert changed == {name for name, stage in STAGES.items() if "context" in stage.params}


def test_seed_and_code_change_every_stage() -> None:
    before = _settings()
    for after in (_settings("seed=5"), _settings(code="d")):
        assert all(before[name] != after[name] for name in STAGES)


def test_a_section_that_was_not_declared_cannot_be_read() -> None:
    typed = StepSettings.decode(_settings()["forge"]).typed()
    with pytest.raises(AttributeError):
        _ = typed.rl


def test_settings_are_short_enough_for_a_parameter() -> None:
    assert max(map(len, _settings().values())) < LIMIT // 4
    assert check_length("x", "a" * LIMIT)
    with pytest.raises(ParamsError, match="10001 characters.*") as error:
        check_length("overrides", "a" * (LIMIT + 1))
    assert "overrides" in str(error.value)


@pytest.mark.parametrize("text", ["", "{}", "null", '{"stage": "rl", "params": {}, "code_key": ""}'])
def test_text_that_is_no_settings_is_refused(text: str) -> None:
    with pytest.raises(ParamsError):
        StepSettings.decode(text)


def test_settings_of_another_version_are_refused_by_name() -> None:
    told = StepSettings.decode(_settings()["rl"])
    with pytest.raises(ParamsError, match="rl"):
        told.model_copy(update={"params": {"seed": 1, "nope": {}}}).typed()


def test_overrides_may_be_dotted_or_nested_and_keep_their_type() -> None:
    assert read_overrides("{}") == []
    assert read_overrides('{"rl.lr": 1e-4, "forge": {"train": 10}}') == ["forge.train=10", "rl.lr=0.0001"]
    changed = _params(*read_overrides('{"rl": {"drop_all_fail": false}, "harness.routes": ["gui"], "rl.lr": 2e-5}'))
    assert changed.rl.drop_all_fail is False
    assert changed.harness.routes == ("gui",)
    assert changed.rl.lr == 2e-5


@pytest.mark.parametrize("text", ["", "[]", "rl.lr=3", '{"rl.lr": }', '{"a": "' + "x" * LIMIT + '"}'])
def test_overrides_that_are_no_short_object_are_refused(text: str) -> None:
    with pytest.raises(ParamsError, match="overrides"):
        read_overrides(text)


def test_a_missing_base_checkpoint_is_named() -> None:
    with pytest.raises(CheckpointError, match="no/such/base"):
        base_settings("no/such/base")
