"""The live state of one episode: windows, overlay, pointer, clipboard; and what each of the actions does to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.contracts.calls import ComputerUse
from components.sandbox.minidesk.app import App, Clip, moved_path
from components.sandbox.minidesk.draw import HALF, HEIGHT, ROW, THEMES, WIDTH
from components.sandbox.minidesk.files import Files
from components.sandbox.minidesk.forms import Forms
from components.sandbox.minidesk.keys import Chord, chord
from components.sandbox.minidesk.looks import looks
from components.sandbox.minidesk.notes import Notes
from components.sandbox.minidesk.overlays import Dialog, Menu, Overlay
from components.sandbox.minidesk.prefs import Prefs
from components.sandbox.minidesk.sheet import Sheet
from components.sandbox.minidesk.store import Home, Parts, Refused, read_state, write_state

DESK_FILE = "desk.json"
"""Optional, written by a preparer: `{"open": ["files", "notes:music/a.txt"]}`, the last one on top; it replaces the
open app of the looks."""
CLIP_FILE = "clipboard.json"
ICON_W = 48
SCROLL_PIXELS = 100
TOAST_STEPS = 3
"""Actions after which a toast goes away by itself; `wait` ends it at once."""

KINDS: dict[str, type[App]] = {"files": Files, "sheet": Sheet, "notes": Notes, "prefs": Prefs, "forms": Forms}
OPENERS = {"txt": "notes", "log": "notes", "md": "notes", "csv": "sheet", "xlsx": "sheet"}

Point = tuple[int, int]


class Session:
    """Everything between two resets. Implements `app.Desk` for the applications."""

    def __init__(self, seed: int, home: Path, state_dir: Path) -> None:
        self.seed = seed
        self.looks = looks(seed)
        self.theme = self.looks.theme
        self.home = Home(home)
        self.state_dir = state_dir
        self.windows: list[App] = []
        """Bottom to top."""
        self.overlay: Overlay | None = None
        self.pointer: Point | None = None
        self.icon = ""
        """The selected icon of the dock."""
        self.toast_text = ""
        self._toast_left = 0
        self._clip = self._read_clip()
        wanted = read_state(state_dir / DESK_FILE).get("open")
        for name in wanted if isinstance(wanted, list) else [self.looks.opened]:
            app, _, path = str(name).partition(":")
            if app in KINDS:
                self.open_app(app, tuple(p for p in path.split("/") if p))

    def close(self) -> None:
        self.home.close()

    @property
    def top(self) -> App | None:
        return self.windows[-1] if self.windows else None

    # -- services for applications (app.Desk) --------------------------------------------------------------------

    @property
    def clip(self) -> Clip:
        return self._clip

    @clip.setter
    def clip(self, clip: Clip) -> None:
        self._clip = clip
        value = {"kind": clip.kind, "text": clip.text, "path": list(clip.path)}
        write_state(self.state_dir / CLIP_FILE, value)

    def _read_clip(self) -> Clip:
        stored = read_state(self.state_dir / CLIP_FILE)
        kind, text, path = stored.get("kind"), stored.get("text"), stored.get("path")
        if kind in ("text", None) and isinstance(text, str):
            return Clip("text", text)
        if kind == "file" and isinstance(path, list) and path and all(isinstance(p, str) for p in path):
            return Clip("file", path=tuple(path))
        return Clip()

    def show(self, overlay: Overlay) -> None:
        self.overlay = overlay

    def error(self, message: str) -> None:
        self.overlay = Dialog("error", message)

    def toast(self, text: str) -> None:
        self.toast_text, self._toast_left = text, TOAST_STEPS

    def disk_changed(self) -> None:
        for window in self.windows:
            window.refresh()
            window.dirty = True

    def path_moved(self, old: Parts, new: Parts) -> None:
        for window in self.windows:
            window.moved(old, new)
        if self._clip.kind == "file":
            self.clip = self._clip._replace(path=moved_path(self._clip.path, old, new))

    def use_theme(self, name: str) -> bool:
        found = next((t for t in THEMES if t.name == name), None)
        if found is None or found is self.theme:
            return False
        self.theme = found
        return True

    def open_path(self, path: Parts) -> bool:
        app = OPENERS.get(path[-1].rpartition(".")[2].lower(), "")
        if app not in KINDS:
            self.error(f"no app opens {path[-1]}")
            return True
        return self.open_app(app, path)

    def open_app(self, name: str, path: Parts = ()) -> bool:
        """Opens or raises an application's window, with a document when a path is given; an error shows no window."""
        known = next((w for w in self.windows if w.name == name), None)
        window = known or KINDS[name](self)
        if path:
            try:
                window.open(path)
            except Refused as refusal:
                self.error(f"{path[-1]}: {refusal}")
                return True
            window.dirty = True
        if known is None:
            x, y = self.looks.window
            window.x, window.y = x, min(y, (HEIGHT - window.height) // HALF * HALF)
            self.windows.append(window)
        return self.raise_window(window) or bool(path)

    def raise_window(self, window: App) -> bool:
        before = self.top
        if before is window and window.active:
            return False
        self.windows.remove(window)
        self.windows.append(window)
        for other in self.windows:
            active = other is window
            if other.active != active:
                other.active, other.dirty = active, True
                if not active:
                    other.blur()
        window.dirty = True
        return True

    def close_window(self, window: App) -> bool:
        self.windows.remove(window)
        if self.windows:
            self.raise_window(self.windows[-1])
        return True

    # -- actions ---------------------------------------------------------------------------------------------------

    def computer_use(self, call: ComputerUse) -> bool:
        """Carries out one action (not `terminate`). Returns whether anything but the pointer's place changed."""
        if self._toast_left:
            self._toast_left -= 1
            if not self._toast_left or call.action == "wait":
                self.toast_text, self._toast_left = "", 0
                if call.action == "wait":
                    return True
        action = call.action
        if action == "type":
            return self._type(call.text)
        if action == "key":
            return self._press(chord(call.keys))
        if action == "wait":
            return False
        if action == "left_click_drag":
            return self._drag(call.start, call.coordinate)
        before = self.pointer
        at = self._point(call.coordinate)
        if action == "scroll":
            return self._scroll(at, call.pixels)
        if at is None:
            return False
        if action == "mouse_move":
            if self.overlay is not None:
                self._fresh(self.overlay)
                self.overlay.hover(self.overlay.spot_at(at))
            return at != before
        if action == "left_click":
            return self._click(at)
        if action == "double_click":
            return self._double(at)
        return self._other_button(at, right=action == "right_click")

    def _point(self, coordinate: Point | None) -> Point | None:
        """Moves the pointer, kept on the screen, and returns where it is."""
        if coordinate is not None:
            self.pointer = clamp(coordinate)
        return self.pointer

    def _did(self, window: App, changed: bool) -> bool:
        """A window that changed is painted again."""
        window.dirty |= changed
        return changed

    def _fresh(self, pane: App | Overlay) -> None:
        pane.render(self.theme)

    def _window_at(self, at: Point) -> App | None:
        return next((w for w in reversed(self.windows) if w.contains(at)), None)

    def icon_at(self, at: Point) -> str:
        index = at[1] // ROW
        return self.looks.dock[index] if at[0] < ICON_W and index < len(self.looks.dock) else ""

    def _overlay_done(self, overlay: Overlay, changed: bool) -> bool:
        """Takes a finished overlay away, unless its work put up another one. Its work was on the top window."""
        if overlay.closed:
            if self.overlay is overlay:
                self.overlay = None
            if self.top is not None:
                self.top.dirty = True
        return changed

    def _click(self, at: Point) -> bool:
        if self.overlay is not None:
            self._fresh(self.overlay)
            overlay = self.overlay
            return self._overlay_done(overlay, overlay.press(overlay.spot_at(at)))
        window = self._window_at(at)
        if window is None:
            icon = self.icon_at(at)
            changed, self.icon = icon != self.icon, icon
            return changed
        self._fresh(window)
        spot = window.spot_at(at)
        changed = bool(self.icon) | self.raise_window(window)
        self.icon = ""
        if spot is not None and spot.name == "close":
            return self.close_window(window)
        if spot is not None and spot.name == "title":
            return changed
        return self._did(window, window.click(spot, (at[0] - window.x, at[1] - window.y))) or changed

    def _double(self, at: Point) -> bool:
        if self.overlay is None:
            window = self._window_at(at)
            if window is None and (icon := self.icon_at(at)):
                self.icon = ""
                return icon in KINDS and self.open_app(icon)
            if window is not None:
                self._fresh(window)
                spot = window.spot_at(at)
                if spot is not None:
                    raised = self.raise_window(window)
                    done = window.double(spot)
                    if done is not None:
                        return self._did(window, done) or raised
        first = self._click(at)
        return self._click(at) or first

    def _other_button(self, at: Point, *, right: bool) -> bool:
        if self.overlay is not None:
            if isinstance(self.overlay, Menu):
                self.overlay = None
                return True
            self._fresh(self.overlay)
            spot = self.overlay.spot_at(at)
            return not right and spot is not None and spot.name == "field" and self._paste(self.overlay)
        window = self._window_at(at)
        if window is None:
            icon = self.icon_at(at)
            if not icon or not right:
                return False
            self.icon = icon
            self.show(Menu(("open",), at, lambda _: self._open_icon(icon)))
            return True
        self._fresh(window)
        spot = window.spot_at(at)
        if spot is not None and spot.name in ("title", "close"):
            if right or len(self.windows) < 2 or spot.name == "close":
                return self.raise_window(window)
            self.windows.remove(window)  # the middle button sends a window to the back, as X11 window managers do
            self.windows.insert(0, window)
            return self.raise_window(self.windows[-1])
        raised = self.raise_window(window)
        return self._did(window, window.context(spot, at) if right else window.middle(spot)) or raised

    def _open_icon(self, icon: str) -> None:
        self.icon = ""
        if icon in KINDS:
            self.open_app(icon)

    def _drag(self, start: Point | None, end: Point | None) -> bool:
        begin = clamp(start) if start is not None else self.pointer
        if begin is None or end is None:
            return False
        at = self._point(end)
        assert at is not None
        if self.overlay is not None:
            return False
        window = self._window_at(begin)
        if window is None:
            return False
        self._fresh(window)
        spot = window.spot_at(begin)
        changed = self.raise_window(window)
        if spot is None:
            return changed
        if spot.name == "title":
            x = max(0, min(window.x + snap(at[0] - begin[0], 8), WIDTH - ICON_W))
            y = max(0, min(window.y + snap(at[1] - begin[1], HALF), HEIGHT - ROW))
            moved = (x, y) != (window.x, window.y)
            window.x, window.y = x, y
            return moved or changed
        target = window.spot_at(at) if self._window_at(at) is window else None
        return self._did(window, window.drag(spot, target, (at[0] - window.x, at[1] - window.y))) or changed

    def _scroll(self, at: Point | None, pixels: int) -> bool:
        window = self._window_at(at) if at is not None else self.top
        if self.overlay is not None or window is None or not pixels:
            return False
        rows = max(1, abs(pixels) // SCROLL_PIXELS)
        return self._did(window, window.scroll(rows if pixels > 0 else -rows))

    def _type(self, text: str) -> bool:
        """Typed text goes to the overlay or the top window; a dialog that closes hands on what is left."""
        changed = False
        while text:
            overlay = self.overlay
            if overlay is None:
                top = self.top
                if top is None:
                    return changed
                return self._did(top, top.type(text) or (text == "\n" and top.key("enter"))) or changed
            line, newline, text = text.partition("\n")
            changed |= self._overlay_done(overlay, overlay.type(line + newline))
            if self.overlay is overlay and not newline:
                return changed
        return changed

    def _paste(self, overlay: Overlay) -> bool:
        """Puts the clipboard's text into a dialog's field, as one line."""
        line = self.clip.text.replace("\n", " ")
        return self._overlay_done(overlay, bool(line) and overlay.type(line))

    def _press(self, pressed: Chord) -> bool:
        if pressed.text:
            return self._type(pressed.text)
        key, overlay, top = pressed.key, self.overlay, self.top
        if overlay is not None:
            if pressed.ctrl:
                if key == "v":
                    return self._paste(overlay)
                return self._overlay_done(overlay, key == "a" and overlay.select_all())
            return self._overlay_done(overlay, overlay.key(key))
        if top is None:
            return False
        if (pressed.alt and key == "f4") or (pressed.ctrl and key == "w"):
            return self.close_window(top)
        if pressed.alt:
            return key == "tab" and self.raise_window(self.windows[0])
        if key in ("enter", "tab") and not pressed.ctrl:
            return self._type("\n" if key == "enter" else "\t")
        return self._did(top, top.ctrl(key) if pressed.ctrl else top.key(key))

    # -- summary -----------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        return {
            "theme": self.theme.name,
            "dock": list(self.looks.dock),
            "windows": [{"app": w.name, "title": w.title, "x": w.x, "y": w.y, **w.summary()} for w in self.windows],
            "active": self.top.name if self.top else "",
            "icon": self.icon,
            "overlay": self.overlay.summary() if self.overlay else None,
            "pointer": list(self.pointer) if self.pointer else None,
            "clipboard": {"kind": self.clip.kind, "text": self.clip.text, "path": "/".join(self.clip.path)},
            "toast": self.toast_text,
        }


def clamp(point: Point) -> Point:
    return max(0, min(point[0], WIDTH - 1)), max(0, min(point[1], HEIGHT - 1))


def snap(delta: int, grid: int) -> int:
    """To the nearest multiple of `grid`: windows stay on the text grid."""
    return (delta + grid // 2) // grid * grid
