"""Places for the boxes and lines of a small DAG drawn from left to right. Pure geometry in units of boxes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

Edge = tuple[int, int]

RAIL = 0.34
"""Height a passing line takes between boxes, in boxes."""
SWEEPS = 6


@dataclass
class Layout:
    """`column` and `row` of every node (boxes), and for every edge the stops (column, row) its line passes."""

    column: list[int]
    row: list[float]
    lines: dict[Edge, list[tuple[int, float]]] = field(default_factory=dict)
    rows: float = 0.0


def columns(count: int, edges: Iterable[Edge]) -> list[int]:
    """Column of each node: one right of its furthest source. A cycle (no DAG) stops growing at `count`."""
    pairs = list(edges)
    column = [0] * count
    for _ in range(count):
        before = list(column)
        for source, target in pairs:
            column[target] = min(max(column[target], column[source] + 1), count)
        if column == before:
            break
    return column


def reduced(count: int, edges: Iterable[Edge]) -> list[Edge]:
    """The edges that no other path implies (transitive reduction)."""
    pairs = sorted(set(edges))
    after: dict[int, set[int]] = defaultdict(set)
    for source, target in pairs:
        after[source].add(target)

    def reaches(start: int, goal: int) -> bool:
        seen, waiting = set(), [start]
        while waiting:
            node = waiting.pop()
            if node == goal:
                return True
            if node not in seen:
                seen.add(node)
                waiting += after[node]
        return False

    return [(s, t) for s, t in pairs if not any(reaches(other, t) for other in after[s] if other not in (s, t))]


def layout(count: int, edges: Iterable[Edge]) -> Layout:
    """Columns by depth; rows by the usual back-and-forth barycentre sweeps; lines over several columns share a rail.

    All lines that leave one node for far columns run together, in a lane that no box covers.
    """
    pairs = sorted(set(edges))
    column = columns(count, pairs)
    items: list[tuple[int, float]] = [(column[node], 1.0) for node in range(count)]
    rail: dict[tuple[int, int], int] = {}
    links: set[Edge] = set()
    chains: dict[Edge, list[int]] = {}
    for source, target in pairs:
        chain = [source]
        for at in range(column[source] + 1, column[target]):
            if (source, at) not in rail:
                rail[source, at] = len(items)
                items.append((at, RAIL))
            chain.append(rail[source, at])
        chain.append(target)
        chains[source, target] = chain
        links.update(zip(chain, chain[1:], strict=False))
    row = _rows(items, links)
    lines = {edge: [(items[item][0], row[item]) for item in chain[1:-1]] for edge, chain in chains.items()}
    lowest = min(row, default=0.0)
    out = Layout(column, [value - lowest for value in row[:count]])
    out.lines = {edge: [(at, value - lowest) for at, value in stops] for edge, stops in lines.items()}
    out.rows = max((row[i] - lowest + height for i, (_, height) in enumerate(items)), default=0.0)
    return out


def _rows(items: list[tuple[int, float]], links: set[Edge]) -> list[float]:
    """Top of each item. Middles are drawn towards those of the neighbours; within a column nothing overlaps."""
    row = [0.0] * len(items)
    neighbours: dict[int, list[int]] = defaultdict(list)
    for source, target in sorted(links):
        neighbours[source].append(target)
        neighbours[target].append(source)
    by_column: dict[int, list[int]] = defaultdict(list)
    for index, (at, _) in enumerate(items):
        by_column[at].append(index)
    for members in by_column.values():
        top = 0.0
        for index in members:
            row[index] = top
            top += items[index][1]

    def middle(index: int) -> float:
        return row[index] + items[index][1] / 2

    for sweep in range(SWEEPS):
        order = sorted(by_column, reverse=bool(sweep % 2))
        for at in order:
            side = -1 if sweep % 2 == 0 else 1
            wanted = {}
            for index in by_column[at]:
                near = [n for n in neighbours[index] if (items[n][0] - at) * side > 0] or neighbours[index]
                wanted[index] = sum(middle(n) for n in near) / len(near) if near else middle(index)
            _place(sorted(by_column[at], key=lambda i: (wanted[i], row[i], i)), wanted, items, row)
    return row


def _place(order: list[int], wanted: dict[int, float], items: list[tuple[int, float]], row: list[float]) -> None:
    """Put the items of a column in that order, each as near to its wanted middle as its upper neighbours let it.

    Blocks that were pushed down together are moved up by their mean shift, so that they sit around what they want.
    """
    blocks: list[list[int]] = []
    starts: list[float] = []
    for index in order:
        block, start = [index], wanted[index] - items[index][1] / 2
        while blocks and start < starts[-1] + sum(items[i][1] for i in blocks[-1]) - 1e-9:
            block = blocks.pop() + block
            starts.pop()
            offset, ideal = 0.0, []
            for member in block:
                ideal.append(wanted[member] - items[member][1] / 2 - offset)
                offset += items[member][1]
            start = sum(ideal) / len(ideal)
        blocks.append(block)
        starts.append(start)
    for block, start in zip(blocks, starts, strict=True):
        for member in block:
            row[member] = start
            start += items[member][1]
