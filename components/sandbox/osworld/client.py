"""A host that speaks OSWorld's guest API, as a `Guest`. Works with OSWorld's own machines and with slots of ours.

Reading is repeated when a connection fails. Whatever changes something is sent once: when the answer does not come,
nobody knows whether it was done, and doing it twice (a click, a command) would be worse than a lost episode.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx

from components.contracts.errors import SandboxError
from components.sandbox.osworld.guest import EXECUTE_SECONDS, Command, Executed, GuestRefusal

WHERE = "osworld client"
TRIES = 3
"""How often something is read at most."""
_CONNECT = 10.0
_READ, _OPEN, _TRANSFER = 30.0, 120.0, 300.0
_GRACE = 20.0
MAX_FILE = 256 << 20


class HttpGuest:
    """`address`: `http://host:port`. One caller at a time; `close` ends its connections."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._http = httpx.Client(base_url=self._address, trust_env=False, follow_redirects=False)

    def close(self) -> None:
        self._http.close()

    # -- seeing and acting ----------------------------------------------------------------------------------------

    def screenshot(self) -> bytes:
        data = self._read("GET", "/screenshot").content
        if not data.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")):
            raise SandboxError("the screenshot is no picture", where=WHERE, remedy="reset the host")
        return data

    def execute(self, command: Command, *, shell: bool = False, timeout: float = EXECUTE_SECONDS) -> Executed:
        body = {"command": command if isinstance(command, str) else list(command), "shell": shell}
        return _executed(self._act("/execute", body, timeout).json())

    def bash_script(self, script: str, *, timeout: float = 30.0, directory: str = "") -> Executed:
        body = {"script": script, "timeout": timeout, "working_dir": directory or None}
        return _executed(self._act("/run_bash_script", body, timeout).json())

    def run_python(self, code: str) -> Executed:
        answer = self._act("/run_python", {"code": code}, EXECUTE_SECONDS).json()
        code_ = answer.get("return_code", 0 if answer.get("status") == "success" else 1)
        return Executed(str(answer.get("output") or ""), str(answer.get("error") or ""), int(code_))

    def launch(self, command: Command, *, shell: bool = False) -> None:
        self._act("/setup/launch", {"command": command if isinstance(command, str) else list(command), "shell": shell})

    def open_file(self, path: str) -> None:
        self._act("/setup/open_file", {"path": path}, _OPEN)

    def pause(self, seconds: float) -> None:
        if seconds > 0:
            self.execute(["sleep", f"{min(seconds, EXECUTE_SECONDS - 5):g}"])

    # -- files ----------------------------------------------------------------------------------------------------

    def read_file(self, path: str) -> bytes:
        data = self._read("POST", "/file", data={"file_path": path}, seconds=_TRANSFER).content
        if len(data) > MAX_FILE:
            raise GuestRefusal(f"{path} is larger than {MAX_FILE} bytes", where=WHERE)
        return data

    def write_file(self, path: str, data: bytes) -> None:
        name = path.rpartition("/")[2]
        self._send("/setup/upload", _TRANSFER, data={"file_path": path}, files={"file_data": (name, data)})

    def tree(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self._read("POST", "/list_directory", json={"path": path}).json()["directory_tree"]
        return found

    # -- what the desktop is like ---------------------------------------------------------------------------------

    def accessibility(self) -> str:
        return str(self._read("GET", "/accessibility").json()["AT"])

    def terminal(self) -> str | None:
        output = self._read("GET", "/terminal").json().get("output")
        return None if output is None else str(output)

    def screen_size(self) -> dict[str, int]:
        size = self._read("POST", "/screen_size").json()
        return {"width": int(size["width"]), "height": int(size["height"])}

    def window_size(self, app_class: str) -> dict[str, int] | None:
        try:
            size = self._read("POST", "/window_size", data={"app_class_name": app_class}).json()
        except FileNotFoundError:
            return None
        return {"width": int(size["width"]), "height": int(size["height"])} if size else None

    def cursor_position(self) -> tuple[int, int]:
        x, y = self._read("GET", "/cursor_position").json()
        return int(x), int(y)

    def platform(self) -> str:
        return self._read("GET", "/platform").text.strip()

    def desktop_path(self) -> str:
        return str(self._read("POST", "/desktop_path").json()["desktop_path"])

    def wallpaper(self) -> bytes:
        return self._read("POST", "/wallpaper").content

    def change_wallpaper(self, path: str) -> None:
        self._act("/setup/change_wallpaper", {"path": path})

    def activate_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None:
        self._act("/setup/activate_window", {"window_name": name, "strict": strict, "by_class": by_class})

    def close_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None:
        self._act("/setup/close_window", {"window_name": name, "strict": strict, "by_class": by_class})

    def window_exists(self, name: str) -> bool:
        body = {"command": ["true"], "verification": {"window_exists": name}, "max_wait_time": 1, "check_interval": 1}
        try:
            self._act("/setup/execute_with_verification", body)
        except GuestRefusal:
            return False
        return True

    def start_recording(self) -> None:
        self._act("/start_recording", {})

    def end_recording(self) -> bytes:
        return self._send("/end_recording", _TRANSFER).content

    def reset(self) -> None:
        """A fresh desktop: only slots of ours offer that; OSWorld's machines are reset by their provider."""
        self._act("/slot/reset", {}, _OPEN)

    # -- requests -------------------------------------------------------------------------------------------------

    def _read(self, method: str, path: str, *, seconds: float = _READ, **content: Any) -> httpx.Response:
        """Asked again when the connection or the host fails. Raises as `Guest` says."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._checked(path, self._request(method, path, seconds, content))
            except (httpx.HTTPError, SandboxError) as error:
                if attempt == TRIES:
                    if isinstance(error, SandboxError):
                        raise
                    raise SandboxError(f"{path} could not be read in {TRIES} tries: {_name(error)}", where=WHERE,
                                       remedy="is the host up?") from error  # fmt: skip
        raise AssertionError("not reached")

    def _act(self, path: str, body: dict[str, Any], seconds: float = _READ) -> httpx.Response:
        return self._send(path, seconds, json=body)

    def _send(self, path: str, seconds: float, **content: Any) -> httpx.Response:
        """Sent once, whatever happens."""
        try:
            response = self._request("POST", path, seconds + _GRACE, content)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise SandboxError(f"{path} was not sent: {_name(error)}", where=WHERE, remedy="is the host up?") from error
        except httpx.HTTPError as error:
            raise SandboxError(f"{path} was sent and not answered ({_name(error)}): it may have been done", where=WHERE,
                               remedy="the episode is lost; reset the host") from error  # fmt: skip
        return self._checked(path, response)

    def _request(self, method: str, path: str, seconds: float, content: dict[str, Any]) -> httpx.Response:
        timeout = httpx.Timeout(seconds, connect=_CONNECT)
        headers = {"x-request-id": uuid.uuid4().hex} if method == "POST" else {}
        return self._http.request(method, path, timeout=timeout, headers=headers, **content)

    def _checked(self, path: str, response: httpx.Response) -> httpx.Response:
        if response.status_code == 200:
            return response
        message = _message(response)
        if response.status_code == 404:
            raise FileNotFoundError(message)
        if 400 <= response.status_code < 500:
            raise GuestRefusal(f"{path}: {message}", where=WHERE)
        raise SandboxError(f"{path}: {response.status_code} {message}", where=WHERE, remedy="reset the host")


def _executed(answer: dict[str, Any]) -> Executed:
    output, error = str(answer.get("output") or ""), str(answer.get("error") or "")
    return Executed(output, error, int(answer.get("returncode", -1)))


def _message(response: httpx.Response) -> str:
    try:
        body = json.loads(response.text)
    except ValueError:
        return response.text[:300]
    return str(body.get("message", body) if isinstance(body, dict) else body)[:500]


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
