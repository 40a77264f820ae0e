"""Parameters: exact types, every mistake named before any work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contracts.errors import ParamsError
from components.contracts.load_params import BadValue, coerce_value, edit_text, load_params, load_text, parse_set
from components.contracts.params import Params

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "params.yaml").read_text(encoding="utf-8")
ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "c47.jsonl").read_text().splitlines() if line]
TYPES: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str, "list": list, "dict": dict}


def raw(key: str, text: str, name: str = "") -> str:
    """The recipe with other text at a key, and the key itself renamed when `name` is given."""
    marked = edit_text(TEXT, key, "@@@")
    leaf = key.rpartition(".")[2]
    return marked.replace(f'{leaf}: "@@@"', f"{name or leaf}: {text}")


def refused(text: str) -> str:
    with pytest.raises(ParamsError) as caught:
        load_text(text, "params.yaml")
    return str(caught.value)


def line_of(key: str) -> int:
    marked = edit_text(TEXT, key, "@@@")
    return next(number for number, line in enumerate(marked.splitlines(), 1) if "@@@" in line)


@pytest.mark.parametrize("row", ROWS, ids=[row["row"] for row in ROWS])
def test_typed_parameters_of_case_c47_arrive_exactly_or_are_refused(row: dict[str, Any]) -> None:
    given, expected = row["given"], row["expect"]
    if "error" in expected:
        with pytest.raises(BadValue):
            coerce_value(given["given"], TYPES[given["declared"]])
        return
    try:
        value = coerce_value(given["given"], TYPES[given["declared"]])
    except BadValue:
        assert any("error" in also for also in row.get("also_ok", [])), "a good value was refused"
        return
    assert value == expected["value"]
    assert type(value) is type(expected["value"])
    assert "5.0" not in json.dumps(value)


def test_the_shipped_recipe_and_every_profile_load() -> None:
    assert load_params(ROOT / "params.yaml").profile == "tiny"
    profiles = sorted((ROOT / "pipelines" / "profiles").glob("*.yaml"))
    assert {path.stem for path in profiles} == {"smoke", "desktop", "b200"}
    for path in profiles:
        assert load_params(path).profile == path.stem


def test_an_unknown_key_is_refused_with_line_path_and_the_nearest_key() -> None:
    message = refused(raw("rl.group", "8", "gruop"))
    assert f"params.yaml:{line_of('rl.group')}: rl.gruop" in message
    assert "did you mean 'rl.group'" in message
    assert "missing" not in message, "the mistyped key is one mistake, not two"


def test_a_key_known_by_another_name_points_at_the_one_that_is_missing() -> None:
    assert "did you mean 'rl.lr'" in refused(raw("rl.lr", "1e-4", "learning_rate"))


def test_a_mistyped_section_is_named() -> None:
    assert "did you mean 'midtrain'" in refused(TEXT.replace("\nmidtrain:\n", "\nmidtrian:\n"))


def test_a_key_of_another_section_is_pointed_there() -> None:
    assert "did you mean 'rl.temperature'" in refused(TEXT.replace("\nforge:\n", "\nforge:\n  temperature: 0.5\n"))


def test_a_missing_key_is_named_with_its_kind() -> None:
    lines = TEXT.splitlines(keepends=True)
    del lines[line_of("rl.group") - 1]
    assert "rl.group: missing; expected a whole number" in refused("".join(lines))


def test_all_mistakes_are_told_at_once() -> None:
    message = refused(raw("rl.group", "many").replace("\nseed: ", "\nseed: x"))
    assert "rl.group" in message and "seed" in message and "2 mistakes" in message


@pytest.mark.parametrize(
    "key, text, word",
    [
        ("rl.lr", ".nan", "finite number"),
        ("rl.lr", "inf", "finite number"),
        ("rl.lr", '"1.5e-4"', "without quotes"),
        ("rl.lr", "7", "less than 1"),
        ("rl.lr", "", "got nothing"),
        ("rl.lr", "[1]", "got a list"),
        ("rl.group", "8.5", "whole number"),
        ("rl.group", "0x8", "whole number"),
        ("rl.group", "1_000", "whole number"),
        ("rl.group", "1", "greater than or equal to 2"),
        ("rl.drop_all_fail", "yes", "true or false"),
        ("rl.drop_all_fail", "1", "true or false"),
        ("rl.advantage", "leave_one_out", "did you mean"),
        ("harness.routes", "gui", "a list"),
        ("seed", "0\nseed: 1", "given twice"),
        ("forge", "3", "mapping"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words(key: str, text: str, word: str) -> None:
    if key == "forge":
        assert word in refused(TEXT.replace("\nforge:\n", "\nforge: 3\nother:\n"))
    else:
        assert word in refused(raw(key, text))


@pytest.mark.parametrize("text", ["", "a: [", "- 1\n- 2\n", "just text"])
def test_a_file_that_is_no_recipe_is_refused(text: str) -> None:
    with pytest.raises(ParamsError):
        load_text(text, "params.yaml")


def test_a_number_written_without_a_point_is_a_number() -> None:
    assert load_text(raw("rl.lr", "1e-4"), "params.yaml").rl.lr == 1e-4


def test_an_override_is_typed_by_the_schema() -> None:
    params = load_text(TEXT, "params.yaml", ["rl.lr=1e-6", "rl.group=4", 'harness.routes=["gui"]', "seed=7"])
    assert (params.rl.lr, params.rl.group, params.harness.routes, params.seed) == (1e-6, 4, ("gui",), 7)


@pytest.mark.parametrize("bad", ["rl.lr", "rl.lr=abc", "rl.grop=3", "rl=3", "=3", "rl.lr=7"])
def test_a_bad_override_is_refused(bad: str) -> None:
    with pytest.raises(ParamsError):
        load_text(TEXT, "params.yaml", [bad])


def test_an_override_of_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ParamsError, match="did you mean 'rl.group'"):
        parse_set("rl.grop=3")


@pytest.mark.parametrize(
    "key, value", [("rl.lr", 2e-05), ("rl.group", 4), ("rl.drop_all_fail", False), ("profile", "mine"), ("seed", 9)]
)
def test_setting_a_value_in_the_file_changes_that_value_alone(key: str, value: Any) -> None:
    after = edit_text(TEXT, key, value)
    changed = [(a, b) for a, b in zip(TEXT.splitlines(), after.splitlines(), strict=True) if a != b]
    assert len(changed) == 1
    before, now = changed[0]
    assert before.partition("#")[2] == now.partition("#")[2], "the comment stays"
    plain = load_text(after, "params.yaml").model_dump()
    expected = Params.model_validate(load_text(TEXT, "params.yaml")).model_dump()
    section, leaf = expected, key
    for part in key.split(".")[:-1]:
        section, leaf = section[part], key.split(".")[-1]
    section[leaf] = value
    assert plain == expected
