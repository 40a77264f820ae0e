"""The pointer and the keyboard, through XTEST. Gaps between events are the server's: it holds each until its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from Xlib import X
from Xlib.display import Display

from components.sandbox.x11.guest.keyboard import Keyboard, keysym_of_character, keysym_of_key

# Milliseconds. A click without gaps is lost by GTK one time in three; 10 ms never were, 40 leave room.
_HOLD, _GAP = 10, 40
_DRAG_STEPS, _DRAG_STEP, _DRAG_END = 10, 8, 30
_KEY_GAP, _KEY_HOLD = 1, 1
_DOUBLE_CLICK = 850
"""Two single clicks at one place that are nearer than this would be taken for a double click; the second is held back.
The profile says 800: a double click is one on a busy machine too, and people and models are rarely quicker."""

_LEFT, _MIDDLE, _RIGHT, _UP, _DOWN, _TO_LEFT, _TO_RIGHT = 1, 2, 3, 4, 5, 6, 7
_BUTTONS = {"left": _LEFT, "middle": _MIDDLE, "right": _RIGHT}
_SCROLL_PIXELS = 100
"""Pixels a notch of the wheel stands for."""
_MAX_NOTCHES = 100
_MAX_CLICKS = 10

Action = dict[str, Any]
Point = tuple[int, int]


class Inputs:
    """Carries out the actions of the `computer_use` tool, except `wait` and `terminate`, which press nothing.

    Beyond them what other protocols (OSWorld's) ask for: any number of `click`s of any `button`, a `drag` with any
    button, `hscroll`, and `key_down`, `key_up`, `button_down`, `button_up`, which hold until they are let go.
    """

    def __init__(
        self,
        display: Display,
        size: Point,
        idle: Callable[[], object],
        handled: Callable[[], object],
        clock: Callable[[], float],
    ) -> None:
        """`clock` gives seconds; `idle`: see `Keyboard`; `handled` waits a little till the last event was taken."""
        self._display = display
        self._root = display.screen().root
        self._size = size
        self._keyboard = Keyboard(display, idle)
        self._handled = handled
        self._clock = clock
        self._clicked: tuple[Point, float] | None = None

    def pointer(self) -> Point:
        at = self._root.query_pointer()
        return int(at.root_x), int(at.root_y)

    def act(self, action: Action) -> None:
        """One action. Raises ValueError for one that cannot be done; then nothing was pressed."""
        name = action["action"]
        at = self._point(action.get("coordinate"))
        if name == "key":
            self._chord([str(key) for key in action["keys"]])
        elif name == "type":
            self._type(str(action["text"]))
        elif name == "mouse_move":
            if at is None:
                raise ValueError("mouse_move needs a coordinate")
            self._move(at)
        elif name == "left_click":
            self._click(at, _LEFT)
        elif name == "middle_click":
            self._click(at, _MIDDLE)
        elif name == "right_click":
            self._click(at, _RIGHT)
        elif name == "double_click":
            self._click(at, _LEFT, times=2)
        elif name == "left_click_drag":
            if at is None:
                raise ValueError("left_click_drag needs a coordinate")
            self._drag(self._point(action.get("start")), at)
        elif name == "scroll":
            self._scroll(at, int(action["pixels"]))
        elif not self._act_beyond(name, action, at):
            raise ValueError(f"there is no action {name!r}")
        self._display.sync()

    def _act_beyond(self, name: str, action: Action, at: Point | None) -> bool:
        """An action that the `computer_use` tool does not have; False for one that nobody has."""
        button = _button(action)
        if name == "click":
            self._click(at, button, times=max(1, min(int(action.get("times", 1)), _MAX_CLICKS)))
        elif name == "drag" and at is not None:
            self._drag(self._point(action.get("start")), at, button)
        elif name == "hscroll":
            self._scroll(at, int(action["pixels"]), _TO_RIGHT, _TO_LEFT)
        elif name in ("button_down", "button_up"):
            if at is not None:
                self._move(at)
            self._fake(X.ButtonPress if name == "button_down" else X.ButtonRelease, button, _HOLD)
            self._clicked = None
        elif name in ("key_down", "key_up"):
            keysyms = [keysym_of_key(str(key)) for key in action["keys"]]
            self._keyboard.provide(keysyms)
            for keysym in keysyms:
                self._fake(X.KeyPress if name == "key_down" else X.KeyRelease, self._keyboard.key(keysym)[0], _HOLD)
        else:
            return False
        return True

    def release_all(self) -> None:
        """Lets go of every key and button, whatever happened before."""
        pressed = self._display.query_keymap()
        for keycode in range(8, 256):
            if pressed[keycode // 8] & (1 << keycode % 8):
                self._fake(X.KeyRelease, keycode)
        mask = self._root.query_pointer().mask
        for button in (_LEFT, _MIDDLE, _RIGHT):
            if mask & (X.Button1Mask << (button - 1)):
                self._fake(X.ButtonRelease, button)
        self._display.sync()

    # -- parts ---------------------------------------------------------------------------------------------------

    def _point(self, value: Any) -> Point | None:
        if value is None:
            return None
        x, y = int(value[0]), int(value[1])
        return max(0, min(x, self._size[0] - 1)), max(0, min(y, self._size[1] - 1))

    def _fake(self, kind: int, detail: int = 0, delay: int = 0) -> None:
        self._display.xtest_fake_input(kind, detail, delay)

    def _move(self, at: Point, delay: int = 0) -> None:
        self._display.xtest_fake_input(X.MotionNotify, 0, delay, X.NONE, *at)

    def _click(self, at: Point | None, button: int, times: int = 1) -> None:
        if at is not None:
            self._move(at)
        first = self._apart(at or self.pointer()) if button == _LEFT else 0
        for number in range(times):
            if number:
                self._display.sync()
                self._handled()
            self._fake(X.ButtonPress, button, _GAP if number else max(first, 1))
            self._fake(X.ButtonRelease, button, _HOLD)
        if button == _LEFT:
            self._display.sync()
            self._clicked = at or self.pointer(), self._clock()

    def _apart(self, at: Point) -> int:
        """Milliseconds to hold a click back so that with the one before it does not make a double click."""
        if self._clicked is None or self._clicked[0] != at:
            return 0
        return max(0, _DOUBLE_CLICK - int((self._clock() - self._clicked[1]) * 1000))

    def _drag(self, start: Point | None, end: Point, button: int = _LEFT) -> None:
        if start is not None:
            self._move(start)
        x, y = start or self.pointer()
        self._fake(X.ButtonPress, button, max(self._apart((x, y)), _HOLD))
        for step in range(1, _DRAG_STEPS + 1):
            at = x + (end[0] - x) * step // _DRAG_STEPS, y + (end[1] - y) * step // _DRAG_STEPS
            self._move(at, _DRAG_STEP)
        self._fake(X.ButtonRelease, button, _DRAG_END)
        self._clicked = None

    def _scroll(self, at: Point | None, pixels: int, positive: int = _UP, negative: int = _DOWN) -> None:
        if at is not None:
            self._move(at)
        button = positive if pixels > 0 else negative
        notches = min(max(1, round(abs(pixels) / _SCROLL_PIXELS)), _MAX_NOTCHES) if pixels else 0
        for _ in range(notches):
            self._fake(X.ButtonPress, button, _KEY_GAP)
            self._fake(X.ButtonRelease, button, _KEY_HOLD)

    def _chord(self, names: list[str]) -> None:
        keysyms = [keysym_of_key(name) for name in names]
        self._keyboard.provide(keysyms)
        keys = [self._keyboard.key(keysym) for keysym in keysyms]
        codes = [code for code, _ in keys]
        shift = self._shift()
        if any(shifted for _, shifted in keys) and shift not in codes:
            codes = [shift, *codes]
        for code in codes:
            self._fake(X.KeyPress, code, _HOLD)
        for code in reversed(codes):
            self._fake(X.KeyRelease, code, _HOLD)

    def _shift(self) -> int:
        return self._keyboard.key(keysym_of_key("shift"))[0]

    def _type(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        keysyms = [keysym_of_character(character) for character in text]  # all before the first is pressed
        for part in self._parts(keysyms):
            self._keyboard.provide(part)
            for keysym in part:
                self._tap(*self._keyboard.key(keysym))
            self._display.sync()

    def _parts(self, keysyms: list[int]) -> list[list[int]]:
        """Runs that have no more different characters than there are spare keys."""
        parts: list[list[int]] = []
        seen: set[int] = set()
        for keysym in keysyms:
            if not parts or (keysym not in seen and len(seen) == self._keyboard.spares):
                parts.append([])
                seen = set()
            seen |= {keysym} if not self._keyboard.has_own(keysym) else set()
            parts[-1].append(keysym)
        return parts

    def _tap(self, keycode: int, shifted: bool) -> None:
        if shifted:
            self._fake(X.KeyPress, self._shift(), _KEY_GAP)
        self._fake(X.KeyPress, keycode, _KEY_GAP)
        self._fake(X.KeyRelease, keycode, _KEY_HOLD)
        if shifted:
            self._fake(X.KeyRelease, self._shift(), _KEY_GAP)


def _button(action: Action) -> int:
    """Raises ValueError for a name that is no button."""
    name = str(action.get("button", "left"))
    if name not in _BUTTONS:
        raise ValueError(f"there is no button {name!r}")
    return _BUTTONS[name]
