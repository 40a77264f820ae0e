"""`cowork desktop record`: from a stored episode to a picture or a film."""

from __future__ import annotations

import json
from pathlib import Path

from components.contracts.errors import DataError
from pipelines.live import episodes_folder
from pipelines.live_policy import recipe
from pipelines.workspace import Workspace


def stores(workspace: Workspace | None) -> list[Path]:
    """Folders with episodes that are known without being named: live ones, newest first, then the recipe's."""
    from components.rollout.film.find import is_store

    live = sorted(episodes_folder(workspace).glob("*"), key=lambda path: path.name, reverse=True)
    root = workspace.root if workspace else Path()
    made = [*sorted((root / "outputs" / "trajectories").glob("*")), *sorted((root / "outputs" / "scores").glob("*"))]
    return [folder for folder in (*live, *made) if is_store(folder)]


def record_episode(episode: str, folder: str, out: str, kind: str, as_json: bool) -> int:
    """Writes one file and says where. Raises DataError when the episode is not found or not whole."""
    from components.rollout.film.find import episodes_in, find_episode, load_film
    from components.rollout.film.make import FORMATS, format_of, write_film

    workspace = recipe()
    known = [Path(folder)] if folder else stores(workspace)
    if not known:
        raise DataError("no stored episodes here", where=str(Path.cwd()), remedy="cowork run, or name a folder: --in")
    if episode == "last":
        newest = known[0] if folder else next((f for f in known if f.parent == episodes_folder(workspace)), None)
        if newest is None:
            raise DataError("there is no live episode yet", where="EPISODE", remedy="cowork act, or name an id")
        listed = episodes_in(newest)[-1]
    else:
        listed = find_episode(episode, known)
    endings: dict[str, str] = {name: ending for ending, name in FORMATS.items()}
    target = Path(out) if out else Path(f"{listed.name.removeprefix('sha256:')[:12]}{endings[kind or 'strip']}")
    if out and kind and format_of(target) != kind:
        raise DataError(f"--format {kind} and --out {out} do not agree", where="--out", remedy="leave one away")
    film = load_film(listed)
    write_film(film, target)
    size = target.stat().st_size
    told = {"file": str(target), "format": format_of(target), "episode": listed.name, "steps": len(film.steps),
            "bytes": size}  # fmt: skip
    print(json.dumps(told) if as_json else f"{target}: {told['steps']} steps, {size / 1000:.0f} kB")
    return 0


def list_episodes(folder: str, as_json: bool) -> int:
    """What could be recorded."""
    from components.rollout.film.find import episodes_in

    known = [Path(folder)] if folder else stores(recipe())
    rows = [episode for place in known for episode in episodes_in(place)]
    if as_json:
        print(json.dumps([
            {"folder": str(e.folder), "number": e.number, "episode": e.name, "instruction": e.instruction,
             "ending": e.ending} for e in rows
        ]))  # fmt: skip
        return 0
    for e in rows:
        print(f"{e.name.removeprefix('sha256:')[:12]}  {e.ending:<11} {e.folder} {e.number}  {e.instruction[:80]}")
    print(f"{len(rows)} episodes in {len(known)} folders")
    return 0
