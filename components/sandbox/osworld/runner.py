"""One task, played from the outside as OSWorld's own runner does: setup, actions one after the other, evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from components.contracts.calls import BashCall, ComputerUse
from components.contracts.errors import CoworkError, TaskError
from components.sandbox.osworld.desktop import ending_of
from components.sandbox.osworld.evaluation import Evaluation
from components.sandbox.osworld.guest import Guest
from components.sandbox.osworld.judge import Judge
from components.sandbox.osworld.remote_calls import bash_script, pyautogui_code
from components.sandbox.osworld.scoring import Ending
from components.sandbox.osworld.sources import Sources
from components.sandbox.osworld.task import OsworldTask

Action = str | BashCall | ComputerUse
"""pyautogui code or WAIT, DONE, FAIL as OSWorld's agents say it; or a call of ours."""
_WAIT_SECONDS = 2.0


@dataclass(frozen=True)
class Outcome:
    """`score` None: there is none, since something other than the agent failed; `error` says what."""

    score: float | None
    ending: Ending
    error: str = ""


def play(
    task: OsworldTask, guest: Guest, actions: Iterable[Action], sources: Sources, judge: Judge | None = None
) -> Outcome:
    """Plays a task on a guest in its clean state. Only what the agent did decides the score."""
    ending: Ending = "steps"
    try:
        with Evaluation(task, guest, sources, judge) as evaluation:
            evaluation.setup()
            ending = act(guest, actions)
            evaluation.finish()
            return Outcome(evaluation.grade(ending).score, ending)
    except CoworkError as error:
        return Outcome(None, ending, f"{error.border}: {error}")


def act(guest: Guest, actions: Iterable[Action]) -> Ending:
    """Carries actions out until one ends the episode. One that the guest refuses changes nothing and ends nothing."""
    for action in actions:
        if isinstance(action, ComputerUse) and action.action == "terminate":
            return ending_of(action)
        if action in ("DONE", "FAIL"):
            return "done" if action == "DONE" else "fail"
        if action == "WAIT" or (isinstance(action, ComputerUse) and action.action == "wait"):
            guest.pause(action.time if isinstance(action, ComputerUse) else _WAIT_SECONDS)
        elif isinstance(action, BashCall):
            guest.bash_script(bash_script(action), timeout=action.timeout or 30.0)
        elif isinstance(action, ComputerUse):
            guest.execute(["python", "-c", pyautogui_code(action)])
        else:
            guest.execute(["python", "-c", f"import pyautogui; import time; pyautogui.FAILSAFE = False; {action}"])
    return "steps"


def actions_of(raw: Any) -> list[Action]:
    """Actions as a file holds them: texts, and calls as JSON objects. Raises `TaskError`."""
    found: list[Action] = []
    for entry in raw if isinstance(raw, list) else [raw]:
        if isinstance(entry, str):
            found.append(entry)
        elif isinstance(entry, Mapping) and entry.get("tool") in ("bash", "computer_use"):
            try:
                found.append((BashCall if entry["tool"] == "bash" else ComputerUse)(**entry))
            except ValueError as error:
                raise TaskError(f"no action: {error}", where="osworld actions") from error
        else:
            raise TaskError(f"no action: {entry!r:.80}", where="osworld actions", remedy="a text or a call's JSON")
    return found
