"""A harness: the scaffold around a model. Which tools it has, what its system prompt says, what the guest is given.

A harness is a versioned artifact: data collection, RL and evaluation use the same one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from components.contracts.coords import CoordSpace
from components.contracts.digests import digest_value
from components.contracts.errors import DataError
from components.contracts.schemas import render_tools
from components.contracts.task import Channel, Frozen

HarnessName = Literal["gui", "terminal", "hybrid", "overlapping"]

CLICK_PROMPT = "You point at things on a screenshot. Answer with one left_click of computer_use."
"""The click-only prompt of stage 1: grounding samples never see the agent prompt (paper.md 6.1)."""

PREAMBLE = (
    "You work on the computer shown in the screenshot. Think, name one action, make one tool call.\n"
    "Format: <think>reason</think>, a line `Action:` with a short imperative, then <tool_call> with one JSON object "
    '{"name": ..., "arguments": ...}.\n'
    "Call terminate when the task is done."
)

_CHANNEL_LINES: dict[str, str] = {
    "gui": "You have no terminal.",
    "terminal": "Prefer the terminal; the screen is for looking and for terminate.",
    "hybrid": "Each turn take the screen or the terminal, whichever is cheaper.",
    "overlapping": "Screen, accessibility tree and terminal may all be used.",
}


class HarnessSpec(Frozen):
    """Tools, prompt and guest of one harness. `tools` in the order of the schemas."""

    name: str
    tools: tuple[str, ...]
    channels: tuple[Channel, ...]
    preamble: str = PREAMBLE
    channel_line: str
    guest_commands: tuple[str, ...] = ()
    """Commands of the guest library that are installed in the terminal's PATH."""

    def system_prompt(self, space: CoordSpace) -> str:
        return f"{self.preamble}\n{self.channel_line}\n{render_tools(self.tools, space)}"

    @property
    def digest(self) -> str:
        return digest_value(self.model_dump(mode="json"))


def default_spec(name: HarnessName) -> HarnessSpec:
    """The authored harness of that name: what evolution starts from."""
    tools: dict[str, tuple[str, ...]] = {
        "gui": ("computer_use",),
        "terminal": ("computer_use", "bash"),
        "hybrid": ("computer_use", "bash"),
        "overlapping": ("computer_use", "bash", "accessibility"),
    }
    channels: dict[str, tuple[Channel, ...]] = {
        "gui": ("gui",),
        "terminal": ("terminal",),
        "hybrid": ("gui", "terminal"),
        "overlapping": ("gui", "terminal"),
    }
    guest = () if name == "gui" else ("sheet",)
    return HarnessSpec(
        name=name, tools=tools[name], channels=channels[name], channel_line=_CHANNEL_LINES[name], guest_commands=guest
    )


def prompt_blocks(space: CoordSpace) -> list[str]:
    """The fixed texts of every default prompt, cut so that a tiny tokenizer can hold each as one token."""
    tools = render_tools(default_spec("overlapping").tools, space).split("\n")
    return [
        CLICK_PROMPT,
        PREAMBLE + "\n",
        *(line + "\n" for line in _CHANNEL_LINES.values()),
        tools[0] + "\n",
        *(t + "\n" for t in tools[1:-1]),
        tools[-1],
        "Task: ",
    ]


def load_spec(path: Path) -> HarnessSpec:
    """Read one harness file (`<harness dir>/<name>.json`)."""
    if not path.is_file():
        raise DataError("the harness file is missing", where=str(path), remedy="run the `harness` stage")
    return HarnessSpec.model_validate_json(path.read_text())
