"""What a desktop image holds beyond its packages: `python -m components.sandbox.x11.drivers.image FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from components.sandbox.x11.drivers import layout


def write(folder: Path) -> list[Path]:
    """`guest.tar`: agent, made-up /etc and an empty home, unpacked when the image is built; `episode.tar`: what each
    session of a pod starts from. The same code gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, system in (("guest.tar", True), ("episode.tar", False)):
        (folder / name).write_bytes(layout.archive(system=system))
        made.append(folder / name)
    return made


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        print(path)
