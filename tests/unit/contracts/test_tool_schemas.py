from __future__ import annotations

import json

import pytest

from components.contracts.calls import BashCall
from components.contracts.errors import ParamsError
from components.contracts.schemas import ACTIONS, ALLOWED, TOOL_NAMES, render_tools, tool_schema


def test_the_block_is_one_json_schema_a_line_in_a_fixed_order() -> None:
    block = render_tools(["bash", "computer_use"])
    first, *lines, last = block.split("\n")
    assert (first, last) == ("<tools>", "</tools>")
    assert [json.loads(line)["function"]["name"] for line in lines] == ["computer_use", "bash"]
    assert block == render_tools(["computer_use", "bash", "bash"])


def test_the_schema_names_exactly_what_the_validator_takes() -> None:
    parameters = tool_schema("computer_use")["function"]["parameters"]
    assert parameters["properties"]["action"]["enum"] == list(ACTIONS)
    assert set(ALLOWED) == set(ACTIONS)
    assert set(parameters["properties"]) == {"action", *(name for names in ALLOWED.values() for name in names)}
    assert set(tool_schema("bash")["function"]["parameters"]["properties"]) == set(BashCall.model_fields) - {"tool"}


def test_the_words_follow_the_declared_space() -> None:
    assert "0 to 1000" in render_tools(TOOL_NAMES)
    assert "0 to 1000" not in render_tools(TOOL_NAMES, "pixel_model")


def test_an_unknown_tool_has_no_schema() -> None:
    with pytest.raises(ParamsError):
        render_tools(["computer_use", "xdotool"])
