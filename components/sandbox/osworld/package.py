"""Metrics of the package `desktop-env`, where it is installed: one module at a time, without what stands around it.

Importing the package as its authors do loads all of its modules, with torch and four clouds. The parents of a metric's
module are therefore made here as empty packages with the right path, so that only that module and what it needs load.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from components.sandbox.osworld.registry import UNSAFE, package_module

NAME = "desktop_env"
_PARENTS = (NAME, f"{NAME}.evaluators", f"{NAME}.evaluators.metrics")
_lock = threading.Lock()


def folder() -> Path | None:
    """Where the package is; None when it is not installed. Nothing of it is imported."""
    if NAME in sys.modules and getattr(sys.modules[NAME], "__path__", None):
        return Path(next(iter(sys.modules[NAME].__path__)))
    spec = importlib.machinery.PathFinder.find_spec(NAME)
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places else None


def metric(name: str) -> tuple[Callable[..., Any] | None, str]:
    """(the package's metric, "") or (None, why it is not to be had)."""
    module = package_module(name)
    if not module:
        return None, "the package has no such metric"
    if name in UNSAFE:
        return None, UNSAFE[name]
    place = folder()
    if place is None:
        return None, "the package desktop-env is not installed"
    try:
        with _lock:
            loaded = _load(place, module)
    except ImportError as error:
        return None, f"the package's module `{module}` needs {error.name or error}"
    except Exception as error:  # a module of others may fail in any way while it loads
        return None, f"the package's module `{module}` does not load: {type(error).__name__}: {error}"
    found: Callable[..., Any] | None = getattr(loaded, name, None)
    return found, "" if found else f"this release of the package has no `{name}`"


def _load(place: Path, module: str) -> ModuleType:
    for parent in _PARENTS:
        if parent not in sys.modules:
            stub = ModuleType(parent)
            stub.__path__ = [str(place.joinpath(*parent.split(".")[1:]))]
            sys.modules[parent] = stub
    return importlib.import_module(f"{_PARENTS[-1]}.{module}")
