"""Pictures of lineage: boxes for what made something, lines for the digests between them. One SVG element each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from components.contracts.digests import short
from components.tracking.dag_layout import RAIL, layout, reduced
from components.tracking.lineage import RunRecord, StageRecord
from components.tracking.lineage_graph import Graph, Node, State

_WIDTH, _HEIGHT, _GAP_X, _PITCH, _MARGIN = 148, 58, 44, 74, 12

_STYLE = (
    "<style>.lineage-edge{fill:none;stroke:#8a94a6;stroke-width:1.4}.lineage-box{fill:Canvas;stroke:#8a94a6;"
    "stroke-width:1.3}.lineage text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:currentColor}"
    ".lineage .lineage-small{font-size:10.5px;opacity:.72}.lineage .lineage-hash{font-family:ui-monospace,monospace}"
    ".lineage-finished{stroke:#2f9e62}.lineage-failed,.lineage-killed{stroke:#d0443e;stroke-width:2}"
    ".lineage-reused{stroke:#2f9e62;stroke-dasharray:4 3}.lineage-given{stroke-dasharray:1 3}"
    ".lineage-wanted{stroke-width:3}.lineage .lineage-mark{font-weight:bold;text-anchor:end}"
    ".lineage .lineage-verified{fill:#2f9e62}.lineage .lineage-different{fill:#d0443e}"
    ".lineage .lineage-missing{fill:#b7791f}</style>"
)
_MARKS: dict[State, str] = {"verified": "✓", "missing": "?", "different": "✗", "unchecked": ""}
_WORST: tuple[State, ...] = ("different", "missing", "unchecked", "verified")


@dataclass
class Box:
    """One box: three lines of text, what a pointer is told, its look, and the state of what it made."""

    name: str
    facts: str
    label: str
    title: list[str]
    look: str
    state: State = "unchecked"
    wanted: bool = False
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)


def pipeline_picture(record: RunRecord, checked: Mapping[str, State] | None = None) -> str:
    """A run's DAG from left to right, each stage with the short form of its first output.

    `checked`: digest -> what a look at the files found; it is shown as a mark in the corner of the maker's box.
    Lines that others imply are left out; a box's title lists everything the stage read and wrote, in full.
    """
    states = checked or {}
    made = {artifact.digest for stage in record.stages for artifact in stage.outputs}
    given = {a.digest: a for stage in record.stages for a in stage.inputs if a.digest not in made}
    nodes = [Node(name=a.name, path=a.path, digest=a.digest, kind=a.kind) for a in given.values()]
    for node in nodes:
        node.state = states.get(node.digest, "unchecked")
    return _draw([_given_box(node) for node in nodes] + [_stage_box(stage, states) for stage in record.stages])


def graph_picture(graph: Graph) -> str:
    """What an artifact came from: the steps that made it and what was given to them; its maker's box is bold."""
    boxes = [_given_box(node) for node in graph.nodes.values() if not node.maker]
    for step in graph.steps.values():
        outputs = [graph.nodes[item] for item in step.outputs]
        # What else the step wrote is not in the tree; the box speaks for what is.
        box = Box(
            step.stage,
            f"{step.seconds:.0f} s" if step.status == "finished" else step.status,
            short(outputs[0].digest, 12) if outputs else "no output",
            [f"{step.stage} ({step.status}), run {step.run}", f"key {step.key}"],
            step.status,
        )
        box.reads = [graph.nodes[item].digest for item in step.inputs]
        box.writes = [node.digest for node in outputs]
        box.state = _worst(node.state for node in outputs)
        box.wanted = any(item in graph.roots for item in step.outputs)
        box.title += [f"reads {graph.nodes[i].name} {graph.nodes[i].digest}" for i in step.inputs]
        box.title += [f"writes {node.name} {node.digest}: {node.state}" for node in outputs]
        boxes.append(box)
    return _draw(boxes)


def _stage_box(stage: StageRecord, checked: Mapping[str, State]) -> Box:
    title = [f"{stage.name} ({stage.status})"]
    title += [f"reads {artifact.name} {artifact.digest}" for artifact in stage.inputs]
    for artifact in stage.outputs:
        state = checked.get(artifact.digest)
        title.append(f"writes {artifact.name} {artifact.digest}" + (f": {state}" if state else ""))
    box = Box(
        stage.name,
        f"{stage.seconds:.0f} s" if stage.status == "finished" else stage.status,
        short(stage.outputs[0].digest, 12) if stage.outputs else "no output",
        title,
        stage.status,
    )
    box.reads = [artifact.digest for artifact in stage.inputs]
    box.writes = [artifact.digest for artifact in stage.outputs]
    box.state = _worst(checked.get(digest, "unchecked") for digest in box.writes)
    return box


def _given_box(node: Node) -> Box:
    title = [f"{node.path or node.name} (given)", f"{node.name} {node.digest}: {node.state}"]
    name = (node.path or node.name).rstrip("/").rpartition("/")[2]
    return Box(name, "given", short(node.digest, 12), title, "given", node.state, writes=[node.digest])


def _worst(states: object) -> State:
    found = set(states)  # type: ignore[call-overload]
    return next((state for state in _WORST if state in found), "unchecked")


def _draw(boxes: Sequence[Box]) -> str:
    made = {digest: index for index, box in enumerate(boxes) for digest in box.writes}
    edges: dict[tuple[int, int], str] = {}
    for index, box in enumerate(boxes):
        for digest in box.reads:
            source = made.get(digest)
            if source is not None and source != index:
                edges.setdefault((source, index), digest)
    shown = reduced(len(boxes), edges)
    places = layout(len(boxes), shown)

    def left_of(column: int) -> float:
        return _MARGIN + column * (_WIDTH + _GAP_X)

    left = [left_of(at) for at in places.column]
    top = [_MARGIN + at * _PITCH for at in places.row]
    width = max(left, default=0) + _WIDTH + _MARGIN
    height = max(places.rows * _PITCH, _HEIGHT) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lineage" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="stages and the digests between them">',
        _STYLE,
    ]
    for source, target in shown:
        passed = places.lines[source, target]
        stops = [(left_of(at), _MARGIN + (row + RAIL / 2) * _PITCH) for at, row in passed]
        start = (left[source] + _WIDTH, top[source] + _HEIGHT / 2)
        path = _line(start, stops, (left[target], top[target] + _HEIGHT / 2))
        says = f"{boxes[source].name} to {boxes[target].name}: {edges[source, target]}"
        parts.append(f'<path class="lineage-edge" d="{path}"><title>{escape(says)}</title></path>')
    parts += [_box(box, x, y) for box, x, y in zip(boxes, left, top, strict=True)]
    return "".join(parts) + "</svg>"


def _line(start: tuple[float, float], stops: list[tuple[float, float]], end: tuple[float, float]) -> str:
    """A smooth path; at a stop it runs straight for the width of a box, between the boxes of that column."""
    path = [f"M{start[0]:.0f} {start[1]:.1f}"]
    at = start
    for x, y in [*stops, end]:
        bend = (x - at[0]) / 2
        path.append(f"C{at[0] + bend:.0f} {at[1]:.1f} {x - bend:.0f} {y:.1f} {x:.0f} {y:.1f}")
        at = (x, y)
        if (x, y) != end:
            at = (x + _WIDTH, y)
            path.append(f"H{at[0]:.0f}")
    return " ".join(path)


def _box(box: Box, x: float, y: float) -> str:
    mark = _MARKS[box.state]
    corner = ""
    if mark:
        where = f'x="{x + _WIDTH - 9:.0f}" y="{y + 36:.1f}"'
        corner = f'<text class="lineage-mark lineage-{box.state}" {where}>{mark}</text>'
    look = f"lineage-{box.look}" + (" lineage-wanted" if box.wanted else "")
    return (
        f"<g><title>{escape(chr(10).join(box.title))}</title>"
        f'<rect class="lineage-box {look}" x="{x:.0f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="7"/>'
        f'<text x="{x + 10:.0f}" y="{y + 19:.1f}">{escape(box.name)}</text>{corner}'
        f'<text class="lineage-small" x="{x + 10:.0f}" y="{y + 34:.1f}">{escape(box.facts)}</text>'
        f'<text class="lineage-small lineage-hash" x="{x + 10:.0f}" y="{y + 49:.1f}">{escape(box.label)}</text></g>'
    )
