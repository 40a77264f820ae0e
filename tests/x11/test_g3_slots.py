"""Open cases C31 and C33 on real desktops: what a reset takes away, and what it must leave alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from components.contracts.errors import SandboxError
from components.contracts.task import Task, Verdict
from components.sandbox.x11.desktop import X11Desktop
from components.sandbox.x11.drivers.bwrap_host import BwrapHost
from components.sandbox.x11.guest_calls import GuestCalls
from components.sandbox.x11.health import await_application

from .conftest import Person, make_task, wait_for

DATA = Path(__file__).resolve().parents[1] / "cases" / "data" / "g3_desktop_eval.jsonl"
ROWS = {row["case"] + row["row"]: row for row in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())}


def expected(name: str) -> dict[str, Any]:
    return dict(ROWS[name]["expect"])


def workbook() -> bytes:
    import io

    from openpyxl import Workbook

    book = Workbook()
    book.active["A1"] = "initial"  # type: ignore[index]
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
def test_an_application_killed_in_the_middle_leaves_no_lock_no_recovery_and_no_change() -> None:
    wanted = expected("C31a")["after_reset"]
    initial = workbook()

    def prepare(task: Task, guest: GuestCalls) -> None:
        guest.put("report.xlsx", initial)
        guest.launch(["soffice", "--norestore", "--nologo", "report.xlsx"])
        await_application(guest, "report.xlsx", 60.0)

    desktop = X11Desktop(BwrapHost(), prepare=prepare)
    person = Person(desktop)
    try:
        desktop.reset(make_task())
        person.guest.put(".~lock.report.xlsx#", b",user,desk,01.01.2026 00:00,;")
        x0, y0, x1, y1 = person.guest.windows()[0].box
        person.act("left_click", coordinate=((x0 + x1) // 2, (y0 + y1) // 2))
        person.act("type", text="changed\n")
        person.guest.put(".config/libreoffice/4/user/recovery", b"RecoveryList 1")
        person.bash("pkill -9 soffice.bin; echo broken > report.xlsx")
        desktop.reset(make_task())
        names = [file.path for file in person.guest.files() if "/" not in file.path and "report" in file.path]
        assert [name for name in names if not name.startswith(".~lock")] == wanted["files"]
        assert (person.guest.get("report.xlsx") == initial) is wanted["report_equals_initial"]
        settings = person.bash("cat .config/libreoffice/4/user/registrymodifications.xcu").output
        assert settings.count("RecoveryList") == wanted["recovery_list"]
        with pytest.raises(SandboxError):
            person.guest.get(".config/libreoffice/4/user/recovery")
        assert [window.title for window in person.guest.windows()] == ["report.xlsx — LibreOffice Calc"] or all(
            "report.xlsx" in window.title for window in person.guest.windows()
        )
    finally:
        desktop.close()


def test_a_reset_takes_input_and_clipboard_away_and_leaves_others_locks(shared: Person, person: Person) -> None:
    """C31e, C33e and C33f on two desktops that run side by side."""
    shared.guest.put(".~lock.report.xlsx#", b"mine")
    secret = ROWS["C33e"]["given"]["clipboard_before"]
    person.bash(f"printf {secret} | xclip -i -selection clipboard; printf {secret} | xclip -i -selection primary")
    hold = """
from Xlib import X
from Xlib.display import Display
from Xlib.ext import xtest
display = Display(":0")
xtest.fake_input(display, X.KeyPress, display.keysym_to_keycode(0xffe3))
xtest.fake_input(display, X.ButtonPress, 1)
display.sync()
"""
    look = """
from Xlib.display import Display
display = Display(":0")
print(sum(display.query_keymap()), display.screen().root.query_pointer().mask & 0x1f00)
"""
    person.guest.put("hold.py", hold.encode())
    person.bash("python3 hold.py")
    person.guest.put("look.py", look.encode())
    held = person.bash("python3 look.py").output.split()
    assert held[0] != "0" and held[1] != "0"
    assert person.bash("timeout 5 xclip -o -selection clipboard").output == secret
    person.desktop.reset(make_task())
    person.guest.put("look.py", look.encode())
    assert person.bash("python3 look.py").output == "0 0\n"
    assert expected("C33f") == {"pressed_keys": [], "mouse_button_down": False}
    for selection in ("clipboard", "primary"):
        left = person.bash(f"timeout 5 xclip -o -selection {selection} 2>/dev/null").output
        assert left == expected("C33e")["clipboard"]
    assert (shared.guest.get(".~lock.report.xlsx#") != b"mine") is expected("C31e")["lock_deleted"]


def test_a_check_ends_the_episode_and_never_disturbs_one() -> None:
    assert expected("C33c") == {"allowed": False}
    saved: list[str] = []
    desktop = X11Desktop(
        BwrapHost(),
        finish=lambda task, guest: saved.append("finish"),
        grade=lambda task, guest: Verdict(success=True),
    )
    try:
        desktop.reset(make_task())
        person = Person(desktop)
        person.bash("echo step")
        assert saved == []  # nothing of it runs between steps
        assert desktop.grade().success and saved == ["finish"]
        with pytest.raises(SandboxError, match="ended"):
            person.bash("echo more")
    finally:
        desktop.close()


def test_a_failed_reset_gives_the_sandbox_up_and_the_next_task_gets_another() -> None:
    assert expected("C33d") == {"sandbox": "discarded", "next_task": "gets a fresh one"}
    assert expected("C31g") == {"outcome": "infra_error"}
    waits: list[bool] = [True, False]

    def prepare(task: Task, guest: GuestCalls) -> None:
        guest.put("dirty.txt", b"x")
        if waits.pop(0):
            guest.launch(["sleep", "100"])
            await_application(guest, "report.xlsx", 1.0)
        guest.bash("rm dirty.txt")

    desktop = X11Desktop(BwrapHost(), prepare=prepare)
    try:
        with pytest.raises(SandboxError, match="no window"):
            desktop.reset(make_task())
        with pytest.raises(SandboxError, match="no episode"):
            desktop.observe()
        desktop.reset(make_task())
        assert wait_for(lambda: desktop.guest.bash("ls; pgrep -xc sleep").output == "Desktop\n0\n")
    finally:
        desktop.close()
