"""The desktop's settings and archives."""

from __future__ import annotations

import ast
import fnmatch
import zipfile
from collections.abc import Callable
from typing import Any

from components.contracts.errors import VerifierError
from components.sandbox.osworld.metrics import files
from components.sandbox.osworld.metrics.documents import compare_docx_files, registry_value
from components.sandbox.osworld.metrics.pictures import compare_images
from components.sandbox.osworld.metrics.tables import compare_csv, compare_table
from components.sandbox.osworld.metrics.text import compare_text_file

_MAX_PACKED = 256 << 20


def check_gnome_favorite_apps(listed: Any, rule: dict[str, Any]) -> float:
    """The same applications in any order. The guest's text is data: nothing in it is run."""
    try:
        found = ast.literal_eval(str(listed).strip())
        return float(len(found) == len(rule["expected"]) and set(found) == set(rule["expected"]))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return 0.0


def is_utc_0(said: str) -> float:
    """What `timedatectl` says."""
    lines = str(said).splitlines()
    return float(len(lines) > 3 and lines[3].endswith("+0000)"))


def check_text_enlarged(factor: str) -> float:
    try:
        return float(float(factor) > 1.0)
    except ValueError:
        return 0.0


def check_moved_jpgs(tree: dict[str, Any], rule: dict[str, Any]) -> float:
    names = [node["name"] for node in tree["children"]]
    return float(len(names) == len(rule["expected"]) and set(names) == set(rule["expected"]))


def is_in_vm_clickboard(config: Any, said: Any) -> float:
    """Either order of the two: the task files of OSWorld have the rule first."""
    rule, text = (config, said) if isinstance(config, dict) else (said, config)
    wanted = rule["expected"] if isinstance(rule["expected"], list) else [rule["expected"]]
    return float(isinstance(text, str) and all(part in text for part in wanted))


def is_vlc_fullscreen(window: Any, screen: Any) -> float:
    return float(bool(window) and bool(screen) and window == screen)


def check_libre_locale(path: Any, rules: dict[str, Any]) -> float:
    place = "/org.openoffice.Setup/L10N"
    found = registry_value(path, place, "ooSetupSystemLocale") or registry_value(path, place, "ooLocale")
    return float(found is not None and any(fnmatch.fnmatchcase(found, pattern) for pattern in rules["locale_set"]))


def compare_zip_files(actual: Any, expected: Any, **options: Any) -> float:
    """The same names with the same bytes."""
    ours, theirs = files.result(actual, _members), files.reference(expected, _members)
    return float(ours is not None and ours == theirs)


def compare_archive(actual: Any, expected: Any, **options: Any) -> float:
    """The files of a folder of two .zip archives, each compared by what its kind asks for; the mean.

    Nothing is unpacked but into memory and, one file at a time, a folder of ours.
    """
    kinds: dict[str, Callable[..., float]] = {
        "text": compare_text_file, "docx": compare_docx_files, "image": compare_images, "csv": compare_csv,
        "table": compare_table,
    }  # fmt: skip
    kind = options.get("file_type", "text")
    if kind not in kinds:
        raise VerifierError(f"compare_archive does not compare {kind!r} here", where="metric")
    prefix = str(options.get("file_path", "")).strip("/")
    ours, theirs = files.result(actual, _members), files.reference(expected, _members)
    if ours is None:
        return 0.0
    sides = [
        {name[len(prefix) :].strip("/"): data for name, data in side.items() if name.startswith(prefix)}
        for side in (ours, theirs)
    ]
    if sides[0].keys() != sides[1].keys() or not sides[1]:
        return 0.0
    rest = {k: v for k, v in options.items() if k not in ("file_type", "file_path")}
    return sum(_compared(kinds[kind], name, sides[0][name], sides[1][name], rest) for name in sides[1]) / len(sides[1])


def _compared(metric: Callable[..., float], name: str, ours: bytes, theirs: bytes, options: dict[str, Any]) -> float:
    import tempfile
    from pathlib import Path

    suffix = Path(name).suffix if Path(name).suffix.isascii() else ""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{side}{suffix}" for side in ("ours", "theirs")]
        for path, data in zip(paths, (ours, theirs), strict=True):
            path.write_bytes(data)
        return float(metric(str(paths[0]), str(paths[1]), **options))


def _members(path: str) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if sum(entry.file_size for entry in entries) > _MAX_PACKED:
            raise ValueError("too large")
        return {entry.filename: archive.read(entry) for entry in entries}
