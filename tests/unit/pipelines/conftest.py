"""Real storage servers on loopback, each started once for the tests that want it."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SECRET = "canary-" + secrets.token_hex(12)
"""The storage credential of these tests: nothing of ours may ever write it down."""


@dataclass(frozen=True)
class Server:
    """A storage service: its address for the command line and what its client needs in the environment."""

    kind: str
    url: str
    endpoint: str
    environment: dict[str, str]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Server]:
    """moto's S3 server with one bucket."""
    pytest.importorskip("moto", reason="moto is not installed (extra: dev)")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    environment = {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="tester", aws_secret_access_key=SECRET
    )
    client.create_bucket(Bucket="cowork-tests")
    yield Server("s3", "s3://cowork-tests", endpoint, environment)
    server.stop()


def azurite_command() -> str | None:
    """Azurite as `.ci/azurite` installs it, or as AZURITE or the path name it."""
    root = Path(__file__).resolve().parents[3]
    installed = root / ".venv" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    return os.environ.get("AZURITE") or (str(installed) if installed.is_file() else shutil.which("azurite-blob"))


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Azurite's Blob service with an account of our own and one container."""
    command = azurite_command()
    if command is None:
        pytest.skip("Azurite is not installed (.ci/azurite does it)")
    from azure.storage.blob import BlobServiceClient

    key = base64.b64encode(SECRET.encode()).decode()
    process = subprocess.Popen(
        [command, "--skipApiVersionCheck", "--disableTelemetry", "--blobHost", "127.0.0.1", "--blobPort", "0",
         "--location", str(tmp_path_factory.mktemp("azurite"))],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "AZURITE_ACCOUNTS": f"tester:{key}"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = next(line.split()[-1] for line in process.stdout if "successfully listens" in line)
        text = f"DefaultEndpointsProtocol=http;AccountName=tester;AccountKey={key};BlobEndpoint={address}/tester;"
        BlobServiceClient.from_connection_string(text).create_container("tests")
        yield Server("azure", "azure://tests", "", {"AZURE_STORAGE_CONNECTION_STRING": text})
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def folder_server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return Server("folder", str(tmp_path_factory.mktemp("remote")), "", {})


@pytest.fixture(params=["folder", "s3", "azure"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    """Each kind in turn, at a place of its own, with its credentials in this process's environment."""
    found: Server = request.getfixturevalue(f"{request.param}_server")
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return Server(found.kind, f"{found.url}/{secrets.token_hex(4)}", found.endpoint, found.environment)


def secret_found(*roots: Path) -> list[str]:
    """Files below these folders in which the secret stands, plain or as the account key."""
    forms = [SECRET.encode(), base64.b64encode(SECRET.encode())]
    return [
        str(path)
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in forms)
    ]


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]
