"""The guest's Chromium: its open pages by the debugging port inside the guest, and the files of its profile."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from components.contracts.errors import TaskError
from components.sandbox.osworld.guest import HOME, Guest

PROFILES = (f"{HOME}/.config/chromium", f"{HOME}/.config/google-chrome")
_PORTS = (9222, 1337)
"""Where OSWorld's tasks let the browser listen, inside the guest."""
_EPOCH = 11_644_473_600
"""Seconds from Chromium's beginning of time (1601) to 1970."""
_DEVTOOLS = """
import json, sys, time, urllib.error, urllib.parse, urllib.request
what, ports, seconds, arguments = json.loads(sys.argv[1])
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def ask(port, path, method="GET"):
    request = urllib.request.Request("http://127.0.0.1:%d%s" % (port, path), method=method)
    return opener.open(request, timeout=5).read()
deadline, port = time.monotonic() + seconds, None
while port is None:
    for candidate in ports:
        try:
            ask(candidate, "/json/version")
        except OSError:
            continue
        port = candidate
        break
    if port is None and time.monotonic() > deadline:
        sys.exit("no browser listens on %s" % ports)
    time.sleep(0.1)
def pages():
    return [page for page in json.loads(ask(port, "/json/list")) if page.get("type") == "page"]
before = pages()
if what == "open":
    for url in arguments:
        ask(port, "/json/new?" + urllib.parse.quote(url, safe=":/?&=%#,;@+"), "PUT")
    for page in before[:1]:
        ask(port, "/json/close/" + page["id"])
elif what == "close":
    for page in before:
        if page["id"] in arguments:
            ask(port, "/json/close/" + page["id"])
print(json.dumps([{"id": p["id"], "url": p["url"], "title": p.get("title", "")} for p in pages()]))
"""
_HISTORY = """
import json, os, sqlite3, sys, time
path, rows, epoch = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
os.makedirs(os.path.dirname(path), exist_ok=True)
base = sqlite3.connect(path)
base.execute("CREATE TABLE IF NOT EXISTS urls (id INTEGER PRIMARY KEY AUTOINCREMENT, url LONGVARCHAR,"
    " title LONGVARCHAR,"
    " visit_count INTEGER DEFAULT 0 NOT NULL, typed_count INTEGER DEFAULT 0 NOT NULL, last_visit_time INTEGER NOT NULL,"
    " hidden INTEGER DEFAULT 0 NOT NULL)")
base.execute("CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY AUTOINCREMENT, url INTEGER NOT NULL,"
    " visit_time INTEGER NOT NULL, from_visit INTEGER, transition INTEGER DEFAULT 0 NOT NULL, segment_id INTEGER,"
    " visit_duration INTEGER DEFAULT 0 NOT NULL)")
for url, title, ago in rows:
    when = int((time.time() - ago + epoch) * 1000000)
    entry = base.execute("INSERT INTO urls (url, title, visit_count, typed_count, last_visit_time, hidden)"
        " VALUES (?, ?, 1, 0, ?, 0)", (url, title, when)).lastrowid
    base.execute("INSERT INTO visits (url, visit_time, from_visit, transition, segment_id, visit_duration)"
        " VALUES (?, ?, 0, 805306368, 0, 0)", (entry, when))
base.commit()
"""
_TABLE = """
import json, os, shutil, sqlite3, sys, tempfile
path, query = sys.argv[1:]
if not os.path.exists(path):
    print("[]"); sys.exit()
with tempfile.TemporaryDirectory() as folder:
    copy = os.path.join(folder, "copy")
    shutil.copy(path, copy)
    base = sqlite3.connect(copy)
    base.text_factory = lambda data: data.decode("utf-8", "replace")
    rows = [[c if not isinstance(c, bytes) else c.hex() for c in row] for row in base.execute(query)]
print(json.dumps(rows))
"""


def tabs(guest: Guest, seconds: float = 5.0) -> list[dict[str, str]]:
    """Open pages, the one used last first: {id, url, title}. Raises `TaskError` when no browser listens."""
    return _devtools(guest, "list", [], seconds)


def open_tabs(guest: Guest, urls: Sequence[str]) -> None:
    """Opens pages and closes the one that the browser started with."""
    _devtools(guest, "open", list(urls), 30.0)


def close_tabs(guest: Guest, urls: Sequence[str]) -> None:
    found = tabs(guest, 30.0)
    doomed = [next((tab["id"] for tab in found if same_address(tab["url"], url)), "") for url in urls]
    _devtools(guest, "close", [number for number in doomed if number], 30.0)


def add_history(guest: Guest, entries: Sequence[dict[str, Any]]) -> None:
    """Past visits, {url, title, visit_time_from_now_in_seconds}. To be done before the browser starts."""
    rows = [[e["url"], e.get("title", ""), float(e.get("visit_time_from_now_in_seconds", 0))] for e in entries]
    _python(guest, _HISTORY, f"{PROFILES[0]}/Default/History", json.dumps(rows), str(_EPOCH))


def table(guest: Guest, name: str, query: str) -> list[list[Any]]:
    """Rows of one of the profile's databases (`History`, `Cookies`); none when there is no such file."""
    rows: list[list[Any]] = []
    for profile in PROFILES:
        rows += json.loads(_python(guest, _TABLE, f"{profile}/Default/{name}", query))
    return rows


def preferences(guest: Guest, name: str = "Default/Preferences") -> dict[str, Any]:
    """A JSON file of the profile; {} when the browser has not written it."""
    for profile in PROFILES:
        try:
            data = json.loads(guest.read_file(f"{profile}/{name}"))
        except FileNotFoundError:
            continue
        if isinstance(data, dict):
            return data
    return {}


def same_address(left: str, right: str) -> bool:
    """Whether two addresses lead to one page: scheme, `www.` and a last slash do not matter."""
    return _plain(left) == _plain(right)


def _plain(address: str) -> tuple[str, str, str]:
    if not re.match(r"[a-zA-Z][\w+.-]*:", address):
        address = f"http://{address}"
    parts = urlsplit(address)
    host = parts.netloc.lower().removeprefix("www.")
    return host, parts.path.rstrip("/"), parts.query


def _devtools(guest: Guest, what: str, arguments: list[str], seconds: float) -> list[dict[str, str]]:
    request = json.dumps([what, list(_PORTS), seconds, arguments])
    found: list[dict[str, str]] = json.loads(_python(guest, _DEVTOOLS, request))
    return found


def _python(guest: Guest, code: str, *arguments: str) -> str:
    done = guest.execute(["/usr/bin/python3", "-I", "-c", code, *arguments])
    if done.returncode:
        raise TaskError(f"the browser's data cannot be had: {done.error.strip()[-300:]}", where="browser",
                        remedy="was it started with --remote-debugging-port?")  # fmt: skip
    return done.output
