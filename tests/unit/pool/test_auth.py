"""Nobody speaks to a slot host without its token, and nobody learns it from the host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from components.contracts.errors import ParamsError
from components.sandbox.pool.auth import check_bind, make_token_file, read_token_file, token_for
from components.sandbox.pool.client import PooledDesktop
from components.sandbox.pool.serve import token_of
from tests.unit.pool.kit import ROOT, TOKEN, environment, http, minidesk_host, serving, start_service

ROUTES = [
    ("GET", "/status"), ("GET", "/metrics"), ("POST", "/leases"), ("DELETE", "/leases/x"), ("POST", "/leases/x/act"),
    ("POST", "/leases/x/heartbeat"), ("POST", "/leases/x/reset"), ("GET", "/leases/x/observe"), ("GET", "/docs"),
    ("GET", "/openapi.json"), ("POST", "/leases/x/grade"), ("GET", "/leases/x/requests/y"), ("GET", "/nowhere"),
]  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(minidesk_host(tmp_path_factory.mktemp("auth") / "state")) as address:
        yield address


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_answers_without_the_token(url: str, method: str, path: str) -> None:
    for headers in (
        {}, {"authorization": TOKEN}, {"authorization": f"Basic {TOKEN}"}, {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"}, {"authorization": "Bearer x"},
    ):  # fmt: skip
        answer = httpx.request(method, url + path, headers=headers, trust_env=False)
        assert answer.status_code == 401 and TOKEN not in answer.text
    assert httpx.get(url + "/healthz", trust_env=False).status_code == 200


def test_a_wrong_token_is_told_as_what_it_is(url: str) -> None:
    desktop = PooledDesktop(url, "another-token-0123456789", "minidesk")
    with pytest.raises(ParamsError, match="token"):
        desktop.open()


def test_malformed_requests_are_refused_with_the_place_and_not_the_content(url: str) -> None:
    with http(url) as client:
        good = {"key": "k" * 10, "slot": {"backend": "minidesk"}}
        for body in ({}, {"key": "k" * 10}, {**good, "secret": "s3cr3t-value"}, {**good, "key": "short"},
                     {**good, "ttl": -1}, {**good, "slot": {"backend": "minidesk", "gpu": 1}}, [], "text"):  # fmt: skip
            answer = client.post("/leases", json=body)
            assert answer.status_code == 422 and answer.json()["failure"]["kind"] == "request", body
            assert "s3cr3t" not in answer.text
        nan = b'{"key": "kkkkkkkkkk", "slot": {"backend": "minidesk"}, "ttl": NaN}'
        assert client.post("/leases", content=nan).status_code == 422
        assert client.post("/leases", content=b"x" * (9 << 20)).status_code == 413
        assert client.post("/leases", content=iter([b"{}"])).status_code == 413  # no length
        for verb in ("act", "reset", "heartbeat", "grade", "prefetch"):
            assert client.post(f"/leases/none/{verb}", json={}).status_code in (410, 422)
        assert client.get("/leases/none/observe").status_code == 410


def test_a_token_file_must_be_ones_own_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = make_token_file(path)
    assert path.stat().st_mode & 0o777 == 0o600 and len(token) > 30 and read_token_file(path) == token
    assert make_token_file(path) == token
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(ParamsError, match="others"):
            read_token_file(path)
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(ParamsError):
        read_token_file(tmp_path / "link")
    path.write_text("short")
    with pytest.raises(ParamsError, match="16"):
        read_token_file(path)
    with pytest.raises(ParamsError):
        token_for(tmp_path / "none")
    assert token_for(None, {}) == "" and token_for(None, {"COWORK_POOL_TOKEN": TOKEN}) == TOKEN


def test_other_machines_only_with_a_token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for local in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        check_bind(local, None)
    for wide in ("0.0.0.0", "::", "192.0.2.1", "example"):
        with pytest.raises(ParamsError, match="token-file"):
            check_bind(wide, None)
        check_bind(wide, tmp_path / "token")
    monkeypatch.setenv("COWORK_POOL_TOKEN", TOKEN)
    with pytest.raises(ParamsError):
        token_of(tmp_path, "0.0.0.0", None)  # a token of the environment is not enough there
    monkeypatch.delenv("COWORK_POOL_TOKEN")
    token, where = token_of(tmp_path, "127.0.0.1", None)
    assert where == tmp_path / "token" and where.read_text().strip() == token


def test_the_command_refuses_an_open_bind_and_never_prints_the_token(tmp_path: Path) -> None:
    code = "import typer; from pipelines.desktop_serve import serve; typer.run(serve)"
    env = environment(COWORK_POOL_TOKEN=TOKEN)
    argv = [sys.executable, "-c", code, "--host", "0.0.0.0", "--port", "0", "--state", str(tmp_path / "s")]
    refused = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "--token-file" in refused.stderr and TOKEN not in refused.stderr
    running = start_service(tmp_path / "state", "--standby", "0")
    with http(running.url) as client:
        client.post("/leases", json={"bad": 1})
    below = [Path(f"/proc/{running.process.pid}/cmdline").read_bytes()]
    assert running.process.stdout is not None and running.stop() == 0
    assert TOKEN not in running.process.stdout.read() and TOKEN.encode() not in b"".join(below)
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and TOKEN.encode() in p.read_bytes()]


def test_an_unusable_address_or_token_is_said_at_once() -> None:
    for url, token in (("http://127.0.0.1:1", "line\nbreak-0123456789"), ("slots.example:80", TOKEN), ("", TOKEN)):
        with pytest.raises(ParamsError) as caught:
            PooledDesktop(url, token, "minidesk", patience=0).open()
        assert "break" not in str(caught.value)
