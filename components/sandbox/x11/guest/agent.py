"""The agent: one process for the life of a sandbox, and the only thing in it that the host talks to.

It answers one request at a time on a socket inherited from the host. That socket has no name, and the kernel lets
nobody of the same user look into this process (PR_SET_DUMPABLE), so what runs in the sandbox cannot reach it; it can
kill the agent, which the host sees at once. When the host's end closes, the agent ends, and with it the sandbox.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from components.sandbox.x11.guest import commands, eye, files, wire
from components.sandbox.x11.guest.cells import Cells
from components.sandbox.x11.guest.identity import TRUSTED, two_users, users_rights
from components.sandbox.x11.guest.processes import freeze_all, kill_all, thaw
from components.sandbox.x11.guest.stack import DISPLAY, Stack, StartError
from components.sandbox.x11.guest.terminal import Terminal

_PR_SET_DUMPABLE = 4
_MANAGER_SECONDS = 20.0
_IDLE_QUIET, _IDLE_LIMIT = 0.1, 5.0
"""Seconds: when applications count as done with the keys they got, before a key changes its meaning."""
_HANDLED_LIMIT = 0.3
"""Seconds between the clicks of a double click at most: well below the time that makes it two single ones."""

Answer = tuple[Any, bytes]


class Agent:
    """The calls, each a method named `do_*`: (arguments, blob) -> (answer, blob)."""

    def __init__(self, settings: dict[str, Any], env: dict[str, str]) -> None:
        """Starts the desktop up to the window manager. Raises `StartError`."""
        start = time.monotonic()
        home = env["HOME"]
        width, height = settings["size"]
        self._home = home
        self._stack = Stack((width, height), env, home)
        self._stack.begin()
        # The libraries load while the server starts.
        from Xlib.display import Display

        from components.sandbox.x11.guest.grab import Grabber
        from components.sandbox.x11.guest.inputs import Inputs
        from components.sandbox.x11.guest.settle import Settling
        from components.sandbox.x11.guest.windows import Windows

        self._stack.wait_for_server()
        self._stack.start_manager()
        self._display = Display(DISPLAY)
        self._display.xfixes_query_version()
        self._windows = Windows(DISPLAY)
        self._settling = Settling(DISPLAY, (self._stack.pid("Xvfb"),))
        self._grabber = Grabber(DISPLAY)
        self._inputs = Inputs(self._display, (width, height), self._idle, self._handled, time.monotonic)
        # Commands lie where the user cannot put a link in their place.
        private = TRUSTED if two_users() else env["XDG_RUNTIME_DIR"]
        self._terminal = Terminal(home, private, self._stack.env, int(settings["output_chars"]))
        self._cells = Cells(home, self._stack.env, int(settings["output_chars"]))
        self._frozen: list[int] = []
        self._passing: list[socket.socket] = []
        if not self._windows.wait(self._windows.manager_is_up, _MANAGER_SECONDS):
            raise StartError(f"the window manager was not up in {_MANAGER_SECONDS:g} s")
        self._stack.start_desktop()
        self._seconds = time.monotonic() - start

    def _idle(self) -> None:
        self._settling.wait(_IDLE_QUIET, _IDLE_LIMIT)

    def _handled(self) -> None:
        self._settling.wait_until_handled(_HANDLED_LIMIT)

    def answer(self, call: str, args: dict[str, Any], blob: bytes) -> Answer:
        self._stack.children.reap()
        method: Callable[[dict[str, Any], bytes], Answer] | None = getattr(self, f"do_{call}", None)
        if method is None:
            raise ValueError(f"there is no call {call!r}")
        return method(args, blob)

    # -- the desktop ---------------------------------------------------------------------------------------------

    def do_hello(self, args: dict[str, Any], blob: bytes) -> Answer:
        """seconds the start took; parts of the desktop that have ended; applications that can be started."""
        known = {name: shutil.which(name, path=self._stack.env["PATH"]) is not None for name in args.get("apps", ())}
        return {"seconds": round(self._seconds, 3), "gone": self._stack.gone(), "apps": known}, b""

    def do_act(self, args: dict[str, Any], blob: bytes) -> Answer:
        """Carries out `actions` in order, then settles (see `do_settle`). Afterwards no key or button is down."""
        self._settling.begin()
        try:
            for action in args["actions"]:
                self._inputs.act(action)
        except BaseException:
            self._inputs.release_all()
            raise
        return self._settling.wait(float(args["quiet"]), float(args["limit"])), b""

    def do_settle(self, args: dict[str, Any], blob: bytes) -> Answer:
        """Until nothing was painted and nobody at work for `quiet` seconds, at most `limit` seconds.

        With `change`: first until something is painted at all, within the same limit.
        """
        limit = float(args["limit"])
        self._settling.begin()
        start = time.monotonic()
        if args.get("change"):
            self._settling.wait_for_change(limit)
        # With no time left this is one look.
        return self._settling.wait(float(args["quiet"]), max(0.0, limit - (time.monotonic() - start))), b""

    def do_shot(self, args: dict[str, Any], blob: bytes) -> Answer:
        """A PNG as blob. `pointer`: draw the pointer."""
        from components.sandbox.x11.guest.grab import draw_pointer, png

        image = self._grabber.rgb()
        if args.get("pointer", True):
            image = draw_pointer(image, self._display, self._display.screen().root)
        # One colour all over is a screen that was never painted.
        low_high: Any = image.getextrema()
        return {"pointer": self._inputs.pointer(), "uniform": all(low == high for low, high in low_high)}, png(image)

    def do_windows(self, args: dict[str, Any], blob: bytes) -> Answer:
        return self._windows.listing(), b""

    def do_await_window(self, args: dict[str, Any], blob: bytes) -> Answer:
        """Until there is a window of kind `kind` (default: any) whose title or application holds `text`."""
        kind, text = args.get("kind", ""), str(args.get("text", "")).lower()
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = [
                w for w in self._windows.listing()
                if (not kind or w["kind"] == kind) and (text in w["title"].lower() or text in w["app"].lower())
            ]  # fmt: skip
            return bool(found)

        self._windows.wait(there, float(args["limit"]))
        return found, b""

    def do_window(self, args: dict[str, Any], blob: bytes) -> Answer:
        """Asks the window manager to `activate` or `close` the window `id`."""
        self._windows.ask(int(args["id"]), str(args["what"]))
        return {}, b""

    # -- the network of the sandbox ------------------------------------------------------------------------------

    def do_listen(self, args: dict[str, Any], blob: bytes) -> Answer:
        """A socket that listens on `port` of the sandbox's own loopback goes to the host, with the answer.

        A socket belongs to the network it was made in: the host answers on it from outside, no process in here
        forwards, and nothing that runs in here can take it away.
        """
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", int(args["port"])))
            listener.listen(64)
        except BaseException:
            listener.close()
            raise
        self._passing.append(listener)
        return {"port": listener.getsockname()[1]}, b""

    def reply(self, sock: socket.socket, answer: dict[str, Any], blob: bytes) -> None:
        """Sends an answer with the sockets that belong to it, and closes our copies of them."""
        passing, self._passing = self._passing, []
        try:
            wire.send(sock, answer, blob, [one.fileno() for one in passing])
        finally:
            for one in passing:
                one.close()

    # -- programs ------------------------------------------------------------------------------------------------

    def do_launch(self, args: dict[str, Any], blob: bytes) -> Answer:
        """Starts `argv` as an application, in `cwd` (default: home). Does not wait for its window."""
        process = self._stack.children.start(
            [str(word) for word in args["argv"]], self._stack.env, user=True, cwd=args.get("cwd") or self._home
        )
        return {"pid": process.pid}, b""

    def do_run(self, args: dict[str, Any], blob: bytes) -> Answer:
        """Runs `argv` to its end in a process of its own: see `commands.run`."""
        where = os.path.join(self._home, str(args.get("cwd") or ""))
        words = [str(word) for word in args["argv"]]
        return commands.run(words, self._stack.env, where, float(args["timeout"]), int(args["limit"]))

    def do_bash(self, args: dict[str, Any], blob: bytes) -> Answer:
        if args.get("restart"):
            self._terminal.restart()
        if not args.get("command"):
            return {"output": "", "exit_code": 0, "timed_out": False, "truncated": False, "directory": ""}, b""
        return self._terminal.run(str(args["command"]), float(args["timeout"])), b""

    def do_python(self, args: dict[str, Any], blob: bytes) -> Answer:
        """Runs a cell of code in the one Python of the episode."""
        if args.get("restart"):
            self._cells.stop()
        return self._cells.run(str(args.get("code", "")), float(args["timeout"])), b""

    def do_kill_apps(self, args: dict[str, Any], blob: bytes) -> Answer:
        """Ends all but the desktop itself, the shell and Python; what those started ends too.

        The desktop itself is the file manager, whose folders and questions are windows of its one process: these are
        closed, as a person would.
        """
        killed = kill_all({*self._stack.pids, self._terminal.pid, self._cells.pid})
        self._stack.children.reap()
        for window in self._windows.listing():
            if window["kind"] not in ("desktop", "dock"):
                self._windows.ask(window["id"], "close")
        return {"killed": killed}, b""

    def do_freeze(self, args: dict[str, Any], blob: bytes) -> Answer:
        """Nothing but the X server and the agent moves any more, so that what is graded holds still."""
        self._frozen = freeze_all({self._stack.pid("Xvfb")})
        return {"frozen": len(self._frozen)}, b""

    def do_thaw(self, args: dict[str, Any], blob: bytes) -> Answer:
        thaw(self._frozen)
        self._frozen = []
        return {}, b""

    # -- files ---------------------------------------------------------------------------------------------------

    def do_put(self, args: dict[str, Any], blob: bytes) -> Answer:
        with users_rights():
            files.put(self._path(args), blob, int(args.get("mode", 0o644)))
        return {}, b""

    def do_get(self, args: dict[str, Any], blob: bytes) -> Answer:
        with users_rights():
            return {}, files.get(self._path(args), int(args["limit"]))

    def do_list(self, args: dict[str, Any], blob: bytes) -> Answer:
        with users_rights():
            return files.listing(self._path(args)), b""

    def _path(self, args: dict[str, Any]) -> str:
        """Relative paths start at home."""
        return os.path.join(self._home, str(args["path"]))


def main(argv: list[str]) -> int:
    """`agent FD [FD]`: talks on the first descriptor until the host closes it; shows the screen on the second."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    sock = socket.socket(fileno=int(argv[1]))
    os.set_inheritable(sock.fileno(), False)
    watched = socket.socket(fileno=int(argv[2])) if len(argv) > 2 else None
    if watched is not None:
        os.set_inheritable(watched.fileno(), False)
    with suppress(wire.Closed):
        settings, _ = wire.receive(sock)
        os.chdir("/")
        try:
            agent = Agent(settings, dict(os.environ))
        except Exception as error:
            wire.send(sock, {"error": {"kind": "start", "message": f"{type(error).__name__}: {error}"}})
            return 1
        wire.send(sock, {"result": {}})
        if watched is not None:
            threading.Thread(target=eye.serve, args=(watched, DISPLAY), name="eye", daemon=True).start()
        while True:
            request, blob = wire.receive(sock)
            answer, data = _answer(agent, request, blob)
            try:
                agent.reply(sock, answer, data)
            except ValueError as error:  # more than a message holds: refused, as the call would have been
                refusal = {"kind": "agent", "message": str(error)}
                wire.send(sock, {"id": answer.get("id"), "error": refusal})
    return 0


def _answer(agent: Agent, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
    """What goes back; an error of a call is an answer, the agent lives on."""
    number = request.get("id")
    try:
        result, data = agent.answer(str(request.get("call")), request.get("args") or {}, blob)
    except FileNotFoundError as error:
        return {"id": number, "error": {"kind": "missing", "message": str(error)}}, b""
    except OSError as error:
        return {"id": number, "error": {"kind": "os", "message": str(error)}}, b""
    except (ValueError, KeyError, TypeError) as error:
        return {"id": number, "error": {"kind": "argument", "message": f"{type(error).__name__}: {error}"}}, b""
    except Exception as error:
        return {"id": number, "error": {"kind": "agent", "message": f"{type(error).__name__}: {error}"}}, b""
    return {"id": number, "result": result}, data


if __name__ == "__main__":
    sys.exit(main(sys.argv))
