"""A host-side reader or writer cannot be led out of the home, nor made to wait or to swallow too much."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from components.sandbox.shell import (
    ShellSession,
    UnsafeFileError,
    list_files,
    read_file_nofollow,
    safe_open,
    write_file_nofollow,
)
from components.sandbox.shell.files import adopt


def test_plain_files_are_read_and_written(home: Path) -> None:
    (home / "d").mkdir()
    write_file_nofollow(home, "d/f", b"one")
    write_file_nofollow(home, "d/f", b"two")
    assert read_file_nofollow(home, "d/./f") == b"two"
    with safe_open(home, "d/f") as file:
        assert file.read(1) == b"t"
    assert list_files(home) == ["d/f"]


def test_traps_laid_by_a_guest_are_refused(shell: ShellSession, home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    shell.run(f"ln -s {tmp_path}/secret link; ln -s {tmp_path} dir; ln -s ../secret up; mkfifo pipe; mkdir real; "
              "ln -s x loop; ln -s loop x; "
              "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"")  # fmt: skip
    for name in ("link", "dir", "dir/secret", "up", "pipe", "real", "loop", "sock", "link/x"):
        with pytest.raises(UnsafeFileError):
            read_file_nofollow(home, name)
    assert list_files(home) == []


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "..", ".", "", "a\0b"])
def test_paths_that_leave_the_home_are_refused(home: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (home / "a").mkdir()
    with pytest.raises(UnsafeFileError):
        read_file_nofollow(home, name)
    with pytest.raises(UnsafeFileError):
        write_file_nofollow(home, name, b"")
    assert (tmp_path / "secret").read_text() == "secret"


def test_writing_replaces_a_link_and_not_its_target(home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "dir").symlink_to(tmp_path)
    write_file_nofollow(home, "link", b"new")
    assert (home / "link").read_bytes() == b"new" and not (home / "link").is_symlink()
    with pytest.raises(UnsafeFileError):
        write_file_nofollow(home, "dir/secret", b"new")
    assert (tmp_path / "secret").read_text() == "secret"


def test_missing_files_and_large_files_are_told_apart(home: Path) -> None:
    (home / "large").write_bytes(b"x" * 11)
    with pytest.raises(FileNotFoundError):
        read_file_nofollow(home, "none")
    with pytest.raises(FileNotFoundError):
        read_file_nofollow(home, "none/f")
    with pytest.raises(UnsafeFileError, match="larger than 10"):
        read_file_nofollow(home, "large", limit=10)
    assert len(read_file_nofollow(home, "large", limit=11)) == 11


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_adopting_changes_links_and_not_their_targets(home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (home / "dir").mkdir()
    (home / "dir" / "f").touch()
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "out").symlink_to(tmp_path)
    adopt(home, 4321)
    assert {path.lstat().st_uid for path in [home, *home.rglob("*")]} == {4321}
    assert (tmp_path / "secret").stat().st_uid == 0 and tmp_path.stat().st_uid == 0
