"""Which key gives which character; characters that are on no key get a spare one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from Xlib import XK
from Xlib.display import Display

_SHIFT_LEVELS = 2
_UNICODE = 0x01000000
"""A keysym for any character: this plus its code point (X11 protocol, appendix A)."""

_MULTIMEDIA = 0x1008FF
"""First bytes of the keysyms of volume, mail and such keys: no name of ours is one of them, so they are spare too."""

_NAMES = {
    "ctrl": "Control_L", "alt": "Alt_L", "shift": "Shift_L", "super": "Super_L", "enter": "Return", "tab": "Tab",
    "space": "space", "backspace": "BackSpace", "delete": "Delete", "insert": "Insert", "esc": "Escape",
    "home": "Home", "end": "End", "pageup": "Prior", "pagedown": "Next", "left": "Left", "right": "Right", "up": "Up",
    "down": "Down", "capslock": "Caps_Lock", "numlock": "Num_Lock", "scrolllock": "Scroll_Lock",
    "printscreen": "Print", "pause": "Pause", "menu": "Menu", **{f"f{n}": f"F{n}" for n in range(1, 25)},
}  # fmt: skip
"""The product's names of keys -> X's. A single character stands for itself."""


def keysym_of_character(character: str) -> int:
    """Newline is Return and tab is Tab; raises ValueError for other control characters."""
    if character in "\n\t":
        return int(XK.string_to_keysym("Return" if character == "\n" else "Tab"))
    code = ord(character)
    if code < 0x20 or 0x7F <= code < 0xA0:
        raise ValueError(f"U+{code:04X} cannot be typed")
    return code if code <= 0xFF else _UNICODE | code


def keysym_of_key(name: str) -> int:
    """Raises ValueError for a name that is no key."""
    if len(name) == 1:
        return keysym_of_character(name)
    if name not in _NAMES:
        raise ValueError(f"there is no key {name!r}")
    return int(XK.string_to_keysym(_NAMES[name]))


class Keyboard:
    """The server's keymap as we know it. Nobody else in the sandbox is expected to change it."""

    def __init__(self, display: Display, idle: Callable[[], object]) -> None:
        """`idle` waits until the applications have handled what was sent: a key must keep its meaning till then."""
        self._display = display
        self._idle = idle
        first, last = display.display.info.min_keycode, display.display.info.max_keycode
        rows: list[Any] = display.get_keyboard_mapping(first, last - first + 1)
        self._keys: dict[int, tuple[int, bool]] = {}
        self._spares: list[int] = []
        for keycode, row in enumerate(rows, first):
            if all(keysym == 0 or keysym >> 8 == _MULTIMEDIA for keysym in row):
                self._spares.append(keycode)
                continue
            for level, keysym in enumerate(list(row)[:_SHIFT_LEVELS]):
                if keysym and (keysym not in self._keys or (level == 0 and self._keys[keysym][1])):
                    self._keys[keysym] = keycode, level == 1
        self._fixed = frozenset(self._keys)
        self._lent: dict[int, int] = {}
        """Spare keycode -> keysym, the longest lent first."""

    @property
    def spares(self) -> int:
        return len(self._spares)

    def has_own(self, keysym: int) -> bool:
        """Whether it is on a key of the layout itself."""
        return keysym in self._fixed

    def key(self, keysym: int) -> tuple[int, bool]:
        """(keycode, whether it needs shift), after `provide`."""
        return self._keys[keysym]

    def provide(self, keysyms: Iterable[int]) -> None:
        """Puts all these on keys, at most `spares` that have none of their own. Applications learn of it by an event.

        Raises ValueError when they are more.
        """
        wanted = dict.fromkeys(k for k in keysyms if k not in self._fixed)
        missing = [k for k in wanted if k not in self._keys]
        if not missing:
            return
        if len(wanted) > len(self._spares):
            raise ValueError(f"{len(wanted)} characters at once, and {len(self._spares)} spare keys")
        free = [k for k in self._spares if k not in self._lent]
        free += [keycode for keycode, keysym in self._lent.items() if keysym not in wanted]
        # What was typed before must have been read under the old meaning of the keys.
        self._idle()
        for keycode, keysym in zip(free, missing, strict=False):
            old = self._lent.pop(keycode, None)
            if old is not None:
                del self._keys[old]
            # On all levels: whatever modifier is down, the character is the same.
            self._display.change_keyboard_mapping(keycode, [[keysym] * 4])
            self._keys[keysym], self._lent[keycode] = (keycode, False), keysym
        self._display.sync()
        self._idle()
