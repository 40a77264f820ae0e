"""Open case C29 of group 3: what a broken line between client and slot does, and what it must never do.

A real slot host, a real desktop, and a proxy between that cuts, holds and refuses. Adapters translate names only.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.calls import BashCall, ComputerUse, DesktopCall
from components.contracts.errors import SandboxError
from components.contracts.task import CheckResult, Task, Verdict
from components.sandbox.pool.backends import options_of
from components.sandbox.pool.client import PooledDesktop
from components.sandbox.pool.host import SlotHost
from components.sandbox.pool.models import Deadlines
from components.sandbox.pool.serve import build_host, local_backend
from tests.unit.pool.kit import TOKEN, make_task, serving, wait_for
from tests.unit.pool.proxy import Proxy

ROWS = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "g3_desktop_eval.jsonl").read_text().splitlines()
]


def prepare(task: Task, root: Path) -> None:
    """A form whose button adds a record at each click, a text in an editor, a log."""
    form = {"name": "log", "fields": [{"label": "yes", "kind": "check"}], "records": []}
    (root / "state" / "forms.json").write_text(json.dumps(form))
    (root / "state" / "desk.json").write_text(json.dumps({"open": [task.spec["open"]]}))
    (root / "home" / "text.txt").write_text("")
    (root / "home" / "log.txt").write_text("first\n")


def grade(task: Task, root: Path) -> Verdict:
    """What is there now, as the host sees it."""
    found = {
        "clicks_on_screen": len(json.loads((root / "state" / "forms.json").read_text())["records"]),
        "field_text": (root / "home" / "text.txt").read_text().removesuffix("\n"),
        "lines_added": len((root / "home" / "log.txt").read_text().splitlines()) - 1,
    }
    return Verdict(success=True, results=(CheckResult(check="found", passed=True, reason=json.dumps(found)),))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> SlotHost:
    backends = {"minidesk": local_backend("minidesk", options_of(prepare=prepare, grade=grade))}
    return build_host(tmp_path_factory.mktemp("c29") / "state", "case-host", backends, tick=0.05)


@pytest.fixture(scope="module")
def url(host: SlotHost) -> Iterator[str]:
    with serving(host) as address:
        yield address


def call_of(send: str, desktop: PooledDesktop) -> DesktopCall | None:
    if send == "click":
        button = next(e for e in desktop.observe().elements if e.label == "send")
        return ComputerUse(action="left_click", coordinate=button.center)
    if send.startswith("type "):
        return ComputerUse(action="type", text=send.removeprefix("type "))
    return BashCall(command="echo line >> log.txt") if send.startswith("terminal") else None


def stage(fault: str, what: str, proxy: Proxy, host: SlotHost) -> None:
    if "refused" in fault:
        proxy.down()
        threading.Timer(0.4, proxy.up).start()
    elif "connection lost" in fault:
        proxy.cut(what)
    elif "timed out" in fault:
        proxy.hold(what)
    elif fault == "sandbox gone":
        for row in host.table.slots():
            os.kill(row.handle["process"][0], signal.SIGKILL)
    else:
        raise AssertionError(fault)


@pytest.mark.parametrize("row", [r for r in ROWS if r["case"] == "C29"], ids=lambda r: r["case"] + r["row"])
def test_case(row: dict[str, Any], host: SlotHost, url: str) -> None:
    send, fault, expect = row["given"]["send"], row["given"]["fault"], row["expect"]
    terms: dict[str, Any] = {"deadlines": Deadlines(act=3.0), "slack": 0.5, "patience": 10.0}
    with Proxy(url) as proxy, PooledDesktop(proxy.url, TOKEN, "minidesk", **terms) as desktop:
        desktop.reset(make_task(row["row"], open="notes:text.txt" if send.startswith("type") else "forms"))
        call = call_of(send, desktop)
        if call is not None:
            desktop.act(ComputerUse(action="mouse_move", coordinate=(1, 1)))  # the line has carried something
        if "refused" in fault:
            desktop._http = PooledDesktop(proxy.url, TOKEN, "minidesk")._http  # no connection is open any more
        got: dict[str, Any] = {}
        stage(fault, "observe" if call is None else "/act", proxy, host)
        try:
            if call is None:
                desktop._seen = None
                desktop.observe()
                asked = sum("/observe" in line for line in proxy.seen)
                got["screenshots"] = "retried freely" if asked == 2 else f"asked {asked} times"
            else:
                desktop.act(call)
                got["step_outcome"] = "unknown_or_confirmed"
        except SandboxError as error:
            got["episode"] = "infra_error"  # what the rollout makes of this border's errors
            got["step_outcome"] = "unknown_or_confirmed"
            assert error.border == "sandbox"
            with pytest.raises(SandboxError):
                desktop.observe()  # never an old screenshot
        if "episode" not in got:
            if send.startswith("type"):
                desktop.act(ComputerUse(action="key", keys=("ctrl", "s")))
            got |= json.loads(desktop.grade().results[0].reason)
            sent = sum("/act " in line and line.startswith("POST") for line in proxy.seen)
            assert sent <= 3  # the one before, this one, the save
        assert all(got.get(name) == value for name, value in expect.items()), got


def test_a_request_that_never_arrived_is_sent_again_and_one_whose_fate_nobody_knows_is_lost(
    host: SlotHost, url: str
) -> None:
    """Beyond the rows: the host that cannot be asked. The episode is lost; nothing is guessed, nothing done twice."""
    with Proxy(url) as proxy:
        desktop = PooledDesktop(proxy.url, TOKEN, "minidesk", deadlines=Deadlines(act=1.0), slack=0.3, patience=0.2)
        desktop.reset(make_task("x", open="forms"))
        proxy.cut("/act")
        done = threading.Event()

        def vanish() -> None:
            assert wait_for(lambda: any("/act" in line for line in proxy.seen))
            proxy.down()
            done.set()

        threading.Thread(target=vanish).start()
        with pytest.raises(SandboxError, match="unknown"):
            desktop.act(BashCall(command="sleep 0.4; echo line >> log.txt"))
        assert done.wait(10)
        lease = desktop._terms.lease
        assert lease is not None
        assert wait_for(lambda: '"lines_added": 1' in host.grade(lease.lease, "look-again").results[0].reason)
        proxy.up()
        desktop.close()
