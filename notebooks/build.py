"""`python notebooks/build.py`: write `read_a_run.ipynb` from the cells below and execute it on the run in this folder.

Without a finished run it shows `sample.json`, recorded from a small one by `--record`. The notebook calls the package
and holds no logic of its own. `--root` names another recipe folder, e.g. `.cowork/profiles/smoke`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from components.tracking.report.data import ReportData

NOTEBOOK = HERE / "read_a_run.ipynb"
SAMPLE = HERE / "sample.json"
ROOT_VARIABLE = "COWORK_NOTEBOOK_ROOT"

CELLS: list[tuple[str, str]] = [
    (
        "markdown",
        """# Reading a finished run

Every stage leaves what it did in its artifacts, so a run can be read long after its processes are gone. This notebook
reads them through `components.tracking` and draws with `components.tracking.figures`; the report page
(`outputs/report/report.html`) is made of the same data.""",
    ),
    (
        "code",
        """import os
from pathlib import Path

from components.contracts.load_params import load_params
from components.tracking import figures
from components.tracking.scores import summary, table
from pipelines.registry import STAGES
from pipelines.workspace import SOURCE

# Another profile's run: root = Path(".cowork/profiles/smoke")
root = Path(os.environ.get("COWORK_NOTEBOOK_ROOT", SOURCE))
params = load_params(root / "params.yaml").model_dump(mode="json")
data, source = figures.read_run(root, STAGES["report"].inputs, params, sample=SOURCE / "notebooks" / "sample.json")
print(source)""",
    ),
    (
        "markdown",
        """## What each stage reached

The same held-out tasks for every checkpoint, greedy, infrastructure failures counted as not solved. `calls` and
`tokens` are means of an episode, `GUI %` the share of executed calls that went to the screen.""",
    ),
    ("code", "print(table(summary(data.scores, data.seconds)))"),
    ("code", "figures.success_figure(data);"),
    (
        "markdown",
        """## How it learned

The language-model loss of the supervised stages, then what online training changed.""",
    ),
    ("code", "figures.curves_figure(data);"),
    ("code", "figures.rl_figure(data);"),
    (
        "markdown",
        """## One episode

The policy sees the screen and nothing else. Rings and arrows are its own actions; the words below are its own too.""",
    ),
    ("code", "figures.filmstrip(data, figures.choose_episode(data));"),
    (
        "markdown",
        """## Where the data went

From tasks to trajectories to corpora: what was kept, and the commonest reason for what was not.""",
    ),
    ("code", "figures.funnel_figure(data);"),
]


def build() -> NotebookNode:
    """The notebook without outputs. Cell ids are positions, so equal cells give equal bytes."""
    import nbformat

    notebook = nbformat.v4.new_notebook()
    for number, (kind, text) in enumerate(CELLS):
        make = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        cell = make(text)
        cell.id = f"cell-{number:02d}"
        notebook.cells.append(cell)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def execute(notebook: NotebookNode, root: Path) -> None:
    """Run all cells on the recipe folder `root`, in place; what depends on the clock or the machine is taken out.

    Raises nbclient's CellExecutionError with the traceback of the first cell that fails.
    """
    from nbclient import NotebookClient

    os.environ[ROOT_VARIABLE] = str(root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(HERE)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("text/plain", None) if "image/png" in output.get("data", {}) else None
    notebook.metadata.pop("language_info", None)


def record(root: Path) -> ReportData:
    """A small part of a run, enough to show every figure: two episodes, thin curves."""
    from components.contracts.load_params import load_params
    from components.tracking.figures import choose_episode, read_run
    from pipelines.registry import STAGES

    params = load_params(root / "params.yaml").model_dump(mode="json")
    data, _ = read_run(root, STAGES["report"].inputs, params)
    data.record = None  # it names the machine
    data.episodes = [choose_episode(data)]
    shown = {name for view in data.episodes for step in view.steps for name in (step.screen, step.screen_after)}
    data.screens = {name: png for name, png in data.screens.items() if name in shown}
    data.curves = [curve for curve in data.curves if curve.name == "loss"]
    for curve in data.curves:
        curve.points = curve.points[:: max(1, len(curve.points) // 60)]
    return data


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, default=HERE.parent, help="a recipe folder with outputs")
    parser.add_argument("--record", action="store_true", help="record sample.json from that folder first")
    options = parser.parse_args()
    if options.record:
        SAMPLE.write_text(record(options.root).model_dump_json(indent=1) + "\n", encoding="utf-8")
    import nbformat

    notebook = build()
    execute(notebook, options.root.resolve())
    text: str = nbformat.writes(notebook)
    NOTEBOOK.write_text(re.sub(r"[ \t]+\n", "\n", text), encoding="utf-8")
    print(f"wrote {NOTEBOOK.name}, {NOTEBOOK.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
