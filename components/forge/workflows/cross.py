"""Workflows over two applications: carry a value from one to the other, or reach two goals.

Where the first part is to *read* something, the terminal can do it (`cat`) and the screen can (open and look); the
form can only be filled on the screen, so the short route is mixed.
"""

from __future__ import annotations

from random import Random

from components.forge import words
from components.forge.workflows import scene
from components.forge.workflows.base import Args, Bank, Branches, by_hand, check, either, goal, others, step, workflow
from components.forge.workflows.files import delete_stage, folder_stage, rename_stage
from components.forge.workflows.prefs import ON_OFF, pref_stage
from components.forge.workflows.sheet import set_cell_stage, with_cell


def _sample_note_form(rng: Random, bank: Bank) -> Args:
    field = rng.choice(words.FORM_TEXTS)
    return {
        "file": bank.word() + ".txt", "value": bank.word(), "field": field,
        "form": scene.form(rng, (field,)), "noise": scene.noise(rng, bank, most=2),
    }  # fmt: skip


def _note_form(args: Args) -> Branches:
    file, values = args["file"], {args["field"]: args["value"]}
    return Branches(
        setup=(
            scene.form_step(args["form"]),
            scene.text_step(file, str(args.get("written", args["value"])) + "\n"),
            *scene.noise_steps(args["noise"]),
        ),
        checks=(check("form_record", values=values), others(forms=True)),
        plan=(either(goal("read_note", file=file), f"cat {file}"), by_hand("fill_form", values=values)),
        shortcut=(by_hand("fill_form", values={args["field"]: file.split(".")[0]}),),
    )


def _wrong_value(rng: Random, bank: Bank, args: Args) -> Args:
    """Something else is sent; the note still says what it said."""
    return {**args, "value": scene.spare_word(bank, args), "written": args["value"]}


NOTE_TO_FORM = workflow(
    "note-to-form",
    (
        ("read the word in {file}", "take the word in {file}"),
        ("and send it as {field} in the form", "then send the form with it as {field}"),
    ),
    _sample_note_form,
    _note_form,
    _wrong_value,
    max_steps=16,
)


def _sample_cell_form(rng: Random, bank: Bank) -> Args:
    field, file, rows = rng.choice(words.FORM_TEXTS), bank.word() + ".csv", scene.sheet(rng, bank)
    cell = rng.choice("bc") + str(rng.randint(2, 4))
    value = rows[int(cell[1]) - 1]["abc".index(cell[0])]
    return {
        "file": file, "rows": rows, "cell": cell, "value": value, "field": field,
        "form": scene.form(rng, (field,)), "noise": scene.noise(rng, bank, most=2),
    }  # fmt: skip


def _cell_form(args: Args) -> Branches:
    file, values = args["file"], {args["field"]: args["value"]}
    return Branches(
        setup=(
            scene.form_step(args["form"]),
            step("sheet_file", path=file, rows=args["rows"]),
            *scene.noise_steps(args["noise"]),
        ),
        checks=(check("form_record", values=values), others(forms=True)),
        plan=(either(goal("read_sheet", file=file), f"cat {file}"), by_hand("fill_form", values=values)),
        shortcut=(by_hand("fill_form", values={args["field"]: args["cell"]}),),
    )


def _wrong_cell(rng: Random, bank: Bank, args: Args) -> Args:
    """The neighbour's value."""
    row = args["rows"][int(args["cell"][1]) - 1]
    return {**args, "value": row[2] if args["cell"][0] == "b" else row[1]}


CELL_TO_FORM = workflow(
    "cell-to-form",
    (
        ("read cell {cell} of {file}", "take the value in cell {cell} of {file}"),
        ("and send it as {field} in the form", "then send the form with it as {field}"),
    ),
    _sample_cell_form,
    _cell_form,
    _wrong_cell,
    max_steps=16,
)


def _sample_note_cell(rng: Random, bank: Bank) -> Args:
    note, sheet_name, rows = bank.word() + ".txt", bank.word() + ".csv", scene.sheet(rng, bank)
    return {
        "file": note, "sheet": sheet_name, "rows": rows, "cell": rng.choice("bc") + str(rng.randint(2, 4)),
        "value": bank.word(5), "noise": scene.noise(rng, bank, most=1),
    }  # fmt: skip


def _note_cell(args: Args) -> Branches:
    file, sheet, cell, value = args["file"], args["sheet"], args["cell"], args["value"]
    return Branches(
        setup=(
            scene.text_step(file, str(args.get("written", value)) + "\n"),
            step("sheet_file", path=sheet, rows=args["rows"]),
            *scene.noise_steps(args["noise"]),
        ),
        checks=(check("sheet_rows", path=sheet, rows=with_cell(args["rows"], cell, value)), others(sheet)),
        plan=(either(goal("read_note", file=file), f"cat {file}"), set_cell_stage(sheet, args["rows"], cell, value)),
        shortcut=(set_cell_stage(sheet, args["rows"], cell, file.split(".")[0]),),
    )


NOTE_TO_CELL = workflow(
    "note-to-cell",
    (
        ("read the word in {file}", "take the word in {file}"),
        ("and put it in cell {cell} of {sheet}", "and write it in {cell} of {sheet}"),
    ),
    _sample_note_cell,
    _note_cell,
    lambda rng, bank, args: {**args, "value": scene.spare_word(bank, args, 5), "written": args["value"]},
    max_steps=16,
)


def _flip(rng: Random, bank: Bank) -> Args:
    """A checkbox that has to change, and the preferences around it."""
    label = rng.choice(words.CHECKS)
    start = scene.prefs(rng, bank, label)
    return {"label": label, "state": ON_OFF[not start["checks"][label]], "prefs": start}


def _sample_cell_pref(rng: Random, bank: Bank) -> Args:
    return {
        "file": bank.word() + ".csv", "rows": scene.sheet(rng, bank),
        "cell": rng.choice("bc") + str(rng.randint(2, 4)), "value": str(bank.number()), **_flip(rng, bank),
    }  # fmt: skip


def _cell_pref(args: Args) -> Branches:
    file, cell, value, key = args["file"], args["cell"], args["value"], args["label"]
    first, second = (
        set_cell_stage(file, args["rows"], cell, value),
        pref_stage("set_check", args["prefs"], args["label"], label=args["label"], state=args["state"]),
    )
    return Branches(
        setup=(step("sheet_file", path=file, rows=args["rows"]), scene.prefs_step(args["prefs"])),
        checks=(
            check("sheet_rows", path=file, rows=with_cell(args["rows"], cell, value)),
            check("pref_equals", key=key, value=args["state"] == "on"),
            others(file, prefs=(key,)),
        ),
        plan=(first, second),
        shortcut=(second,),
    )


CELL_AND_PREF = workflow(
    "cell-and-pref",
    (
        ("set cell {cell} of {file} to {value}", "set {cell} in {file} to {value}"),
        ("and turn {state} {label}", "then switch {state} {label}"),
    ),
    _sample_cell_pref,
    _cell_pref,
    lambda rng, bank, args: {**args, "value": str(next(n for n in iter(bank.number, -1) if str(n) not in repr(args)))},
    max_steps=16,
)


def _sample_delete_pref(rng: Random, bank: Bank) -> Args:
    file = bank.word() + rng.choice((".txt", ".log", ".csv"))
    return {"file": file, "noise": scene.noise(rng, bank, least=2, most=3), **_flip(rng, bank)}


def _delete_pref(args: Args) -> Branches:
    file, key = args["file"], args["label"]
    first, second = (
        delete_stage(file),
        pref_stage("set_check", args["prefs"], args["label"], label=args["label"], state=args["state"]),
    )
    return Branches(
        setup=(scene.text_step(file, "\n"), scene.prefs_step(args["prefs"]), *scene.noise_steps(args["noise"])),
        checks=(
            check("file_absent", path=file),
            check("pref_equals", key=key, value=args["state"] == "on"),
            others(file, prefs=(key,)),
        ),
        plan=(first, second),
        shortcut=(first,),
    )


DELETE_AND_PREF = workflow(
    "delete-and-pref",
    (
        ("delete {file}", "remove the file {file}"),
        ("and turn {state} {label}", "then switch {state} {label}"),
    ),
    _sample_delete_pref,
    _delete_pref,
    lambda rng, bank, args: {**args, "file": next(path for path, _ in args["noise"] if "." in path)},
    max_steps=16,
)


def _sample_rename_form(rng: Random, bank: Bank) -> Args:
    field = rng.choice(words.FORM_TEXTS)
    return {
        "old": bank.word(), "new": bank.word(), "extension": rng.choice((".txt", ".md")), "field": field,
        "text": bank.filler() + "\n", "form": scene.form(rng, (field,)), "noise": scene.noise(rng, bank, most=2),
    }  # fmt: skip


def _rename_form(args: Args) -> Branches:
    old, new = args["old"] + args["extension"], args["new"] + args["extension"]
    stages = (rename_stage(old, new), by_hand("fill_form", values={args["field"]: new}))
    return Branches(
        setup=(scene.form_step(args["form"]), scene.text_step(old, args["text"]), *scene.noise_steps(args["noise"])),
        checks=(
            check("file_absent", path=old),
            check("same_bytes_as_setup", path=new, source=old),
            check("form_record", values={args["field"]: new}),
            others(old, new, forms=True),
        ),
        plan=stages,
        shortcut=stages[1:],
    )


RENAME_AND_FORM = workflow(
    "rename-and-form",
    (
        ("rename {old}{extension} to {new}{extension}", "change the name of {old}{extension} to {new}{extension}"),
        ("and send the new name as {field} in the form", "then send the form with the new name as {field}"),
    ),
    _sample_rename_form,
    _rename_form,
    lambda rng, bank, args: {**args, "new": scene.spare_word(bank, args)},
    max_steps=16,
)


def _sample_folder_option(rng: Random, bank: Bank) -> Args:
    start = scene.prefs(rng, bank)
    menu = start["menu"]
    return {
        "name": bank.word(), "menu": menu["label"],
        "option": rng.choice([o for o in menu["options"] if o != menu["value"]]),
        "prefs": start, "noise": scene.noise(rng, bank, most=3),
    }  # fmt: skip


def _folder_option(args: Args) -> Branches:
    name = args["name"]
    stages = (folder_stage(name), pref_stage("choose", args["prefs"], label=args["menu"], option=args["option"]))
    return Branches(
        setup=(scene.prefs_step(args["prefs"]), *scene.noise_steps(args["noise"])),
        checks=(
            check("dir_exists", path=name),
            check("pref_equals", key=args["menu"], value=args["option"]),
            others(name, prefs=(args["menu"],)),
        ),
        plan=stages,
        shortcut=stages[:1],
    )


FOLDER_AND_OPTION = workflow(
    "folder-and-option",
    (
        ("make a folder named {name}", "create the folder {name}"),
        ("and choose {option} as the {menu}", "then select the {menu} {option}"),
    ),
    _sample_folder_option,
    _folder_option,
    lambda rng, bank, args: {**args, "name": scene.spare_word(bank, args)},
    max_steps=16,
)

WORKFLOWS = (
    NOTE_TO_FORM, CELL_TO_FORM, NOTE_TO_CELL, CELL_AND_PREF, DELETE_AND_PREF, RENAME_AND_FORM, FOLDER_AND_OPTION,
)  # fmt: skip
