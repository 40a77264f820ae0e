"""Where a recipe lives on disk: the folder with `dvc.yaml` and `params.yaml`, and the hidden state beside them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from components.contracts.errors import OrchestrationError, ParamsError
from pipelines.registry import STAGES, StageDef

SOURCE = Path(__file__).resolve().parents[1]
"""The folder that holds the import packages (the repository, or site-packages)."""
PROFILES = Path(__file__).resolve().parent / "profiles"
CODEKEYS = "pipelines/codekeys.yaml"


def registry() -> Mapping[str, StageDef]:
    """The stages. `COWORK_REGISTRY=module:attribute` puts another set in their place (for tests)."""
    other = os.environ.get("COWORK_REGISTRY")
    if not other:
        return STAGES
    module, _, attribute = other.partition(":")
    found: Mapping[str, StageDef] = getattr(import_module(module), attribute)
    return found


def stage_named(name: str, stages: Mapping[str, StageDef]) -> StageDef:
    """Raises OrchestrationError that names the nearest stage."""
    if name in stages:
        return stages[name]
    from components.contracts.load_params import nearest

    raise OrchestrationError(
        f"unknown stage {name!r}; did you mean {nearest(name, list(stages))!r}?",
        remedy=f"stages: {', '.join(stages)}",
    )


@dataclass(frozen=True)
class Workspace:
    """Paths of one recipe. Everything that is not an output lies under `.cowork` and may be deleted at any time."""

    root: Path

    @property
    def params_file(self) -> Path:
        return self.root / "params.yaml"

    @property
    def dvc_file(self) -> Path:
        return self.root / "dvc.yaml"

    @property
    def lock_file(self) -> Path:
        return self.root / "dvc.lock"

    @property
    def codekeys_file(self) -> Path:
        return self.root / CODEKEYS

    @property
    def state(self) -> Path:
        return self.root / ".cowork"

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def work(self) -> Path:
        return self.state / "work"

    def dvc_environment(self) -> dict[str, str]:
        """Variables for any process that runs DVC here: quiet, offline, its caches beside the recipe."""
        return {
            "DVC_NO_ANALYTICS": "1",
            "DVC_STUDIO_OFFLINE": "1",
            "ITERATIVE_DO_NOT_TRACK": "1",
            "DVC_SITE_CACHE_DIR": str(self.state / "dvc-site"),
            "GIT_TERMINAL_PROMPT": "0",
        }


def find_workspace(start: Path | None = None) -> Workspace:
    """The nearest folder upward that holds `dvc.yaml` and `params.yaml`. Raises OrchestrationError."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "dvc.yaml").is_file() and (folder / "params.yaml").is_file():
            return Workspace(folder)
    raise OrchestrationError(
        "no recipe here: no dvc.yaml with a params.yaml beside it in this folder or above it",
        where=str(here),
        remedy="change into the repository",
    )


def profile_path(name: str) -> Path:
    """The file of a profile: a name of `pipelines/profiles`, or a path to a YAML file. Raises ParamsError."""
    if name.endswith((".yaml", ".yml")) and Path(name).is_file():
        return Path(name)
    target = PROFILES / f"{name}.yaml"
    if target.is_file():
        return target
    from components.contracts.load_params import nearest

    known = sorted(path.stem for path in PROFILES.glob("*.yaml"))
    raise ParamsError(
        f"no profile {name!r}; did you mean {nearest(name, known)!r}?",
        where="--profile",
        remedy=f"profiles: {', '.join(known)}, or the path of a YAML file",
    )


def side_workspace(main: Workspace, name: str, params_text: str) -> Workspace:
    """A recipe folder of its own under `.cowork/profiles/<name>`: other parameters, own outputs, shared DVC cache.

    Kept between calls, so that a second run of the same profile continues. Inputs that no stage makes (the base
    checkpoint) are brought up to date from `main`.
    """
    side = Workspace(main.state / "profiles" / name)
    side.root.mkdir(parents=True, exist_ok=True)
    _write_if_changed(side.dvc_file, main.dvc_file.read_text(encoding="utf-8"))
    _write_if_changed(side.params_file, params_text)
    config = side.root / ".dvc" / "config"
    config.parent.mkdir(exist_ok=True)
    cache = os.path.relpath(main.root / ".dvc" / "cache", config.parent)
    _write_if_changed(
        config,
        "[core]\n    no_scm = true\n    analytics = false\n    check_update = false\n"
        f"    site_cache_dir = .cowork/dvc-site\n[cache]\n    dir = {cache}\n",
    )
    stages = registry().values()
    made = {path for stage in stages for path in stage.outputs.values()}
    for path in sorted({path for stage in stages for path in stage.inputs.values()} - made):
        _mirror(main.root / path, side.root / path)
    return side


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _mirror(source: Path, target: Path) -> None:
    """Make `target` hold exactly what `source` holds."""
    from components.contracts.digests import digest_tree

    if not source.exists():
        return
    if target.exists() and digest_tree(target) == digest_tree(source):
        return
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)
