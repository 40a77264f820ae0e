"""Code keys: they follow the code that a stage runs, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contracts.errors import OrchestrationError
from pipelines.codekeys import code_keys, read_code_keys, write_code_keys
from pipelines.registry import STAGES, StageDef

STAGE = {"forge": StageDef("forge", "components.forge.step:run", {}, {"tasks": "outputs/tasks"}, ("forge",))}
FILES = {
    "components/__init__.py": "",
    "components/forge/__init__.py": '"""Docs."""\n',
    "components/forge/step.py": (
        "from components.forge import helper\n\ndef run():\n    '''Docs.'''\n"
        "    from components.forge.late import x\n    return x\n"
    ),
    "components/forge/helper.py": "from . import relative\n\nVALUE = 1  # a comment\n",
    "components/forge/relative.py": "A = 1\n",
    "components/forge/late.py": "x = 1\n",
    "components/forge/unused.py": "y = 1\n",
    "components/forge/words.txt": "cat dog\n",
    "components/forge/README.md": "prose\n",
    "components/tracking/__init__.py": "",
    "components/tracking/events.py": "z = 1\n",
    "components/other/__init__.py": "",
    "components/other/thing.py": "t = 1\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def key(root: Path) -> str:
    return code_keys(STAGE, root, cache_file=root / "cache.json")["forge"]


def rewrite(root: Path, name: str, text: str) -> bool:
    """Whether the key changes when the file does."""
    before = key(root)
    (root / "components" / name).write_text(text)
    return key(root) != before


@pytest.mark.parametrize(
    "name, text",
    [
        ("forge/helper.py", "from . import relative\n\nVALUE = 2  # a comment\n"),
        ("forge/relative.py", "A = 2\n"),
        ("forge/late.py", "x = 2\n"),
        ("forge/words.txt", "cat fox\n"),
        ("forge/__init__.py", "import os\n"),
    ],
)
def test_a_change_of_the_stages_code_or_data_changes_the_key(root: Path, name: str, text: str) -> None:
    assert rewrite(root, name, text)


@pytest.mark.parametrize(
    "name, text",
    [
        ("forge/helper.py", "from . import relative\n\n\n# another comment\nVALUE = 1\n"),
        ("forge/__init__.py", '"""Other docs."""\n'),
        ("forge/unused.py", "y = 2\n"),
        ("forge/README.md", "other prose\n"),
        ("other/thing.py", "t = 2\n"),
    ],
)
def test_a_comment_a_docstring_prose_or_foreign_code_changes_nothing(root: Path, name: str, text: str) -> None:
    assert not rewrite(root, name, text)


def test_a_changed_docstring_of_the_stage_function_changes_nothing(root: Path) -> None:
    text = (root / "components/forge/step.py").read_text().replace("Docs.", "Other docs.")
    assert not rewrite(root, "forge/step.py", text)


def test_a_checkpoint_stored_beside_the_code_is_an_input_not_code(root: Path) -> None:
    (root / "components/training").mkdir()
    (root / "components/training/__init__.py").write_text("")
    (root / "components/forge/late.py").write_text("import components.training\nx = 1\n")
    before = key(root)
    (root / "components/training/base").mkdir()
    (root / "components/training/base/weights.bin").write_text("0")
    assert key(root) == before


def test_watching_a_stage_is_not_part_of_it(root: Path) -> None:
    (root / "components/forge/helper.py").write_text("import components.tracking.events\nVALUE = 1\n")
    assert not rewrite(root, "tracking/events.py", "z = 2\n")


def test_a_module_named_only_at_run_time_counts_with_its_whole_folder(root: Path) -> None:
    (root / "components/forge/late.py").write_text(
        "import importlib\n\ndef x(name):\n    return importlib.import_module('components.forge.' + name)\n"
    )
    assert rewrite(root, "forge/unused.py", "y = 2\n")


def test_a_function_named_in_data_counts(root: Path) -> None:
    (root / "components/forge/late.py").write_text("x = 'components.other.thing:t'\n")
    assert rewrite(root, "other/thing.py", "t = 2\n")


def test_imports_for_the_type_checker_alone_do_not_count(root: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from components.other import thing\nx = 1\n"
    (root / "components/forge/late.py").write_text(text)
    assert not rewrite(root, "other/thing.py", "t = 2\n")


def test_the_cache_of_parsed_modules_changes_no_key(root: Path) -> None:
    fresh = code_keys(STAGE, root)["forge"]
    assert key(root) == key(root) == fresh
    (root / "cache.json").write_text("{broken")
    assert key(root) == fresh


def test_a_syntax_error_names_module_and_line(root: Path) -> None:
    (root / "components/forge/late.py").write_text("x = 1\ny = (\n")
    with pytest.raises(OrchestrationError, match="components.forge.late, line 2"):
        key(root)


def test_keys_are_written_once_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "pipelines" / "codekeys.yaml"
    keys = {"forge": "sha256:aa", "gui-sft": "sha256:bb"}
    assert write_code_keys(path, keys) is True
    assert write_code_keys(path, keys) is False
    assert read_code_keys(path) == keys


def test_every_stage_of_the_recipe_has_a_key_the_same_alone_and_among_all() -> None:
    root = Path(__file__).resolve().parents[3]
    keys = code_keys(STAGES, root)
    for name in ("rl", "evaluate-base", "report"):
        assert code_keys({name: STAGES[name]}, root)[name] == keys[name]
    assert set(keys) == set(STAGES)
    assert all(value.startswith("sha256:") and len(value) == 71 for value in keys.values())
