from __future__ import annotations

from pathlib import Path

import pytest

from components.contracts.digests import digest_tree
from components.contracts.errors import DataError
from pipelines.kfp_store import describe, entry_path, fetch, publish, read_manifest


def _tree(root: Path) -> Path:
    (root / "shards").mkdir(parents=True)
    (root / "shards" / "rows-0000.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    (root / "shards" / "rows-0001.jsonl").write_text('{"a": 3}\n')
    (root / "info.json").write_text("{}")
    return root


def test_published_data_comes_back_under_its_digest(tmp_path: Path) -> None:
    source = _tree(tmp_path / "source")
    digest = publish(source, tmp_path / "store")
    assert digest == digest_tree(source)
    assert digest_tree(fetch(digest, tmp_path / "store")) == digest
    assert source.exists()


def test_publishing_twice_keeps_one_entry_and_leaves_no_drafts(tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = publish(_tree(tmp_path / "one"), store)
    second = publish(_tree(tmp_path / "two"), store)
    assert first == second
    assert sorted(path.name for path in store.iterdir()) == [f"sha256-{first[7:]}", f"sha256-{first[7:]}.files.json"]


def test_moving_a_draft_in_takes_it_from_its_place(tmp_path: Path) -> None:
    source = _tree(tmp_path / "source")
    digest = publish(source, tmp_path / "store", move=True)
    assert not source.exists()
    assert fetch(digest, tmp_path / "store").is_dir()


def test_a_single_file_is_stored_too(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<p>")
    digest = publish(file, tmp_path / "store")
    assert fetch(digest, tmp_path / "store").read_text() == "<p>"
    entry = entry_path(tmp_path / "store", digest)
    entry.chmod(0o644)
    entry.write_text("<b>")
    with pytest.raises(DataError, match="changed"):
        fetch(digest, tmp_path / "store")


@pytest.mark.parametrize("harm", ["flip", "lose", "add"])
def test_a_changed_entry_is_refused_and_the_file_named(tmp_path: Path, harm: str) -> None:
    store = tmp_path / "store"
    digest = publish(_tree(tmp_path / "source"), store)
    victim = entry_path(store, digest) / "shards" / "rows-0001.jsonl"
    victim.chmod(0o644)
    if harm == "flip":
        data = bytearray(victim.read_bytes())
        data[3] ^= 1
        victim.write_bytes(data)
    elif harm == "lose":
        victim.unlink()
    else:
        (victim.parent / "extra.bin").write_bytes(b"x")
    named = "extra.bin" if harm == "add" else "rows-0001.jsonl"
    with pytest.raises(DataError, match=f"shards/{named}") as error:
        fetch(digest, store)
    assert "rows-0000" not in str(error.value)


def test_a_changed_entry_with_a_changed_listing_is_still_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    digest = publish(_tree(tmp_path / "source"), store)
    victim = entry_path(store, digest) / "info.json"
    victim.chmod(0o644)
    victim.write_text("[]")
    (store / f"sha256-{digest[7:]}.files.json").write_text("[]")
    with pytest.raises(DataError, match="listing is lost"):
        fetch(digest, store)


def test_publishing_again_heals_a_changed_entry(tmp_path: Path) -> None:
    store = tmp_path / "store"
    digest = publish(_tree(tmp_path / "one"), store)
    victim = entry_path(store, digest) / "info.json"
    victim.chmod(0o644)
    victim.write_text("[]")
    publish(_tree(tmp_path / "two"), store)
    assert digest_tree(fetch(digest, store)) == digest
    assert len(list(store.iterdir())) == 2


def test_a_missing_entry_and_a_missing_output_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no entry sha256:00"):
        fetch("sha256:00", tmp_path)
    with pytest.raises(DataError, match="nothing was written"):
        publish(tmp_path / "nowhere", tmp_path / "store")


def test_a_manifest_counts_files_bytes_and_rows_over_shards(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    source = _tree(tmp_path / "source")
    for shard in range(2):
        parquet.write_table(pa.table({"a": [1, 2, 3]}), source / f"steps-{shard:05d}.parquet")
    store = tmp_path / "store"
    manifest = describe("forge", "tasks", publish(source, store), store)
    assert manifest.counts == {"files.json": 1, "shards/rows": 3, "steps": 6}
    assert manifest.files == 5
    assert manifest.bytes == sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    (tmp_path / "manifest").write_text(manifest.text())
    assert read_manifest(tmp_path / "manifest") == manifest
    assert len(manifest.text()) < 1_000


@pytest.mark.parametrize("text", ["", "{}", "\x00\xff", '{"schema": "other/1"}'])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest").write_text(text)
    with pytest.raises(DataError, match="manifest"):
        read_manifest(tmp_path / "manifest")


def test_a_manifest_of_another_schema_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    text = describe("forge", "tasks", publish(_tree(tmp_path / "s"), store), store).text()
    (tmp_path / "manifest").write_text(text.replace("cowork-manifest/1", "cowork-manifest/9"))
    with pytest.raises(DataError, match="cowork-manifest/9"):
        read_manifest(tmp_path / "manifest")
