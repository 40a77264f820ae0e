"""The three things an `X11Desktop` asks of a task over real applications: `prepare`, `finish`, `grade`.

    X11Desktop(driver, prepare=scene.prepare, finish=scene.finish, grade=scene.grade)

State that belongs to one desktop (its shop, what was unsaved at the end) hangs on its `GuestCalls` and ends with it.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from components.contracts.calls import ComputerUse
from components.contracts.errors import CoworkError, SandboxError, TaskError, VerifierError
from components.contracts.task import CheckResult, Task, Verdict
from components.forge.realapps import checks
from components.forge.realapps.evidence import Evidence, collect
from components.forge.realapps.preparers import Opening, made_by
from components.sandbox.web.site import PORT, Site
from components.sandbox.x11.guest_calls import GuestCalls

START_SECONDS = 120.0
"""Until an application's window is there and at rest; then the slot has failed, not the agent."""
SAVE_SECONDS = 20.0
_BAD_WINDOWS = ("document recovery", "(read-only)", "document in use", "repair file")
"""Titles of windows with which no episode may start."""

_MODIFIED = """
import uno
_here = uno.getComponentContext()
_find = _here.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", _here)
_there = _find.resolve("uno:pipe,name=office;urp;StarOffice.ComponentContext")
_desktop = _there.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", _there)
_all = _desktop.Components.createEnumeration()
while _all.hasMoreElements():
    _one = _all.nextElement()
    if hasattr(_one, "isModified") and _one.isModified():
        print("unsaved:", _one.getTitle())
"""
"""Asks LibreOffice for its changed documents: their windows do not show it."""


@dataclass
class _Slot:
    site: Site | None = None
    unsaved: list[str] = field(default_factory=list)


_slots: weakref.WeakKeyDictionary[GuestCalls, _Slot] = weakref.WeakKeyDictionary()


def _slot(guest: GuestCalls) -> _Slot:
    return _slots.setdefault(guest, _Slot())


def prepare(task: Task, guest: GuestCalls) -> None:
    """Puts the task's files, starts its shop and applications. Raises `SandboxError` when one does not come up."""
    made = made_by(task.setup)
    for path, data in made.files.items():
        guest.put(path, data)
    for folder in made.folders:
        guest.put(f"{folder}/.folder", b"")
    slot = _slot(guest)
    if made.site:
        slot.site = Site()
        weakref.finalize(guest, slot.site.close)
        slot.site.reset(made.site)
        slot.site.serve(guest.listen(PORT))
    for opening in made.openings:
        _start(guest, opening)


def _start(guest: GuestCalls, opening: Opening) -> None:
    window = guest.open(opening.argv, opening.title, limit=START_SECONDS)
    titles = [one.title for one in guest.windows()]
    bad = [title for title in titles if any(text in title.lower() for text in _BAD_WINDOWS)]
    if window is None or bad:
        raise SandboxError(
            f"{opening.argv[0]} is not ready: " + (f"it shows {bad[0]!r}" if bad else f"no window but {titles}"),
            where="setup", remedy="replace the slot; if it happens again look at the slot host's load",
        )  # fmt: skip


def finish(task: Task, guest: GuestCalls) -> None:
    """Saves the document when the task says so; otherwise only notes which documents are unsaved."""
    slot = _slot(guest)
    if made_by(task.setup).save_at_end:
        guest.act(ComputerUse(action="key", keys=("ctrl", "s")), limit=SAVE_SECONDS)
    slot.unsaved = _unsaved(guest)


def _unsaved(guest: GuestCalls) -> list[str]:
    """What windows and LibreOffice say is changed and not saved. A note for people, never a reason for a score."""
    windows = guest.windows()
    found = [window.title for window in windows if window.title.startswith("*")]
    if any("libreoffice" in window.app.lower() for window in windows):
        cell = guest.python(_MODIFIED, timeout=5.0, restart=True)
        found += [line.partition(": ")[2] for line in cell.output.splitlines() if line.startswith("unsaved: ")]
    return [title[:100] for title in found[:10]]


def grade(task: Task, guest: GuestCalls) -> Verdict:
    """Looks at copies of the files and the shop's record, outside the slot. Fails closed."""
    slot = _slot(guest)
    evidence = collect_or_break(task, guest, slot.site)
    if isinstance(evidence, Verdict):
        return evidence
    return judge(task, evidence, slot.unsaved)


def collect_or_break(task: Task, guest: GuestCalls, site: Site | None) -> Evidence | Verdict:
    """The evidence, or the verdict that there is none. A lost sandbox raises: that is no verdict."""
    try:
        return collect(task, guest, site.record() if site else None)
    except (VerifierError, TaskError) as error:
        return Verdict(success=False, error=str(error))


def judge(task: Task, evidence: Evidence, unsaved: list[str] | None = None) -> Verdict:
    """All checks of a task over `evidence`. No checks at all is an error: nothing was promised, nothing can be kept."""
    if not task.verifier:
        return Verdict(success=False, error="the task has no checks")
    results: list[CheckResult] = []
    try:
        evidence.read(sorted({str(c.args["path"]) for c in task.verifier if c.check in _READERS and "path" in c.args}))
        for one in task.verifier:
            if one.check not in checks.CHECKS:
                raise VerifierError(
                    f"unknown check {one.check!r}", where="verifier", remedy=f"one of {sorted(checks.CHECKS)}"
                )
            finding = checks.run(one.check, evidence, one.args)
            results.append(CheckResult(check=one.check, passed=not finding, reason=finding))
    except SandboxError:
        raise
    except CoworkError as error:
        return Verdict(success=False, results=tuple(results), error=str(error))
    except Exception as error:  # fail closed: a broken check is never a success
        reason = str(VerifierError(f"{type(error).__name__}: {error}", where="verifier"))
        return Verdict(success=False, results=tuple(results), error=reason)
    success = all(result.passed for result in results)
    if not success and unsaved:
        results.append(CheckResult(check="unsaved", passed=False, reason=f"unsaved: {', '.join(unsaved)}"))
    return Verdict(success=success, results=tuple(results))


_READERS = {
    "cells", "result", "sheet_rows", "sheet_names", "merged", "chart", "bold", "paragraphs", "doc_table", "slides",
    "picture", "layers", "text", "answer",
}  # fmt: skip
"""Checks that need facts of the file at `path`."""
