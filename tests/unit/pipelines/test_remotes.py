"""Objects and records in a folder, in S3 (moto) and in Azure Blob (Azurite): whole, checked, all or nothing."""

from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path

import pytest

from components.contracts.errors import CoworkError, DataError, ParamsError
from pipelines.dvcfiles import content
from pipelines.objects import check_out, fetch, object_key, push, unsaved, verify
from pipelines.remote import choose_remote, find_remote
from pipelines.stores import FolderStore, NotStored, Store, open_store, read_bytes, redact
from pipelines.workspace import Workspace
from tests.unit.pipelines.conftest import SECRET, Server, secret_found

FILES = {"a.jsonl": "1\n2\n", "deep/b.jsonl": "3\n", "c.jsonl": "4\n"}


def opened(server: Server) -> Store:
    return open_store(server.url, {"endpointurl": server.endpoint} if server.endpoint else {})


def keep(cache: FolderStore, root: Path, path: str) -> str:
    """Put a path of a recipe into a cache as DVC would; its digest."""
    target = root / path
    files = [target] if target.is_file() else sorted(p for p in target.rglob("*") if p.is_file())
    rows = []
    for file in files:
        md5 = hashlib.md5(file.read_bytes()).hexdigest()
        cache.put(object_key(md5), file)
        rows.append({"md5": md5, "relpath": file.relative_to(target).as_posix()})
    found = content(target)
    assert found is not None
    if target.is_dir():
        listing = root / "listing"
        listing.write_text(json.dumps(sorted(rows, key=lambda row: row["relpath"]), sort_keys=True))
        cache.put(object_key(found.digest), listing)
        listing.unlink()
    return found.digest


@pytest.fixture
def cache(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "cache")


@pytest.fixture
def wanted(tmp_path: Path, cache: FolderStore) -> dict[str, str]:
    """A directory and a file in the cache, by path."""
    root = tmp_path / "recipe"
    for name, text in FILES.items():
        (root / "outputs/corpus" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "outputs/corpus" / name).write_text(text)
    (root / "outputs/scores.json").write_text("{}")
    return {path: keep(cache, root, path) for path in ("outputs/corpus", "outputs/scores.json")}


def md5_of(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


# Every kind of store.


def test_a_store_gives_back_what_it_was_given(server: Server, tmp_path: Path) -> None:
    store = opened(server)
    (tmp_path / "one").write_bytes(b"x" * 3_000_000)
    assert store.names("") == [] and store.size("d/one") is None
    store.put("d/one", tmp_path / "one")
    assert store.size("d/one") == 3_000_000 and read_bytes(store, "d/one") == b"x" * 3_000_000
    (tmp_path / "one").write_bytes(b"y")
    store.put("d/one", tmp_path / "one")
    assert read_bytes(store, "d/one") == b"y", "written again it is replaced"
    assert store.names("d/") == ["d/one"]
    with pytest.raises(NotStored):
        read_bytes(store, "d/two")


def test_pushed_data_comes_back_whole_in_an_empty_place(
    server: Server, cache: FolderStore, wanted: dict[str, str], tmp_path: Path
) -> None:
    store = opened(server)
    sent = push(cache, wanted, store)
    assert sent.state == "complete" and sent.moved == 5
    assert push(cache, wanted, store).moved == 0, "what is there is not sent again"
    assert verify(store, wanted).state == "complete"
    other, root = FolderStore(tmp_path / "other"), tmp_path / "fresh"
    report = fetch(store, wanted, other)
    assert report.moved == 5 and check_out(other, report, wanted, root) == sorted(wanted)
    assert (root / "outputs/corpus/deep/b.jsonl").read_text() == "3\n"
    for path, digest in wanted.items():
        found = content(root / path)
        assert found is not None and found.digest == digest


def test_missing_and_damaged_objects_are_named_and_nothing_is_taken(
    server: Server, cache: FolderStore, wanted: dict[str, str], tmp_path: Path
) -> None:
    store, other = opened(server), FolderStore(tmp_path / "other")
    (tmp_path / "flipped").write_text("1\n3\n")
    for piece in ("3\n", "4\n", "{}"):
        store.put(object_key(md5_of(piece)), cache.path(object_key(md5_of(piece))))
    store.put(object_key(wanted["outputs/corpus"]), cache.path(object_key(wanted["outputs/corpus"])))
    assert [str(fault) for fault in verify(store, wanted).faults] == [
        f"outputs/corpus/a.jsonl: missing (md5:{md5_of(FILES['a.jsonl'])})"
    ]
    store.put(object_key(md5_of(FILES["a.jsonl"])), tmp_path / "flipped")
    report = fetch(store, wanted, other)
    assert report.state == "corrupted" and [fault.name for fault in report.faults] == ["outputs/corpus/a.jsonl"]
    assert other.names("files") == [], "all or nothing"
    with pytest.raises(DataError, match="nothing was written or started") as error:
        report.require("remote", "push")
    assert "outputs/corpus/a.jsonl: corrupt" in str(error.value)
    assert push(cache, wanted, store).moved == 0, "of the same size it counts as there"
    assert push(cache, wanted, store, check=True).moved == 1
    assert verify(store, wanted).state == "complete", "the damaged one was replaced"


def test_a_lost_listing_is_told_by_its_hash(server: Server, cache: FolderStore, wanted: dict[str, str]) -> None:
    store = opened(server)
    for text in FILES.values():
        store.put(object_key(md5_of(text)), cache.path(object_key(md5_of(text))))
    report = verify(store, {"outputs/corpus": wanted["outputs/corpus"]})
    assert report.state == "cannot_restore"
    assert [str(fault) for fault in report.faults] == [f"outputs/corpus: listing missing ({wanted['outputs/corpus']})"]


# What is not sent, and not taken.


def test_nothing_is_sent_from_a_damaged_cache(cache: FolderStore, wanted: dict[str, str], tmp_path: Path) -> None:
    spoiled = cache.path(object_key(md5_of(FILES["c.jsonl"])))
    spoiled.chmod(0o644)
    spoiled.write_text("5\n")
    store = FolderStore(tmp_path / "remote")
    report = push(cache, wanted, store)
    assert [fault.name for fault in report.faults] == ["outputs/corpus/c.jsonl"] and store.names("") == []


def test_a_damaged_object_of_the_cache_is_fetched_again(
    cache: FolderStore, wanted: dict[str, str], tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "remote")
    push(cache, wanted, store)
    spoiled = cache.path(object_key(md5_of(FILES["c.jsonl"])))
    spoiled.chmod(0o644)
    spoiled.write_text("5\n")
    assert fetch(store, wanted, cache).moved == 1 and spoiled.read_text() == "4\n"


def test_a_listing_cannot_write_outside_of_its_directory(tmp_path: Path) -> None:
    rows = json.dumps([{"md5": md5_of("x"), "relpath": "../../x"}]).encode()
    digest = f"md5:{hashlib.md5(rows).hexdigest()}.dir"
    store = FolderStore(tmp_path / "remote")
    (tmp_path / "listing").write_bytes(rows)
    store.put(object_key(digest), tmp_path / "listing")
    with pytest.raises(DataError, match="outside of its directory"):
        fetch(store, {"outputs/corpus": digest}, FolderStore(tmp_path / "cache"))


def test_bytes_that_are_nowhere_else_are_noticed_before_they_are_replaced(
    cache: FolderStore, wanted: dict[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "recipe"
    assert unsaved(cache, wanted, root) == []
    (root / "outputs/scores.json").write_text("edited")
    assert unsaved(cache, wanted, root) == ["outputs/scores.json"]


# The one place, and credentials.


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.delenv("COWORK_REMOTE", raising=False)
    root = tmp_path / "recipe"
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").write_text("[core]\n    analytics = false\n")
    monkeypatch.chdir(root)
    return Workspace(root)


def test_the_remote_is_chosen_in_one_place_which_the_environment_overrides(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find_remote(workspace) is None
    chosen = choose_remote(workspace, "../there", {})
    assert chosen.url == str(tmp_path / "there") and chosen.chosen_in == ".dvc/config"
    text = (workspace.root / ".dvc/config").read_text()
    assert "analytics = false" in text and str(tmp_path) not in text, "a folder is noted relative to the recipe"
    chosen = choose_remote(workspace, "s3://bucket/p", {"endpointurl": "http://127.0.0.1:9"})
    assert (chosen.url, chosen.options) == ("s3://bucket/p", {"endpointurl": "http://127.0.0.1:9"})
    assert choose_remote(workspace, "azure://box", {}).options == {}, "another kind keeps nothing of the one before"
    side = Workspace(workspace.root / ".cowork" / "profiles" / "smoke")
    assert find_remote(side) == find_remote(workspace), "a side folder has the recipe's"
    monkeypatch.setenv("COWORK_REMOTE", "elsewhere")
    overridden = find_remote(workspace)
    assert overridden is not None and overridden.url == str(workspace.root / "elsewhere")


@pytest.mark.parametrize(
    "url",
    [
        f"s3://user:{SECRET}@bucket",
        f"azure://box/p?sv=1&sig={SECRET}",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}",
    ],
    ids=["s3", "azure", "connection string"],
)
def test_an_address_with_a_credential_is_refused_and_not_written(workspace: Workspace, url: str) -> None:
    with pytest.raises(ParamsError, match="carries a credential") as error:
        choose_remote(workspace, url, {})
    assert SECRET not in str(error.value) and secret_found(workspace.root) == []


def test_an_unknown_kind_of_remote_names_the_known_ones(workspace: Workspace) -> None:
    with pytest.raises(ParamsError, match="s3://bucket/prefix"):
        choose_remote(workspace, "ftp://host", {})


def test_a_credential_in_the_committed_configuration_is_an_error_that_does_not_say_it(workspace: Workspace) -> None:
    choose_remote(workspace, "s3://bucket", {})
    config = workspace.root / ".dvc/config"
    config.write_text(config.read_text() + f"    secret_access_key = {SECRET}\n")
    with pytest.raises(ParamsError, match="secret_access_key") as error:
        find_remote(workspace)
    assert SECRET not in str(error.value)


def test_secrets_of_the_environment_are_taken_out_of_what_clients_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"AccountName=a;AccountKey={SECRET};x=y")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    said = redact(f"no {SECRET} nor another-secret; see http://u:p@host/?sig=abc%3D&x=1 AccountKey=zzz;")
    assert said == "no *** nor ***; see http://***@host/?sig=***&x=1 AccountKey=***;"


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_a_server_that_is_not_there_is_told_without_credentials(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.stores.TRIES", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING", f"AccountName=a;AccountKey={SECRET};BlobEndpoint={address}/a;"
    )
    options = {"endpointurl": address, "region": "us-east-1"} if kind == "s3" else {}
    with pytest.raises(CoworkError, match="the remote could not be used") as error:
        open_store(f"{kind}://cowork-tests", options).names("")
    assert SECRET not in str(error.value)
