"""A real Chromium for tests of pages, driven over its own debugging protocol on loopback."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.waiting import wait_until

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 60.0


class Page:
    """One tab. Every method waits for the browser's answer."""

    def __init__(self, address: str) -> None:
        from websockets.sync.client import connect

        self._socket = connect(address, max_size=1 << 26, open_timeout=SECONDS)
        self._numbers = itertools.count(1)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.recv(timeout=SECONDS))
            if told.get("id") == number:
                assert "error" not in told, told
                return dict(told["result"])

    def open(self, address: str, *, dark: bool = False) -> None:
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=media)
        self.call("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def until(self, script: str, seconds: float = SECONDS) -> bool:
        """Whether `script` becomes true. While a page loads it may fail: that is not yet."""
        safe = f"(() => {{ try {{ return Boolean({script}) }} catch {{ return false }} }})()"
        return wait_until(lambda: self.value(safe) is True, seconds)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float, count: int = 1) -> None:
        for number in range(1, count + 1):
            self.mouse("mousePressed", x, y, button="left", clickCount=number)
            self.mouse("mouseReleased", x, y, button="left", clickCount=number)

    def click_on(self, selector: str) -> None:
        box = self.value(f"(b => [b.x + b.width / 2, b.y + b.height / 2])"
                         f"(document.querySelector({selector!r}).getBoundingClientRect())")  # fmt: skip
        self.click(*box)

    def key(self, key: str, **more: Any) -> None:
        text = {"text": key} if len(key) == 1 and not more.get("modifiers") else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def picture(self, name: str) -> None:
        """A screenshot, where COWORK_SCREENSHOTS names a folder for them."""
        folder = os.environ.get("COWORK_SCREENSHOTS")
        if folder:
            data = self.call("Page.captureScreenshot", format="png")["data"]
            Path(folder, f"{name}.png").write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self._socket.close()


@contextmanager
def browser(width: int = 1400, height: int = 820) -> Iterator[Page]:
    """A headless browser with one empty page; nothing of it is left afterwards."""
    import httpx

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                f"--window-size={width},{height}", f"--user-data-dir={profile}", "--remote-debugging-port=0",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            port = Path(profile, "DevToolsActivePort")
            assert wait_until(lambda: port.is_file() and "\n" in port.read_text(), SECONDS), "no browser"
            base = f"http://127.0.0.1:{port.read_text().split()[0]}"
            pages: list[dict[str, Any]] = []

            def there() -> bool:
                pages[:] = [p for p in httpx.get(f"{base}/json", trust_env=False).json() if p["type"] == "page"]
                return bool(pages)

            assert wait_until(there, SECONDS), "no page"
            page = Page(pages[0]["webSocketDebuggerUrl"])
            try:
                page.call("Page.enable")
                yield page
            finally:
                page.close()
        finally:
            os.killpg(process.pid, 9)
            process.wait()
