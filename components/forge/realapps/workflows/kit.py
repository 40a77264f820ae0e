"""What the workflow modules share: builders of stages and checks, and moves that many plans have in common."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from components.contracts.task import Check, SetupStep
from components.forge.realapps.catalog import BY_ID
from components.forge.workflows.base import Args, Bank, Branches, Stage, Wordings, Workflow, check, step

Moves = list[list[Any]]

__all__ = [
    "Args",
    "Bank",
    "Branches",
    "Check",
    "Moves",
    "Random",
    "SetupStep",
    "Stage",
    "Workflow",
    "both",
    "check",
    "goto",
    "hand",
    "keys",
    "made",
    "noise",
    "noise_steps",
    "office",
    "python",
    "rest",
    "save",
    "step",
    "term",
    "visits",
]


def made(
    skill: str,
    parts: tuple[tuple[str, ...], ...],
    sample: Callable[[Random, Bank], Args],
    branches: Callable[[Args], Branches],
    wrong: Callable[[Random, Bank, Args], Args],
    *,
    max_steps: int = 30,
    derived: tuple[str, ...] = (),
) -> Workflow:
    return Workflow(BY_ID[skill], Wordings(skill, parts), sample, branches, wrong, max_steps, 1, derived)


# -- stages ---------------------------------------------------------------------------------------------------------


def hand(*moves: list[Any]) -> Stage:
    """A stage for the screen alone."""
    return {"gui": {"goal": "moves", "moves": list(moves)}}


def term(command: str) -> Stage:
    """A stage for the terminal alone."""
    return {"terminal": {"goal": "bash", "command": command}}


def both(moves: Moves, command: str) -> Stage:
    return {"gui": {"goal": "moves", "moves": moves}, "terminal": {"goal": "bash", "command": command}}


def python(code: str) -> str:
    """A command that runs a program under the slot's python."""
    return f"python3 - <<'END'\n{code}\nEND"


def office(code: str) -> str:
    """A command that runs `code` with `desktop`, a LibreOffice without a window; `load(path)` opens a document."""
    return python(_OFFICE + code + "\ntry:\n    desktop.terminate()\nexcept Exception:\n    pass\nserver.wait(60)")


_OFFICE = """
import subprocess, time, uno
from com.sun.star.beans import PropertyValue
server = subprocess.Popen(["soffice", "--headless", "--norestore", "--nologo",
                           "-env:UserInstallation=file:" + "///tmp/office", "--accept=pipe,name=batch;urp;"])
here = uno.getComponentContext()
find = here.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", here)
for _ in range(600):
    try:
        there = find.resolve("uno:pipe,name=batch;urp;StarOffice.ComponentContext")
        break
    except Exception:
        time.sleep(0.1)
desktop = there.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", there)
def load(path):
    hidden = (PropertyValue(Name="Hidden", Value=True),)
    return desktop.loadComponentFromURL("file:" + "///home/user/" + path, "_blank", 0, hidden)
"""


def save(path: str) -> Moves:
    """Ctrl+S, and until the file has changed."""
    return [["key", "ctrl", "s"], ["saved", path]]


def goto(cell: str) -> Moves:
    """Calc: selects a cell or range through the Name Box."""
    return [["key", "ctrl", "shift", "t"], ["type", cell + "\n"]]


def keys(name: str, times: int) -> Moves:
    return [["key", name]] * times


# -- scenes ---------------------------------------------------------------------------------------------------------


def noise(bank: Bank) -> list[str]:
    """A file that has nothing to do with the task: [path, text]."""
    return [bank.word() + ".txt", bank.filler() + "\n"]


def noise_steps(args: Args) -> tuple[SetupStep, ...]:
    return (step("text", path=args["noise"][0], text=args["noise"][1]),)


def rest(*files: str) -> Check:
    """No other file changed."""
    return check("others_unchanged", files=list(files))


def visits(*pages: str) -> str:
    """A command that asks the shop for pages: "/path" is looked at, "/path field=value&..." is sent."""
    lines = [f"curl -sf -o /dev/null {_data(page)}http://shop.local:8100{page.split(' ')[0]}" for page in pages]
    return " && ".join(lines)


def _data(page: str) -> str:
    _, _, form = page.partition(" ")
    return f"-d '{form}' " if form else ""
