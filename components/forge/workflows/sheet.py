"""Workflows of the Sheet app on real .csv and .xlsx files; the terminal has the guest command `sheet`."""

from __future__ import annotations

from random import Random

from components.forge.preparers import Rows
from components.forge.workflows import scene
from components.forge.workflows.base import (
    Args,
    Bank,
    Branches,
    Stage,
    bash,
    check,
    either,
    goal,
    others,
    step,
    workflow,
)

COLUMNS = "abcd"


def with_cell(rows: Rows, cell: str, value: str) -> Rows:
    """A copy of `rows` with one cell set; rows grow as needed."""
    column, row = COLUMNS.index(cell[0]), int(cell[1:]) - 1
    grown = [list(r) for r in rows] + [[] for _ in range(row + 1 - len(rows))]
    grown[row] += [""] * (column + 1 - len(grown[row]))
    grown[row][column] = value
    return grown


def set_cell_stage(file: str, rows: Rows, cell: str, value: str) -> Stage:
    wanted = with_cell(rows, cell, value)
    return either(goal("set_cell", file=file, cell=cell, value=value, rows=wanted), f"sheet set {file} {cell} {value}")


def _sample_set(rng: Random, bank: Bank) -> Args:
    file, rows = scene.sheet_name(rng, bank), scene.sheet(rng, bank)
    cell = rng.choice(COLUMNS[1:3]) + str(rng.randint(2, 4))
    return {
        "file": file,
        "rows": rows,
        "cell": cell,
        "value": str(bank.number()),
        "noise": scene.noise(rng, bank, most=3),
    }


def _set(args: Args) -> Branches:
    file, cell, value = args["file"], args["cell"], args["value"]
    neighbour = cell[0] + ("3" if cell[1] == "2" else "2")
    return Branches(
        setup=(step("sheet_file", path=file, rows=args["rows"]), *scene.noise_steps(args["noise"])),
        checks=(check("sheet_rows", path=file, rows=with_cell(args["rows"], cell, value)), others(file)),
        plan=(set_cell_stage(file, args["rows"], cell, value),),
        shortcut=(set_cell_stage(file, args["rows"], neighbour, value),),
    )


SET_CELL = workflow(
    "set-cell",
    (
        ("set", "change"),
        (
            "cell {cell} of {file} to {value}",
            "{cell} in {file} to {value}",
            "cell {cell} in the sheet {file} to {value}",
        ),
    ),
    _sample_set,
    _set,
    lambda rng, bank, args: {**args, "value": str(next(n for n in iter(bank.number, -1) if str(n) not in repr(args)))},
)


def sorted_rows(rows: Rows, column: str) -> Rows:
    """The header, then the rows by a column: as numbers when all are, else as text."""
    index = COLUMNS.index(column)
    numeric = all(row[index].isdigit() for row in rows[1:])
    return [rows[0], *sorted(rows[1:], key=lambda row: (int(row[index]), "") if numeric else (0, row[index]))]


def _sample_sort(rng: Random, bank: Bank) -> Args:
    file, rows = scene.sheet_name(rng, bank), scene.sheet(rng, bank, rows=4)
    column = rng.choice(COLUMNS[:3])
    while sorted_rows(rows, column) == rows:
        body = rows[1:]
        rng.shuffle(body)
        rows = [rows[0], *body]
    return {"file": file, "rows": rows, "column": column, "noise": scene.noise(rng, bank, most=3)}


def _sort(args: Args) -> Branches:
    file, column = args["file"], args["column"]
    wanted = sorted_rows(args["rows"], column)
    return Branches(
        setup=(step("sheet_file", path=file, rows=args["rows"]), *scene.noise_steps(args["noise"])),
        checks=(check("sheet_rows", path=file, rows=wanted), others(file)),
        plan=(either(goal("sort_sheet", file=file, column=column, rows=wanted), f"sheet sort {file} {column}"),),
        shortcut=(bash(f"sort {file} > sorted.csv"),),
    )


def _wrong_sort(rng: Random, bank: Bank, args: Args) -> Args:
    """A column that gives another order; when there is none the gate refuses the task."""
    wanted = sorted_rows(args["rows"], args["column"])
    others_ = [c for c in COLUMNS[:3] if c != args["column"]]
    return {**args, "column": next((c for c in others_ if sorted_rows(args["rows"], c) != wanted), others_[0])}


SORT = workflow(
    "sort-sheet",
    (
        ("sort", "order"),
        ("{file} by column {column}", "the rows of {file} by column {column}", "the sheet {file} by column {column}"),
    ),
    _sample_sort,
    _sort,
    _wrong_sort,
)


def _sample_sum(rng: Random, bank: Bank) -> Args:
    file, count = scene.sheet_name(rng, bank), rng.choice((2, 3))
    rows, column = scene.sheet(rng, bank, rows=count), rng.choice(COLUMNS[1:3])
    total = sum(int(row[COLUMNS.index(column)]) for row in rows[1:])
    return {
        "file": file, "rows": rows, "column": column, "cell": f"{column}{count + 2}", "total": str(total),
        "noise": scene.noise(rng, bank, most=3),
    }  # fmt: skip


def _sum(args: Args) -> Branches:
    file, cell = args["file"], args["cell"]
    wanted = with_cell(args["rows"], cell, args["total"])
    return Branches(
        setup=(step("sheet_file", path=file, rows=args["rows"]), *scene.noise_steps(args["noise"])),
        checks=(check("sheet_rows", path=file, rows=wanted), others(file)),
        plan=(
            either(
                goal("sum_column", file=file, cell=cell, value=args["total"], rows=wanted),
                f"sheet sum {file} {args['column']} {cell}",
            ),
        ),
        shortcut=(set_cell_stage(file, args["rows"], cell, "sum"),),
    )


def _wrong_sum(rng: Random, bank: Bank, args: Args) -> Args:
    """The other column's sum."""
    column = "c" if args["column"] == "b" else "b"
    total = sum(int(row[COLUMNS.index(column)]) for row in args["rows"][1:])
    return {**args, "column": column, "cell": column + args["cell"][1:], "total": str(total)}


SUM = workflow(
    "sum-column",
    (
        (
            "put the sum of column {column} in",
            "write the sum of column {column} in",
            "write the total of column {column} in",
        ),
        ("cell {cell} of {file}", "{cell} in {file}"),
    ),
    _sample_sum,
    _sum,
    _wrong_sum,
    derived=("total",),
)

WORKFLOWS = (SET_CELL, SORT, SUM)
