"""The remote of a recipe: one address, chosen in one place.

That place is the default DVC remote in `.dvc/config` (`cowork data remote URL` writes it, plain `dvc push` and
`dvc pull` use the same one); the environment variable `COWORK_REMOTE` goes before it. Objects lie as DVC lays them
(`files/md5/..`), records of runs beside them (`cowork/runs/<run>.json`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.errors import OrchestrationError, ParamsError
from pipelines.stores import FolderStore, Store, open_store, refuse_credentials
from pipelines.workspace import Workspace

VARIABLE = "COWORK_REMOTE"
NAME = "store"
"""What DVC calls the remote in a recipe that had none."""
_PLACES = ("endpointurl", "region", "profile", "account_name")
_WRITTEN_SECRETS = (
    "access_key_id", "secret_access_key", "session_token", "connection_string", "sas_token", "account_key",
    "client_secret", "password",
)  # fmt: skip


@dataclass(frozen=True)
class Remote:
    """`options`: those of DVC's remote that say where (endpointurl, region, profile, account_name)."""

    url: str
    chosen_in: str
    options: dict[str, str] = field(default_factory=dict)

    def open(self) -> Store:
        return open_store(self.url, self.options)


def main_root(workspace: Workspace) -> Path:
    """The folder of the recipe itself, also for a side folder below its `.cowork/profiles`."""
    root = workspace.root
    if root.parent.name == "profiles" and root.parents[1].name == ".cowork":
        return root.parents[2]
    return root


def _read(path: Path) -> Any:
    from configobj import ConfigObj, ConfigObjError

    try:
        return ConfigObj(str(path), encoding="utf-8", write_empty_values=True, list_values=False)
    except ConfigObjError as error:
        raise OrchestrationError(f"cannot be read: {error}", where=path.name, remedy="restore it from git") from None


def _section(name: str) -> str:
    return f'remote "{name}"'


def find_remote(workspace: Workspace) -> Remote | None:
    """The remote that was chosen; None when there is none.

    Raises ParamsError when the address or `.dvc/config` holds a credential.
    """
    root = main_root(workspace)
    if url := os.environ.get(VARIABLE):
        refuse_credentials(url)
        return Remote(_absolute(url, root), VARIABLE)
    name = ""
    options: dict[str, str] = {}
    for file in ("config", "config.local"):
        path = root / ".dvc" / file
        if not path.is_file():
            continue
        config = _read(path)
        name = config.get("core", {}).get("remote", name)
        own = {key: str(value) for key, value in config.get(_section(name), {}).items()}
        if file == "config" and (written := sorted(set(own) & set(_WRITTEN_SECRETS))):
            raise ParamsError(
                f"a credential is written there: {', '.join(written)}",
                where=f".dvc/config, remote {name}",
                remedy="take it out (and change it, git keeps it); credentials come from the environment",
            )
        options |= own
    if not name or "url" not in options:
        return None
    url = options.pop("url")
    refuse_credentials(url)
    places: dict[str, str] = {key: options[key] for key in _PLACES if key in options}
    return Remote(_absolute(url, root / ".dvc"), ".dvc/config", places)


def _absolute(url: str, base: Path) -> str:
    """A folder's address as an absolute path; DVC notes one relative to the folder of its config."""
    if "://" in url:
        return url
    path = Path(url).expanduser()
    return str(path if path.is_absolute() else Path(os.path.normpath(base / path)))


def require_remote(workspace: Workspace) -> Remote:
    """Raises OrchestrationError where none was chosen."""
    remote = find_remote(workspace)
    if remote is None:
        raise OrchestrationError(
            "no remote was chosen",
            where="data",
            remedy="cowork data remote URL (a folder, s3://bucket/prefix or azure://container/prefix)",
        )
    return remote


def choose_remote(workspace: Workspace, url: str, options: Mapping[str, str]) -> Remote:
    """Write the address into `.dvc/config` as DVC's default remote. Raises ParamsError for one that carries a secret
    or is of no kind we know."""
    refuse_credentials(url)
    for value in options.values():
        refuse_credentials(value)
    root = main_root(workspace)
    scheme, mark, _ = url.partition("://")
    if mark and scheme == "file":
        url, mark = url.removeprefix("file://"), ""
    if not mark:
        given = Path(url).expanduser()
        url = str(given) if given.is_absolute() else os.path.relpath(Path.cwd() / given, root / ".dvc")
    elif scheme not in ("s3", "azure"):
        open_store(url)  # says which kinds there are
    path = root / ".dvc" / "config"
    config = _read(path)
    core = config.setdefault("core", {})
    name = core.setdefault("remote", NAME)
    old = config.get(_section(name), {})
    kept = {key: value for key, value in old.items() if key in options and key != "url"}
    config[_section(name)] = {"url": url, **kept, **{key: value for key, value in options.items() if value}}
    for section in config.values():
        section.indent_type = "    "
    config.indent_type = "    "
    draft = path.with_name(f".config.{os.getpid()}")
    with draft.open("wb") as handle:
        config.write(handle)
    os.replace(draft, path)
    found = find_remote(workspace)
    assert found is not None
    return found


def cache_store(workspace: Workspace) -> FolderStore:
    """DVC's cache of this recipe, laid out like a remote."""
    folder = main_root(workspace) / ".dvc"
    config = _read(folder / "config") if (folder / "config").is_file() else {}
    chosen = config.get("cache", {}).get("dir", "cache")
    return FolderStore(Path(os.path.normpath(folder / chosen)))
