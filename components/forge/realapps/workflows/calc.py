"""Workflows of LibreOffice Calc."""

from __future__ import annotations

from components.forge.realapps.workflows.kit import (
    Args,
    Bank,
    Branches,
    Random,
    SetupStep,
    both,
    check,
    goto,
    keys,
    made,
    noise,
    noise_steps,
    python,
    rest,
    save,
    step,
    term,
)

HEADERS = ("region", "sold", "left")
SHEET = "Numbers"


def _sample_sheet(rng: Random, bank: Bank) -> Args:
    rows = [[bank.word(), bank.number(), bank.number()] for _ in range(3)]
    return {"path": bank.word() + ".xlsx", "rows": [list(HEADERS), *rows], "noise": noise(bank)}


def _setup(args: Args, opened: bool = True) -> tuple[SetupStep, ...]:
    steps = (step("workbook", path=args["path"], sheets=[{"name": SHEET, "rows": args["rows"]}]), *noise_steps(args))
    return (*steps, step("open", app="office", path=args["path"])) if opened else steps


def _edit(args: Args, code: str) -> str:
    path = args["path"]
    return python(
        f"import openpyxl\nbook = openpyxl.load_workbook({path!r})\nsheet = book.active\n{code}\nbook.save({path!r})"
    )


def _cell_sample(rng: Random, bank: Bank) -> Args:
    return {**_sample_sheet(rng, bank), "cell": rng.choice(("B2", "B3", "C3", "C4")), "value": bank.number()}


def _cell(args: Args) -> Branches:
    path, cell, value = args["path"], args["cell"], args["value"]
    rows = [list(row) for row in args["rows"]]
    rows[int(cell[1]) - 1]["ABC".index(cell[0])] = value
    return Branches(
        setup=_setup(args),
        checks=(check("sheet_rows", path=path, rows=rows), rest(path)),
        plan=(both([*goto(cell), ["type", f"{value}\n"], *save(path)], _edit(args, f"sheet[{cell!r}] = {value}")),),
        shortcut=(term(_edit(args, f"sheet['E5'] = {value}")),),
    )


SET_CELL = made(
    "calc-set-cell",
    (
        ("set", "change"),
        ("cell {cell} of {path} to {value}", "{cell} in the workbook {path} to {value}"),
        ("and save it",),
    ),
    _cell_sample,
    _cell,
    lambda rng, bank, args: {**args, "value": args["value"] + 1},
)


def _total_sample(rng: Random, bank: Bank) -> Args:
    args = _sample_sheet(rng, bank)
    column = rng.choice("BC")
    return {**args, "column": column, "total": sum(row["ABC".index(column)] for row in args["rows"][1:])}


def _total(args: Args) -> Branches:
    path, column = args["path"], args["column"]
    cell, formula = f"{column}5", f"=SUM({column}2:{column}4)"
    plus = f"={column}2+{column}3+{column}4"
    return Branches(
        setup=_setup(args),
        checks=(
            check("result", path=path, cell=cell, value=args["total"], formulas=[formula, plus]),
            check("sheet_rows", path=path, rows=args["rows"], exact=False),
            rest(path),
        ),
        plan=(
            both([*goto(cell), ["type", formula + "\n"], *save(path)], _edit(args, f"sheet[{cell!r}] = {formula!r}")),
        ),
        shortcut=(term(_edit(args, f"sheet[{cell!r}] = '=SUM({column}2:{column}3)'")),),
    )


TOTAL = made(
    "calc-total",
    (
        ("put", "write"),
        (
            "the sum of column {column} below it, in {column}5 of {path},",
            "the total of column {column} into {column}5 of {path}",
        ),
        ("and save", "and save the workbook"),
    ),
    _total_sample,
    _total,
    lambda rng, bank, args: {**args, "column": "C" if args["column"] == "B" else "B"},
    derived=("total",),
)


def _banner_sample(rng: Random, bank: Bank) -> Args:
    rows = [[bank.word(), bank.number(), bank.number()] for _ in range(3)]
    return {
        "path": bank.word() + ".xlsx",
        "new": bank.word() + ".xlsx",
        "rows": rows,
        "left": "Spring",
        "right": "Autumn",
    }


def _banner(args: Args) -> Branches:
    """The published demonstration: two banner ranges merged and labelled, a column chart, saved under a new name."""
    path, new = args["path"], args["new"]
    blank = [None] * 7
    table = [blank, ["region", "north", "south", *blank[3:]], *([*row, *blank[3:]] for row in args["rows"])]
    moves = [
        *goto("A1:C1"),
        ["key", "alt", "o"],
        *keys("down", 8),
        ["key", "right"],
        ["key", "down"],
        ["key", "enter"],
        *goto("A1"),
        ["type", args["left"] + "\n"],
        *goto("E1:G1"),
        ["key", "alt", "o"],
        *keys("down", 8),
        ["key", "right"],
        ["key", "down"],
        ["key", "enter"],
        *goto("E1"),
        ["type", args["right"] + "\n"],
        *goto("A2:B5"),
        ["key", "alt", "i"],
        ["key", "down"],
        ["key", "enter"],
        ["window", "Chart Type"],
        ["key", "alt", "f"],
        ["gone", "Chart Type"],
        ["key", "esc"],
        ["key", "esc"],
        ["key", "ctrl", "shift", "s"],
        ["window", "Save"],
        ["key", "ctrl", "a"],
        ["type", new + "\n"],
        ["saved", new],
    ]
    code = (
        f"import openpyxl\nfrom openpyxl.chart import BarChart, Reference\nbook = openpyxl.load_workbook({path!r})\n"
        f"sheet = book.active\nfor place, text in (('A1:C1', {args['left']!r}), ('E1:G1', {args['right']!r})):\n"
        "    sheet.merge_cells(place)\n    sheet[place[:2]] = text\n"
    )
    chart = (
        "chart = BarChart()\nchart.type = 'col'\n"
        "chart.add_data(Reference(sheet, min_col=2, min_row=2, max_row=5), titles_from_data=True)\n"
        "chart.set_categories(Reference(sheet, min_col=1, min_row=3, max_row=5))\nsheet.add_chart(chart, 'E3')\n"
    )
    return Branches(
        setup=(
            step("workbook", path=path, sheets=[{"name": SHEET, "rows": table}]),
            step("open", app="office", path=path),
        ),
        checks=(
            check("merged", path=new, ranges=["A1:C1", "E1:G1"]),
            check("cells", path=new, values={"A1": args["left"], "E1": args["right"]}),
            check("sheet_rows", path=new, rows=[[args["left"], "", "", "", args["right"]], *table[1:]]),
            check("chart", path=new, values="B3:B5"),
            rest(new),
        ),
        plan=(both(moves, python(f"{code}{chart}book.save({new!r})")),),
        shortcut=(term(python(f"{code}book.save({new!r})")),),
    )


BANNER = made(
    "calc-banner-chart",
    (
        (
            "in {path} merge the cells A1 to C1 and label them {left},",
            "merge A1:C1 of {path} into one banner that says {left},",
        ),
        ("merge E1 to G1 and label them {right},", "make E1:G1 another banner that says {right},"),
        ("add a column chart of A2 to B5, and save the workbook as {new}",),
    ),
    _banner_sample,
    _banner,
    lambda rng, bank, args: {**args, "left": args["right"], "right": args["left"]},
    max_steps=60,
)


def _bold(args: Args) -> Branches:
    path, cells = args["path"], [f"{letter}{args['row']}" for letter in "ABC"]
    code = "for cell in {}:\n    sheet[cell].font = Font(bold=True)"
    font = "from openpyxl.styles import Font\n"
    return Branches(
        setup=_setup(args),
        checks=(check("bold", path=path, cells=cells), check("sheet_rows", path=path, rows=args["rows"]), rest(path)),
        plan=(
            both(
                [*goto(f"{cells[0]}:{cells[2]}"), ["key", "ctrl", "b"], *save(path)],
                _edit(args, font + code.format(cells)),
            ),
        ),
        shortcut=(term(_edit(args, font + code.format(cells[:1]))),),
    )


BOLD = made(
    "calc-bold-header",
    (
        ("make",),
        ("row {row} of {path} bold", "the cells A{row} to C{row} of {path} bold"),
        ("and save", "and save the workbook"),
    ),
    lambda rng, bank: {**_sample_sheet(rng, bank), "row": rng.choice((1, 1, 2, 3))},
    _bold,
    lambda rng, bank, args: {**args, "row": args["row"] % 4 + 1},
)


def _row_sample(rng: Random, bank: Bank) -> Args:
    return {**_sample_sheet(rng, bank), "name": bank.word(), "sold": bank.number(), "left": bank.number()}


def _row(args: Args) -> Branches:
    path, row = args["path"], [args["name"], args["sold"], args["left"]]
    return Branches(
        setup=_setup(args),
        checks=(check("sheet_rows", path=path, rows=[*args["rows"], row]), rest(path)),
        plan=(
            both(
                [*goto("A5"), ["type", "\t".join(map(str, row)) + "\n"], *save(path)],
                _edit(args, f"sheet.append({row!r})"),
            ),
        ),
        shortcut=(term(_edit(args, f"sheet.append({row[:2]!r})")),),
    )


ADD_ROW = made(
    "calc-add-row",
    (
        ("add a row to {path}:", "append one row to {path}:"),
        ("{name}, {sold}, {left}", "{name} with {sold} sold and {left} left"),
        ("and save",),
    ),
    _row_sample,
    _row,
    lambda rng, bank, args: {**args, "sold": args["left"], "left": args["sold"]},
)


def _new_sheet(args: Args) -> Branches:
    path = args["path"]
    code = f"more = book.create_sheet({args['name']!r})\n"
    return Branches(
        setup=_setup(args, opened=False),
        checks=(
            check("sheet_names", path=path, names=[SHEET, args["name"]]),
            check("sheet_rows", path=path, rows=args["rows"]),
            check("sheet_rows", path=path, sheet=args["name"], rows=[[args["value"]]]),
            rest(path),
        ),
        plan=(term(_edit(args, code + f"more['A1'] = {args['value']}")),),
        shortcut=(term(_edit(args, code)),),
    )


NEW_SHEET = made(
    "calc-new-sheet",
    (
        ("add a sheet named {name} to {path}", "give {path} a second sheet called {name}"),
        ("and put {value} into its A1", "with {value} in cell A1"),
    ),
    lambda rng, bank: {**_sample_sheet(rng, bank), "name": bank.word(), "value": bank.number()},
    _new_sheet,
    lambda rng, bank, args: {**args, "value": args["value"] + 1},
)


def _sort(args: Args) -> Branches:
    path, column = args["path"], args["column"]
    at = HEADERS.index(column)
    code = (
        "rows = sorted(sheet.iter_rows(min_row=2, values_only=True), key=lambda row: row[{}], reverse={})\n"
        "for number, row in enumerate(rows, 2):\n    for place, value in enumerate(row, 1):\n"
        "        sheet.cell(number, place).value = value"
    )
    done = [args["rows"][0], *sorted(args["rows"][1:], key=lambda row: row[at])]
    return Branches(
        setup=_setup(args, opened=False),
        checks=(check("sheet_rows", path=path, rows=done), rest(path)),
        plan=(term(_edit(args, code.format(at, False))),),
        shortcut=(term(_edit(args, code.format(at, True))),),
    )


def _sort_sample(rng: Random, bank: Bank) -> Args:
    """Rows that stand in the order of neither column."""
    args = _sample_sheet(rng, bank)
    names = [row[0] for row in args["rows"][1:]]
    low, middle, high = sorted(bank.number() for _ in range(3))
    numbers = ((middle, high), (high, low), (low, middle))
    rows = [[name, *pair] for name, pair in zip(names, numbers, strict=True)]
    return {**args, "rows": [list(HEADERS), *rows], "column": rng.choice(HEADERS[1:])}


SORT = made(
    "calc-sort",
    (
        ("sort the rows of {path}", "put the rows of {path} in order"),
        (
            "by {column}, smallest first, below the header",
            "by the column {column}, from small to large, and leave the header on top",
        ),
    ),
    _sort_sample,
    _sort,
    lambda rng, bank, args: {**args, "column": HEADERS[3 - HEADERS.index(args["column"])]},
)

WORKFLOWS = (SET_CELL, TOTAL, BANNER, BOLD, ADD_ROW, NEW_SHEET, SORT)
