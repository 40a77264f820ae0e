"""The code key of a stage: a digest that changes when the code behind the stage does, and not for a comment.

For the module of a stage's function: all modules of ours that it imports, directly or not, wherever the import stands
(also inside a function), each as its syntax tree without comments, docstrings and layout; the data files beside them;
and the versions of the numeric libraries they use. The keys go into `pipelines/codekeys.yaml`, which `dvc.yaml` lists
as a parameter of each stage. The file is generated and not committed: `make env` and every `cowork run`, `plan`
or `rerun` refresh it, so a plain `dvc repro` after them works; `dvc.lock` keeps the values that a run was made with.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from components.contracts.digests import canonical_json, digest_bytes, digest_value
from components.contracts.errors import OrchestrationError
from pipelines.registry import BASE, StageDef

PACKAGES = ("components", "pipelines")
OBSERVERS = ("components.tracking",)
"""Left out unless the stage itself lives there: what watches a stage does not change its result."""
NO_OBSERVERS = ("components.tracking.scores",)
"""Modules there that do shape a result: the form of score files."""
LIBRARIES = {
    "torch": "torch", "transformers": "transformers", "tokenizers": "tokenizers", "safetensors": "safetensors",
    "numpy": "numpy", "pyarrow": "pyarrow", "openpyxl": "openpyxl", "PIL": "pillow",
    "great_expectations": "great-expectations", "pandas": "pandas",
}  # fmt: skip
IMAGE_DIGEST = "COWORK_IMAGE_DIGEST"
"""Variable with which a container image names itself, by digest or build id: another image of the same tag is another
key. Unset outside of images."""
_NOT_DATA = (".py", ".pyc", ".md")
_VERSION = "1"
"""Of this algorithm: part of every key."""


@dataclass(frozen=True)
class Source:
    """One module: digest of its meaning, the names it imports, whether it loads modules that only a run can name."""

    digest: str
    imports: tuple[str, ...]
    dynamic: bool = False


@dataclass
class CodeBase:
    """The modules under `root`. `cache` holds parsed sources by content digest."""

    root: Path
    packages: tuple[str, ...] = PACKAGES
    excluded: tuple[Path, ...] = ()
    """Folders that are inputs of stages, not code."""
    cache: dict[str, Source] = field(default_factory=dict)
    _sources: dict[str, Source] = field(default_factory=dict)

    def file_of(self, module: str) -> Path | None:
        """The file of a module of ours, None when the name is no module (or not ours)."""
        if module.split(".")[0] not in self.packages:
            return None
        base = self.root.joinpath(*module.split("."))
        for candidate in (base / "__init__.py", base.with_suffix(".py")):
            if candidate.is_file():
                return candidate
        return None

    def source(self, module: str) -> Source:
        if module not in self._sources:
            file = self.file_of(module)
            if file is None:
                raise OrchestrationError(f"no module {module}", where="code keys", remedy="see pipelines/registry.py")
            content = file.read_bytes()
            key = f"{digest_bytes(content)} {module} {file.name == '__init__.py'}"
            if key not in self.cache:
                self.cache[key] = parse(content.decode(), module, file.name == "__init__.py")
            self._sources[module] = self.cache[key]
        return self._sources[module]

    def closure(self, module: str) -> list[str]:
        """The modules of ours that importing and running `module` can reach, itself included, sorted."""
        hidden = tuple(name for name in OBSERVERS if not _inside(module, name))
        found: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            watches = name not in NO_OBSERVERS and any(_inside(name, observer) for observer in hidden)
            if name in found or watches:
                continue
            found.add(name)
            waiting += self._reached(name)
        return sorted(found)

    def _reached(self, module: str) -> Iterator[str]:
        # Importing a.b.c runs a/__init__ and a/b/__init__ too.
        parts = module.split(".")
        for depth in range(1, len(parts)):
            parent = ".".join(parts[:depth])
            if self.file_of(parent):
                yield parent
        source = self.source(module)
        for name in source.imports:
            while name and not self.file_of(name):
                name = name.rpartition(".")[0]  # `from package.module import name`: the name is no module
            if name:
                yield name
        if source.dynamic:
            folder = self._file(module).parent
            for file in sorted(folder.rglob("*.py")):
                name = ".".join(file.relative_to(self.root).with_suffix("").parts)
                yield name.removesuffix(".__init__")

    def _file(self, module: str) -> Path:
        file = self.file_of(module)
        assert file is not None
        return file

    def libraries(self, modules: Iterable[str]) -> list[str]:
        """Numeric libraries that the modules import, with their public versions."""
        used = {name.split(".")[0] for module in modules for name in self.source(module).imports}
        return [f"{name}=={version(LIBRARIES[name])}" for name in sorted(used & set(LIBRARIES))]

    def data_files(self, modules: Iterable[str]) -> list[tuple[str, str]]:
        """(relative path, digest) of the files beside the modules that are not code or prose."""
        folders = {self._file(module).parent for module in modules}
        found: dict[str, str] = {}
        for folder in folders:
            for file in _data_below(folder, self.excluded):
                found[file.relative_to(self.root).as_posix()] = digest_bytes(file.read_bytes())
        return sorted(found.items())

    def key(self, function: str) -> str:
        """The code key of a stage whose function is `module:name`."""
        module = function.partition(":")[0]
        modules = self.closure(module)
        parts = [[name, self.source(name).digest] for name in modules]
        image = os.environ.get(IMAGE_DIGEST, "")
        where = [image] if image else []
        return digest_value([_VERSION, parts, self.data_files(modules), self.libraries(modules), *where])


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def _data_below(folder: Path, excluded: tuple[Path, ...]) -> Iterator[Path]:
    """Data files of a package's folder: also of folders below it that are no packages themselves."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "__pycache__")) or entry in excluded:
            continue
        if entry.is_dir():
            if not (entry / "__init__.py").exists():
                yield from _data_below(entry, excluded)
        elif entry.suffix not in _NOT_DATA and entry.name != "codekeys.yaml":
            yield entry


# One module.


def parse(text: str, module: str, package: bool) -> Source:
    """A module's meaning and imports. Raises OrchestrationError when it is not Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise OrchestrationError(f"syntax error: {error.msg}", where=f"{module}, line {error.lineno}") from None
    imports = sorted(set(_imports(tree, module, package)))
    dynamic = any(name.split(".")[0] == "pkgutil" for name in imports) or _calls_import_module(tree)
    return Source(digest_bytes(ast.unparse(strip(tree)).encode()), tuple(imports), dynamic)


def strip(tree: ast.Module) -> ast.Module:
    """The tree without docstrings and other bare texts. Comments and layout are not in it anyway."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        kept = [item for item in body if not (isinstance(item, ast.Expr) and _is_text(item.value))]
        if len(kept) < len(body):
            node.body = kept or ([] if isinstance(node, ast.Module) else [ast.Pass()])  # type: ignore[attr-defined]
    return tree


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _imports(tree: ast.Module, module: str, package: bool) -> Iterator[str]:
    typing_only = {id(inner) for node in ast.walk(tree) if _is_type_checking(node) for inner in _body(node)}
    here = module if package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = here.split(".")
                parent = ".".join(parts[: len(parts) - node.level + 1])
                base = f"{parent}.{base}" if base else parent
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif _is_import_call(node):
            yield node.args[0].value  # type: ignore[attr-defined]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_function_name(node.value):
            yield node.value.partition(":")[0]


def _is_function_name(text: str) -> bool:
    """`package.module:function`, the way this code base names a function in data."""
    module, colon, name = text.partition(":")
    return bool(colon) and name.isidentifier() and "." in module and all(p.isidentifier() for p in module.split("."))


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _body(node: ast.AST) -> Iterator[ast.AST]:
    for statement in node.body:  # type: ignore[attr-defined]
        yield from ast.walk(statement)


def _is_import_call(node: ast.AST) -> bool:
    return _names_import_module(node) and bool(node.args) and _is_text(node.args[0])  # type: ignore[attr-defined]


def _names_import_module(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")


def _calls_import_module(tree: ast.Module) -> bool:
    """Whether a module is imported by a name that is not written out."""
    return any(_names_import_module(node) and not _is_import_call(node) for node in ast.walk(tree))


@cache
def version(distribution: str) -> str:
    """Installed public version (a local part such as `+cpu` names a build, not another release); "none" if absent."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed(distribution).split("+")[0]
    except PackageNotFoundError:
        return "none"


# All stages.


def code_keys(
    stages: Mapping[str, StageDef], root: Path, packages: tuple[str, ...] = PACKAGES, cache_file: Path | None = None
) -> dict[str, str]:
    """Stage name -> code key. `cache_file` remembers parsed modules between calls."""
    cache = _read_cache(cache_file)
    made = {path for stage in stages.values() for path in stage.outputs.values()}
    given = {BASE, *(path for stage in stages.values() for path in stage.inputs.values())} - made
    own = {stage.function.split(".")[0] for stage in stages.values()}  # a test's toy stages live elsewhere
    code = CodeBase(root, tuple(sorted({*packages, *own})), tuple(root / path for path in given), dict(cache))
    keys: dict[str, str] = {}
    by_function: dict[str, str] = {}
    for name, stage in stages.items():
        if stage.function not in by_function:
            by_function[stage.function] = code.key(stage.function)
        keys[name] = by_function[stage.function]
    if cache_file and code.cache != cache:
        _write_atomically(
            cache_file, canonical_json({k: [s.digest, s.imports, s.dynamic] for k, s in code.cache.items()})
        )
    return keys


def _read_cache(path: Path | None) -> dict[str, Source]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8")) if path else {}
        return {key: Source(digest, tuple(imports), dynamic) for key, (digest, imports, dynamic) in raw.items()}
    except (OSError, ValueError, TypeError):
        return {}


def _write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def write_code_keys(path: Path, keys: Mapping[str, str]) -> bool:
    """Write the keys as YAML when they differ from what is there; whether they did."""
    lines = ["# Generated: the code behind each stage, see pipelines/codekeys.py. Not committed."]
    text = "\n".join([*lines, *(f"{name}: {key}" for name, key in keys.items())]) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    _write_atomically(path, text)
    return True


def read_code_keys(path: Path) -> dict[str, str]:
    """Keys as written by `write_code_keys`; empty when there is no file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith("#"))


@cache
def code_key(stage: str) -> str:
    """The code key of one stage of the recipe, of the code that is running. Raises KeyError for an unknown stage."""
    from pipelines.registry import STAGES

    return code_keys({stage: STAGES[stage]}, Path(__file__).resolve().parents[1])[stage]


def main() -> int:
    """`python -m pipelines.codekeys`: write `pipelines/codekeys.yaml` of the recipe in this folder."""
    from pipelines.workspace import SOURCE, find_workspace, registry

    try:
        workspace = find_workspace()
        keys = code_keys(registry(), SOURCE, cache_file=workspace.state / "codekeys.json")
    except OrchestrationError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    write_code_keys(workspace.codekeys_file, keys)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
