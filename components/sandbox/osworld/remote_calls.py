"""Our calls in the words of OSWorld's API: pyautogui commands, and scripts that keep a terminal's state."""

from __future__ import annotations

import re

from components.contracts.calls import BashCall, ComputerUse
from components.contracts.desktop import ActResult
from components.contracts.errors import CallError
from components.sandbox.osworld.guest import Executed
from components.sandbox.osworld.pyautogui_commands import NOTCH

_BEGIN = "import pyautogui; import time; pyautogui.FAILSAFE = False; "
_KEYS = {"super": "winleft", "menu": "apps", "printscreen": "printscreen", "esc": "esc"}
_STATE = '"${TMPDIR:-/tmp}/.terminal"'


def pyautogui_code(call: ComputerUse) -> str:
    """One command for one GUI action. Raises `CallError` for an action that presses nothing."""
    at = "" if call.coordinate is None else f"{call.coordinate[0]}, {call.coordinate[1]}"
    if call.action == "key":
        names = ", ".join(repr(_KEYS.get(key, key)) for key in call.keys)
        return f"{_BEGIN}pyautogui.{'press' if len(call.keys) == 1 else 'hotkey'}({names})"
    if call.action == "type":
        return _BEGIN + "; ".join(_typing(call.text) or ["pass"])
    if call.action == "scroll":
        notches = max(1, round(abs(call.pixels) / NOTCH)) * (1 if call.pixels > 0 else -1) if call.pixels else 0
        return f"{_BEGIN}pyautogui.scroll({notches}{', ' + at if at else ''})"
    if call.action == "left_click_drag":
        start = f"pyautogui.moveTo({call.start[0]}, {call.start[1]}); " if call.start is not None else ""
        return f"{_BEGIN}{start}pyautogui.dragTo({at}, duration=0.5, button='left')"
    names_of = {"mouse_move": "moveTo", "left_click": "click", "right_click": "rightClick",
                "middle_click": "middleClick", "double_click": "doubleClick"}  # fmt: skip
    if call.action not in names_of:
        raise CallError("bad_argument", f"{call.action} is no action of the mouse or keyboard", where="osworld remote")
    return f"{_BEGIN}pyautogui.{names_of[call.action]}({at})"


def _typing(text: str) -> list[str]:
    """pyautogui types `>` for `<` on X11 keyboards, so that one is pressed as a chord."""
    parts = re.split(r"(<)", text.replace("\r\n", "\n").replace("\r", "\n"))
    return ["pyautogui.hotkey('shift', ',')" if part == "<" else f"pyautogui.write({part!r})" for part in parts if part]


def bash_script(call: BashCall) -> str:
    """A script that takes up the directory and the exported variables that the last one left, and leaves its own.

    OSWorld's API has no lasting terminal; functions, unexported variables and jobs do not last.
    """
    lines = [f"rm -f {_STATE}"] if call.restart else []
    lines += [
        f"[ -f {_STATE} ] && . {_STATE}",
        f'trap \'__status=$?; {{ export -p; printf "cd %q\\n" "$PWD"; }} > {_STATE}; exit $__status\' EXIT',
        call.command,
    ]
    return "\n".join(lines) + "\n"


def in_terminal(call: BashCall, done: Executed, timeout: float) -> ActResult:
    """A script's answer as a terminal's."""
    timed_out = done.returncode == -1
    output = done.output + (f"[timed out after {timeout:g} s]\n" if timed_out else "")
    return ActResult(True, output, 124 if timed_out else done.returncode, timed_out)
