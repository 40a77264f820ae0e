"""Where objects lie: a folder, an S3 bucket or an Azure Blob container, behind one small interface.

Keys are relative paths with `/`. A key is written whole or not at all: S3 and Blob replace an object in one step, the
folder by a rename. Credentials come from the environment or the cloud's own chain, never from a file of ours, and what
a client says about a failure is told without them (`redact`).
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from components.contracts.errors import DataError, OrchestrationError, ParamsError

CHUNK = 1 << 20
CONNECT_SECONDS, READ_SECONDS, TRIES = 10, 60, 4
"""A dead server is told within a minute or so, a slow one may take its time between two pieces of an object."""


class NotStored(KeyError):
    """No object of that key."""


class Store(Protocol):
    """`size` is None and `stream` raises NotStored for a key that is not there; other failures are DataErrors."""

    url: str

    def size(self, key: str) -> int | None: ...

    def stream(self, key: str) -> Iterator[bytes]: ...

    def put(self, key: str, source: Path) -> None: ...

    def names(self, prefix: str) -> list[str]: ...


def read_bytes(store: Store, key: str) -> bytes:
    """A small object whole. Raises NotStored."""
    return b"".join(store.stream(key))


class FolderStore:
    """Objects as files below `root`, read-only like those of DVC's cache."""

    def __init__(self, root: Path) -> None:
        self.root, self.url = root, str(root)

    def path(self, key: str) -> Path:
        return self.root / key

    def size(self, key: str) -> int | None:
        try:
            return self.path(key).stat().st_size
        except FileNotFoundError:
            return None

    def stream(self, key: str) -> Iterator[bytes]:
        try:
            handle = self.path(key).open("rb")
        except (FileNotFoundError, IsADirectoryError):
            raise NotStored(key) from None
        with handle:
            while piece := handle.read(CHUNK):
                yield piece

    def put(self, key: str, source: Path) -> None:
        target = self.path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            shutil.copyfile(source, draft)
            draft.chmod(0o444)
            os.replace(draft, target)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            raise DataError(
                f"cannot be written: {error.strerror}", where=str(target), remedy="see the folder"
            ) from None

    def names(self, prefix: str) -> list[str]:
        start = self.root / prefix
        found = (path for path in start.rglob("*") if path.is_file() and not path.name.startswith("."))
        return sorted(path.relative_to(self.root).as_posix() for path in found)


class S3Store:
    """`s3://bucket/prefix` by boto3 and its credential chain; `AWS_ENDPOINT_URL` or `endpointurl` name another
    server."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        try:
            import boto3
            from botocore.config import Config
        except ModuleNotFoundError:
            raise _needs("s3") from None
        self.url = url
        self._bucket, self._prefix = _split(url, "s3://")
        settings = Config(
            connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries={"total_max_attempts": TRIES}
        )
        with self._told(""):
            session = boto3.Session(profile_name=options.get("profile"), region_name=options.get("region"))
            self._client: Any = session.client("s3", endpoint_url=options.get("endpointurl"), config=settings)

    def size(self, key: str) -> int | None:
        try:
            with self._told(key):
                return int(self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)["ContentLength"])
        except NotStored:
            return None

    def stream(self, key: str) -> Iterator[bytes]:
        with self._told(key):
            body = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"]
            yield from body.iter_chunks(CHUNK)

    def put(self, key: str, source: Path) -> None:
        with self._told(key):
            self._client.upload_file(str(source), self._bucket, self._prefix + key)

    def names(self, prefix: str) -> list[str]:
        with self._told(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted(key[len(self._prefix) :] for key in keys)

    @contextmanager
    def _told(self, key: str) -> Iterator[None]:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in ("404", "NoSuchKey", "NotFound"):
                raise NotStored(key) from None
            raise _refused(self.url, key, error) from None
        except (BotoCoreError, Boto3Error, OSError, ValueError) as error:
            raise _refused(self.url, key, error) from None


class AzureStore:
    """`azure://container/prefix`. Credentials: `AZURE_STORAGE_CONNECTION_STRING`; or the account's name
    (`AZURE_STORAGE_ACCOUNT_NAME` or `account_name`) with `AZURE_STORAGE_SAS_TOKEN`, `AZURE_STORAGE_ACCOUNT_KEY`, or
    Azure's default chain."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        try:
            from azure.storage.blob import ContainerClient
        except ModuleNotFoundError:
            raise _needs("azure") from None
        self.url = url
        container, self._prefix = _split(url, "azure://")
        limits: dict[str, Any] = {
            "connection_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS, "retry_total": TRIES - 1,
        }  # fmt: skip
        connection = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
        account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or options.get("account_name")
        if not connection and not account:
            raise ParamsError(
                "no Azure storage account is named",
                where=url,
                remedy="set AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT_NAME in the environment",
            )
        with self._told(""):
            if connection:
                self._client: Any = ContainerClient.from_connection_string(connection, container, **limits)
                return
            from azure.identity import DefaultAzureCredential

            named = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY")
            credential: Any = next((os.environ[name] for name in named if os.environ.get(name)), None)
            address = f"https://{account}.blob.core.windows.net"
            self._client = ContainerClient(address, container, credential or DefaultAzureCredential(), **limits)

    def size(self, key: str) -> int | None:
        try:
            with self._told(key):
                return int(self._client.get_blob_client(self._prefix + key).get_blob_properties().size)
        except NotStored:
            return None

    def stream(self, key: str) -> Iterator[bytes]:
        with self._told(key):
            yield from self._client.download_blob(self._prefix + key).chunks()

    def put(self, key: str, source: Path) -> None:
        with self._told(key), source.open("rb") as handle:
            self._client.upload_blob(self._prefix + key, handle, overwrite=True)

    def names(self, prefix: str) -> list[str]:
        with self._told(prefix):
            found = [blob.name for blob in self._client.list_blobs(name_starts_with=self._prefix + prefix)]
        return sorted(name[len(self._prefix) :] for name in found)

    @contextmanager
    def _told(self, key: str) -> Iterator[None]:
        from azure.core.exceptions import AzureError, ResourceNotFoundError

        try:
            yield
        except ResourceNotFoundError as error:
            if getattr(error, "error_code", "") == "ContainerNotFound":
                raise _refused(self.url, key, error) from None
            raise NotStored(key) from None
        except (AzureError, OSError, ValueError) as error:
            raise _refused(self.url, key, error) from None


def open_store(url: str, options: Mapping[str, str] | None = None) -> Store:
    """The store of an address: `s3://...`, `azure://...`, else a folder. Raises ParamsError for another scheme."""
    refuse_credentials(url)
    scheme, mark, _ = url.partition("://")
    if scheme == "s3" and mark:
        return S3Store(url, options or {})
    if scheme == "azure" and mark:
        return AzureStore(url, options or {})
    if mark and scheme != "file":
        raise ParamsError(
            f"no store of kind {scheme}://",
            where="remote",
            remedy="a folder, s3://bucket/prefix or azure://container/prefix",
        )
    return FolderStore(Path(url.removeprefix("file://")).expanduser())


def _split(url: str, scheme: str) -> tuple[str, str]:
    """(bucket or container, prefix that ends with "/" or is empty)."""
    name, _, prefix = url.removeprefix(scheme).partition("/")
    if not name:
        raise ParamsError("names no bucket or container", where=url, remedy=f"{scheme}NAME/PREFIX")
    prefix = prefix.strip("/")
    return name, f"{prefix}/" if prefix else ""


def _needs(extra: str) -> OrchestrationError:
    return OrchestrationError(
        f"the client of {extra} is not installed", where="remote", remedy=f"pip install 'cowork[{extra}]'"
    )


def _refused(url: str, key: str, error: Exception) -> DataError:
    text = redact(str(error)).strip().splitlines() or [type(error).__name__]
    return DataError(
        f"the remote could not be used{f' for {key}' if key else ''}: {text[0][:300]}",
        where=url,
        remedy="see that it is there, reachable, and that the environment's credentials may use it",
    )


# Credentials.

_CARRIERS = re.compile(r"(?i)accountkey=|sharedaccess|[?&](sig|x-amz-[a-z-]+|awsaccesskeyid)=|://[^/@\s]+@")
SECRET_NAMES = re.compile(r"(?i)(secret|password|passwd|token|credential|connection_string|api_?key|_key$|access_key)")
SHORTEST_SECRET = 8
"""Shorter values of such variables are words like "true": replacing them would maim every text."""


def refuse_credentials(url: str) -> None:
    """Raises ParamsError for an address that carries a credential: it would be written to files and logs."""
    if _CARRIERS.search(url):
        raise ParamsError(
            "the address carries a credential",
            where="remote",
            remedy="give the plain address; credentials come from the environment (AWS_*, AZURE_STORAGE_*)",
        )


def secrets_here() -> list[str]:
    """Values of environment variables that are secrets by their names, and the keys inside connection strings."""
    found: set[str] = set()
    for name, value in os.environ.items():
        if SECRET_NAMES.search(name) and len(value) >= SHORTEST_SECRET:
            found.add(value)
            parts = [part.partition("=") for part in value.split(";")]
            found |= {text for key, _, text in parts if re.search(r"(?i)key$|signature$", key)}
    return sorted((value for value in found if len(value) >= SHORTEST_SECRET), key=len, reverse=True)


def redact(text: str) -> str:
    """`text` without the environment's secrets and without signatures in addresses."""
    for value in secrets_here():
        text = text.replace(value, "***")
    text = re.sub(r"(?i)((?:accountkey|sharedaccesssignature|sig|x-amz-signature)=)[^;&\s\"']+", r"\1***", text)
    return re.sub(r"://[^/@\s]+@", "://***@", text)
