"""How one episode of an evaluation ended: a line of `episodes.jsonl`, for who writes it and for who checks it."""

from __future__ import annotations

from components.contracts.task import Frozen


class Outcome(Frozen):
    """One graded episode, small enough to keep for every task."""

    task_id: str
    repeat: int
    skill: str
    split: str
    apps: tuple[str, ...]
    channel: str
    success: bool
    calls: int
    tokens: int
    gui_calls: int
    terminal_calls: int
    unparsable: int
    ending: str
    infra_error: str
