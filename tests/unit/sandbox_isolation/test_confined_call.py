"""Hostile files and broken functions: the caller always gets an answer or a typed error, and nothing else happens."""

from __future__ import annotations

import io
import os
import socket
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from components.contracts.errors import SandboxError, VerifierError
from components.sandbox import confine
from components.sandbox.confined_call import ConfinedError, run_confined

pytestmark = pytest.mark.skipif(confine.detect().confinement == "none", reason=confine.detect().details)
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _functions(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Makes `tests/unit/sandbox_isolation/calls.py` a module beside `components`, inside only."""
    import components.sandbox.confined_call as module

    real = confine.wrap
    here = Path(__file__).parent / "calls.py"
    folder = tmp_path_factory.mktemp("calls")
    (folder / "calls.py").write_bytes(here.read_bytes())
    folder.chmod(0o755)

    def wrap(*args: Any, extra: Any = (), **named: Any) -> confine.Launch:
        return real(*args, extra=[*extra, (folder, "/opt/guest/tested")], **named)

    monkeypatch.setattr(module.confine, "wrap", wrap)


def call(name: str, payload: dict[str, Any] | None = None, files: dict[str, bytes] | None = None, **named: Any) -> Any:
    return run_confined(f"tested.calls:{name}", payload or {}, files or {}, **named)


def kind_of(name: str, **named: Any) -> str:
    with pytest.raises(ConfinedError) as caught:
        call(name, **named)
    assert isinstance(caught.value, VerifierError)
    return caught.value.kind


@pytest.mark.parametrize("kind", ["bwrap", "userns"])
def test_a_function_gets_its_payload_and_files_and_gives_json_back(kind: confine.Confinement) -> None:
    if confine.trial(kind)[0]:
        pytest.skip(f"{kind} does not work here")
    data = os.urandom(3 * MIB)
    got = call("sizes", {"n": 1, "text": "ü"}, {"a.bin": data, "../../b": b""}, kind=kind)
    assert got == {"sizes": {"a.bin": len(data), "../../b": 0}, "n": 1, "text": "ü"}


def workbook(text: str) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.active["B2"] = text
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_a_real_workbook_is_read() -> None:
    assert call("cell", {"cell": "B2"}, {"book.xlsx": workbook("hello")}) == "hello"


def test_a_workbook_that_unpacks_without_end_is_an_error_of_memory_or_time() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook("x"))) as good, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bomb:
        for name in good.namelist():
            data = good.read(name)
            if name == "xl/worksheets/sheet1.xml":
                row = b'<row r="1"><c r="A1" t="inlineStr"><is><t>' + b"x" * (150 * MIB) + b"</t></is></c></row>"
                data = data.split(b"<sheetData>")[0] + b"<sheetData>" + row + b"</sheetData></worksheet>"
            bomb.writestr(name, data)
    assert len(out.getvalue()) < 2 * MIB
    files = {"book.xlsx": out.getvalue()}
    assert kind_of("cell", payload={"cell": "A1"}, files=files, memory=300 * MIB, timeout=20.0) in ("memory", "time")


def test_damaged_files_are_errors_of_the_function() -> None:
    for data in (b"", b"PK\x03\x04" + b"\0" * 100, workbook("x")[:2000]):
        assert kind_of("cell", payload={"cell": "A1"}, files={"book.xlsx": data}) == "function"


@pytest.mark.parametrize(
    "name, kind",
    [("loop", "time"), ("deaf", "time"), ("swallow", "memory"), ("quit_now", "ended"), ("crash", "ended"),
     ("chatter", "output"), ("stumble", "function"), ("odd", "function"), ("absent", "function")],
)  # fmt: skip
def test_what_goes_wrong_is_said(name: str, kind: str) -> None:
    assert kind_of(name, timeout=1.0 if kind == "time" else 20.0) == kind


def test_nothing_of_the_host_can_be_seen_written_or_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COWORK_SECRET", "x")
    answer = tmp_path / "answer.json"
    answer.write_text("right")
    with socket.create_server(("127.0.0.1", 0)) as server:
        payload = {"host": str(answer), "port": server.getsockname()[1]}
        assert call("reach", payload) == []
    assert answer.read_text() == "right" and os.listdir(tmp_path) == ["answer.json"]


def children() -> set[str]:
    """Processes of ours; other tests of this worker may have left some."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def test_nothing_is_left_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = children()
    tmp_path.chmod(0o755)
    for name in ("sizes", "deaf", "crash"):
        with_error = name != "sizes"
        if with_error:
            kind_of(name, timeout=0.5)
        else:
            call(name)
        assert os.listdir(tmp_path) == []
    assert children() <= before


def test_calls_from_threads_do_not_meet() -> None:
    got: dict[int, Any] = {}

    def work(number: int) -> None:
        got[number] = call("sizes", {"n": number})["n"]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {0: 0, 1: 1, 2: 2}


def test_without_a_confinement_nothing_runs() -> None:
    with pytest.raises(SandboxError, match="no confinement"):
        call("sizes", kind="none")
