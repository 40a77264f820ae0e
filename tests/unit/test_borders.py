"""The map of the repository holds: import borders, light imports, one graph, no machine's traces."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.registry import STAGES

ROOT = Path(__file__).resolve().parents[2]

BORDERS = {
    "contracts": set(),
    "sandbox": {"contracts"},
    "forge": {"contracts", "sandbox"},
    "harness": {"contracts", "sandbox", "forge", "rollout"},
    "rollout": {"contracts", "sandbox"},
    "curation": {"contracts", "rollout", "sandbox"},
    "training": {"contracts", "rollout", "sandbox", "curation"},
    "evaluation": {"contracts", "rollout", "sandbox", "training"},
    "tracking": {"contracts"},
}
"""Which components a component may import (architecture.md 2)."""

EVERYWHERE = ("components.tracking.events",)
"""The small interface that everyone may use."""

_TASKS = ("components.forge.store", "components.forge.preparers", "components.forge.verifier")
_SPEC = ("components.harness.spec",)
_WORDS = ("components.forge.words",)
EXCEPTIONS = {
    "forge": ("components.rollout.teacher",),  # the gate's oracle: a task is kept when the teacher can solve it
    "rollout": (*_SPEC, *_TASKS),  # an episode prepares a task's files and has them verified
    "curation": (
        *_SPEC,
        *_WORDS,
        "components.forge.workflows",  # the leak gate knows every word of every split
        "components.forge.store",  # the data gates read tasks and scores as they are stored
        "components.tracking.scores",
    ),
    "training": (*_SPEC, *_WORDS, "components.forge.store"),
    "evaluation": (
        *_SPEC,
        *_WORDS,
        "components.forge.store",
        "components.forge.generate",
        "components.tracking.scores",
    ),
}
"""Single modules beyond the border: the records that two components share, each with one home."""

HEAVY = {
    "torch", "transformers", "tokenizers", "accelerate", "deepspeed", "mlflow", "great_expectations", "dvc", "kfp",
    "kubernetes", "pandas", "pyarrow", "openpyxl", "matplotlib", "boto3", "botocore", "azure", "configobj",
}  # fmt: skip
"""Imported only inside the function that needs them."""

LATE = ("components.training.muon",)
"""Modules that define subclasses of such a library's classes: they import it, and are themselves imported late."""

FACES = ("component.py",)
"""KFP faces: kfp compiles the functions of these files, so they import it at the top; nothing else imports them."""
KFP_MODULES = ("pipelines/recipe.py", "pipelines/kfp_")


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """(module, whether at the top level) of every import. `from a import b` gives a.b where that is a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = {id(node) for node in _top_level(tree)}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.relative_to(ROOT).parts[: -node.level]
                base = ".".join([*package, *filter(None, [base])])
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                names.append(deeper if _is_module(deeper) else base)
        for name in names:
            yield name, id(node) in top


def _top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Statements that run on import: not those in functions, nor under TYPE_CHECKING."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            waiting += [
                child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler)
            ]
        elif isinstance(node, ast.ExceptHandler):
            waiting += node.body


def _is_module(dotted: str) -> bool:
    base = ROOT.joinpath(*dotted.split("."))
    return base.with_suffix(".py").is_file() or (base / "__init__.py").is_file()


def test_every_component_has_a_border() -> None:
    folders = {path.parent.name for path in (ROOT / "components").glob("*/__init__.py")}
    assert folders == set(BORDERS)


@pytest.mark.parametrize("component", sorted(BORDERS))
def test_a_component_imports_only_what_its_border_allows(component: str) -> None:
    broken = []
    for path in sources(f"components/{component}"):
        for name, _ in imported(path):
            parts = name.split(".")
            allowed = {component, *BORDERS[component]}
            if path.name in FACES and parts[0] == "pipelines":
                continue  # a KFP face calls the frame of a step
            if parts[0] == "pipelines":
                broken.append(f"{path.relative_to(ROOT)}: {name}")
            elif parts[0] == "components" and len(parts) > 1 and parts[1] not in allowed:
                extra = (*EVERYWHERE, *EXCEPTIONS.get(component, ()))
                if not any(name == module or name.startswith(module + ".") for module in extra):
                    broken.append(f"{path.relative_to(ROOT)}: {name}")
    assert broken == []


def _dotted(relative: str) -> str:
    return relative.removesuffix(".py").replace("/", ".")


def test_heavy_libraries_are_imported_only_where_they_are_used() -> None:
    broken = []
    for path in sources("components", "pipelines"):
        relative = path.relative_to(ROOT).as_posix()
        kfp_face = path.name in FACES or relative.startswith(KFP_MODULES)
        for name, top in imported(path):
            library = name.split(".")[0]
            if top and name.startswith(LATE):
                broken.append(f"{relative}: {name}")
            if top and library in HEAVY and not (kfp_face and library == "kfp") and _dotted(relative) not in LATE:
                broken.append(f"{relative}: {name}")
    assert broken == []


def test_pipelines_never_imports_torch_or_the_inside_of_training() -> None:
    broken = []
    for path in sources("pipelines"):
        for name, _ in imported(path):
            if name.split(".")[0] in {"torch", "transformers"} or name.startswith("components.training."):
                if not name.startswith("components.training.component"):
                    broken.append(f"{path.relative_to(ROOT)}: {name}")
    assert broken == []


COMMANDS = ("run", "rerun", "step", "plan", "status", "report", "doctor", "lineage", "reproduce", "data", "costs",
            "desktop", "act", "osworld")  # fmt: skip


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    code = (
        "import sys\nfrom pipelines.cli import main\n"
        f"try:\n    main({[*command, '--help']!r})\nexcept SystemExit:\n    pass\n"
        "print('\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {part for name in done.stdout.split("\n") for part in (name, name.split(".")[0])}
    assert "typer" in loaded and "pipelines.cli" in loaded
    assert not loaded & (HEAVY | {"numpy", "rich", "yaml", "jinja2", "components.contracts.params"})


def test_the_dvc_file_is_the_registry_written_for_people() -> None:
    written: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert list(written) == list(STAGES)
    for name, stage in STAGES.items():
        entry = written[name]
        assert set(entry) <= {"cmd", "deps", "params", "outs"}, name
        assert entry["cmd"] == f"cowork step {name}"
        assert entry.get("deps", []) == list(stage.inputs.values()), name
        assert entry["outs"] == list(stage.outputs.values()), name
        assert entry["params"] == ["seed", *stage.params, {"pipelines/codekeys.yaml": [name]}], name


def test_every_section_of_the_recipe_is_read_by_a_stage() -> None:
    from components.contracts.load_params import dotted_keys
    from components.contracts.params import Params

    read = {"seed", "profile"} | {section for stage in STAGES.values() for section in stage.params}
    unread = [key for key in dotted_keys(Params) if not any(key == s or key.startswith(s + ".") for s in read)]
    assert unread == []


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


MACHINE = re.compile(
    r"(?<![\w.}])/(?:home/(?!user\b)\w+|Users/\w+|work/\w+|workspace)/|(?<![\w.}])/opt/(?!guest|site|python)\w|file:///(?!proc/self/)\w"
)


def test_no_tracked_file_names_a_place_of_one_machine() -> None:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path != Path(__file__):
            found += [f"{path.relative_to(ROOT)}: {match.group(0)}" for match in MACHINE.finditer(text)]
    assert found == []


def test_the_lock_names_packages_by_hash_and_no_index() -> None:
    text = (ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8")
    assert "://" not in text and "--index-url" not in text and "--find-links" not in text
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", text)[1:]
    assert len(blocks) > 200
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert any(block.startswith("torch==2.13.0 ") for block in blocks)


SLEEPERS = ("pipelines/waiting.py",)


def test_product_code_waits_for_something_never_for_a_while() -> None:
    found = []
    for path in sources("components", "pipelines"):
        relative = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep", "asyncio.sleep"):
                if relative not in SLEEPERS:
                    found.append(f"{relative}:{node.lineno}")
    assert found == []
