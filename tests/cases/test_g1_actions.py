"""The practice cases of group 1 (parsing of tool calls) and C21 (import of action code)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.adapter_actions import agrees, outcome, rows

ROWS = rows("g1_actions.jsonl", "C01", "C03", "C05", "C07", "C09", "C11") + rows("g2_data.jsonl", "C21")


def test_no_row_of_the_groups_is_left_out() -> None:
    counts: dict[str, int] = {}
    for row in ROWS:
        counts[row["case"]] = counts.get(row["case"], 0) + 1
    assert counts == {"C01": 4, "C03": 4, "C05": 15, "C07": 6, "C09": 13, "C11": 8, "C21": 15}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['case']}{row['row']}")
def test_row_has_the_right_outcome(row: dict[str, Any]) -> None:
    got = outcome(row["given"])
    accepted = [row["expect"], *row.get("also_ok", [])]
    # Every `must_not` of these rows is some other outcome, so an exact match with an accepted one excludes it.
    assert any(agrees(got, wanted) for wanted in accepted), (
        f"{got} is none of {accepted}; must not {row.get('must_not')}"
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['case']}{row['row']}")
def test_an_error_lets_nothing_reach_the_desktop(row: dict[str, Any]) -> None:
    got = outcome(row["given"])
    assert got["executed"] == (1 if got["kind"] == "calls" else 0)


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (
            {"kind": "calls", "calls": [{"tool": "a", "pixel": [5, 5]}], "executed": 1},
            {"calls": [{"tool": "a", "pixel": [7, 5]}]},
        ),
        ({"kind": "calls", "calls": [{"tool": "a"}, {"tool": "a"}], "executed": 2}, {"calls": [{"tool": "a"}]}),
        ({"kind": "error", "error": "x", "executed": 0}, {"kind": "error", "error": "y"}),
        ({"kind": "error", "error": "x", "executed": 1}, {"kind": "error", "executed": 0}),
    ],
)
def test_the_adapter_sees_a_wrong_outcome(got: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert not agrees(got, wanted)
