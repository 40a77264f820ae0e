"""The skill taxonomy of the tiny world: what an agent can be asked to do, one line each.

A skill is declarative: its workflow (same id, in `components.forge.workflows`) says how tasks of it are made. `kind` is
the class of routes that solve it: `gui` (only the screen can), `both`, `terminal`, or `cross` (two applications).
Skills with `held_out` never appear in train, dev or the held-out set: they form the `heldout_skills` set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SkillKind = Literal["gui", "both", "terminal", "cross"]


@dataclass(frozen=True)
class Skill:
    id: str
    kind: SkillKind
    apps: tuple[str, ...]
    description: str
    version: int = 1
    held_out: bool = False


SKILLS: tuple[Skill, ...] = (
    # Only the screen can: state that is in no file of the home directory.
    Skill("toggle-pref", "gui", ("prefs",), "Bring one checkbox to a wanted state; sometimes it is already there."),
    Skill("set-volume", "gui", ("prefs",), "Drag the volume slider to a number."),
    Skill("choose-option", "gui", ("prefs",), "Choose an option in a drop-down."),
    Skill("form-texts", "gui", ("forms",), "Fill two text fields and send."),
    Skill("form-choice", "gui", ("forms",), "Fill a field, choose an option, send."),
    Skill("paste-note", "gui", ("notes", "files"), "Paste the clipboard into a note and save it."),
    # Both ways work; the terminal is shorter.
    Skill("rename-file", "both", ("files",), "Rename a file."),
    Skill("delete-file", "both", ("files",), "Delete one file."),
    Skill("delete-logs", "both", ("files",), "Delete all .log files: long by hand, one command in the terminal."),
    Skill("move-file", "both", ("files",), "Move a file into a folder (by hand: drag it)."),
    Skill("new-folder", "both", ("files",), "Make a folder."),
    Skill("write-note", "both", ("notes",), "Write a new note and save it under a name."),
    Skill("append-line", "both", ("notes", "files"), "Add a line at the end of a note."),
    Skill("replace-text", "both", ("notes", "files"), "Replace everything a note says."),
    Skill("set-cell", "both", ("sheet", "files"), "Set one cell of a sheet."),
    Skill("sort-sheet", "both", ("sheet", "files"), "Sort the rows of a sheet by a column."),
    # Tools of the terminal.
    Skill("count-words", "terminal", ("terminal",), "Store the number of words of a file in another."),
    Skill("sort-lines", "terminal", ("terminal",), "Store the sorted lines of a file in another."),
    Skill("join-files", "terminal", ("terminal",), "Join two files into a third."),
    Skill("count-matches", "terminal", ("terminal",), "Store how many lines hold a word."),
    Skill("copy-as", "terminal", ("terminal",), "Copy a file into a folder under a new name."),
    # Two applications.
    Skill("note-to-form", "cross", ("notes", "forms"), "Read a word in a note, put it in a form, send."),
    Skill("delete-and-pref", "cross", ("files", "prefs"), "Delete a file, then bring a checkbox to a state."),
    Skill("rename-and-form", "cross", ("files", "forms"), "Rename a file, then send its new name in a form."),
    Skill("folder-and-option", "cross", ("files", "prefs"), "Make a folder, then choose an option."),
    # Never trained on.
    Skill("first-line", "terminal", ("terminal",), "Store the first line of a file in another.", held_out=True),
    Skill("sum-column", "both", ("sheet", "files"), "Put the sum of a column below it.", held_out=True),
    Skill("cell-and-pref", "cross", ("sheet", "prefs"), "Set a cell, then bring a checkbox to a state.", held_out=True),
    Skill("note-to-cell", "cross", ("notes", "sheet"), "Read a word in a note, put it in a cell.", held_out=True),
    Skill("cell-to-form", "cross", ("sheet", "forms"), "Read a cell of a sheet, send it in a form.", held_out=True),
    Skill("form-check", "gui", ("forms",), "Fill a field, tick a box, send.", held_out=True),
    Skill("toggle-two", "gui", ("prefs",), "Bring two checkboxes to wanted states.", held_out=True),
    Skill("rename-folder", "both", ("files",), "Rename a folder.", held_out=True),
    Skill("clear-note", "both", ("notes", "files"), "Make a note empty.", held_out=True),
    Skill("two-folders", "both", ("files",), "Make two folders.", held_out=True),
)

BY_ID: dict[str, Skill] = {skill.id: skill for skill in SKILLS}
