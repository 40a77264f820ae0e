"""Workflows of the Files app: rename, delete, move, new folders. By hand or with one short command."""

from __future__ import annotations

from random import Random

from components.forge.workflows import scene
from components.forge.workflows.base import Args, Bank, Branches, Stage, bash, check, either, goal, others, workflow

EXTENSIONS = (".txt", ".md", ".csv", ".log")


def rename_stage(old: str, new: str) -> Stage:
    return either(goal("rename", file=old, new=new), f"mv {old} {new}")


def delete_stage(file: str) -> Stage:
    return either(goal("delete", file=file), f"rm {file}")


def folder_stage(name: str) -> Stage:
    return either(goal("new_folder", name=name), f"mkdir {name}")


def _sample_rename(rng: Random, bank: Bank) -> Args:
    extension = rng.choice((".txt", ".txt", ".md", ".log"))
    return {
        "old": bank.word() + extension,
        "new": bank.word() + extension,
        "text": scene.text(rng, bank, 2) + "\n",
        "noise": scene.noise(rng, bank),
    }


def _rename(args: Args) -> Branches:
    old, new = args["old"], args["new"]
    return Branches(
        setup=(scene.text_step(old, args["text"]), *scene.noise_steps(args["noise"])),
        checks=(check("file_absent", path=old), check("same_bytes_as_setup", path=new, source=old), others(old, new)),
        plan=(rename_stage(old, new),),
        shortcut=(bash(f"cp {old} {new}"),),
    )


def _wrong_rename(rng: Random, bank: Bank, args: Args) -> Args:
    extension = args["new"][args["new"].index(".") :]
    return {**args, "new": scene.spare_word(bank, args) + extension}


RENAME = workflow(
    "rename-file",
    (("rename", "change the name of"), ("{old} to {new}", "the file {old} to {new}", "{old} in files to {new}")),
    _sample_rename,
    _rename,
    _wrong_rename,
)


def _sample_delete(rng: Random, bank: Bank) -> Args:
    stem = bank.word()
    files = scene.noise(rng, bank, least=2)
    return {"file": stem + rng.choice(EXTENSIONS), "noise": files}


def _delete(args: Args) -> Branches:
    file = args["file"]
    return Branches(
        setup=(scene.text_step(file, "\n"), *scene.noise_steps(args["noise"])),
        checks=(check("file_absent", path=file), others(file)),
        plan=(delete_stage(file),),
        shortcut=(bash("rm *.*"),),
    )


def _wrong_delete(rng: Random, bank: Bank, args: Args) -> Args:
    """Another file that is there."""
    return {**args, "file": next(path for path, _ in args["noise"] if "." in path)}


DELETE = workflow(
    "delete-file",
    (("delete", "remove", "get rid of"), ("{file}", "the file {file}")),
    _sample_delete,
    _delete,
    _wrong_delete,
)


def _sample_logs(rng: Random, bank: Bank) -> Args:
    logs = [word + ".log" for word in bank.some(rng.choice((2, 2, 3)))]
    return {"logs": logs, "noise": scene.noise(rng, bank, least=1, most=2, logs=False)}


def _logs(args: Args) -> Branches:
    logs = args["logs"]
    return Branches(
        setup=(*(scene.text_step(path, "\n") for path in logs), *scene.noise_steps(args["noise"])),
        checks=(*(check("file_absent", path=path) for path in logs), others(*logs)),
        plan=(either(goal("delete_all", files=sorted(logs)), "rm *.log"),),
        shortcut=(bash(f"rm {logs[0]}"),),
    )


def _wrong_logs(rng: Random, bank: Bank, args: Args) -> Args:
    return {**args, "logs": args["logs"][1:]}


DELETE_LOGS = workflow(
    "delete-logs",
    (("delete", "remove", "get rid of"), ("all .log files", "every .log file", "all files ending in .log")),
    _sample_logs,
    _logs,
    _wrong_logs,
    max_steps=16,
)


def _sample_move(rng: Random, bank: Bank) -> Args:
    stem, folder, other = bank.word(), bank.word(), bank.word()
    return {
        "file": stem + rng.choice(EXTENSIONS), "folder": folder, "other": other, "text": bank.filler() + "\n",
        "noise": scene.noise(rng, bank, most=2, folders=0),
    }  # fmt: skip


def _move(args: Args) -> Branches:
    file, folder = args["file"], args["folder"]
    target = f"{folder}/{file}"
    return Branches(
        setup=(
            scene.text_step(file, args["text"]),
            *scene.noise_steps([[folder, ""], [args["other"], ""], *args["noise"]]),
        ),
        checks=(
            check("file_absent", path=file),
            check("same_bytes_as_setup", path=target, source=file),
            others(file, target),
        ),
        plan=(either(goal("move", file=file, folder=folder), f"mv {file} {folder}"),),
        shortcut=(bash(f"cp {file} {folder}"),),
    )


MOVE = workflow(
    "move-file",
    (("move", "put"), ("{file} into the folder {folder}", "{file} into {folder}", "the file {file} in {folder}")),
    _sample_move,
    _move,
    lambda rng, bank, args: {**args, "folder": args["other"], "other": args["folder"]},
)


def _sample_folder(rng: Random, bank: Bank) -> Args:
    return {"name": bank.word(), "noise": scene.noise(rng, bank)}


def _folder(args: Args) -> Branches:
    name = args["name"]
    return Branches(
        setup=scene.noise_steps(args["noise"]),
        checks=(check("dir_exists", path=name), others(name)),
        plan=(folder_stage(name),),
        shortcut=(bash(f"echo {name} > {name}"),),
    )


NEW_FOLDER = workflow(
    "new-folder",
    (("create", "make", "add"), ("a new folder named {name}", "a folder called {name}", "the folder {name}")),
    _sample_folder,
    _folder,
    lambda rng, bank, args: {**args, "name": scene.spare_word(bank, args)},
)


def _sample_rename_folder(rng: Random, bank: Bank) -> Args:
    return {
        "old": bank.word(), "new": bank.word(), "inner": bank.word() + ".txt", "text": bank.filler() + "\n",
        "noise": scene.noise(rng, bank, most=3),
    }  # fmt: skip


def _rename_folder(args: Args) -> Branches:
    old, new, inner = args["old"], args["new"], args["inner"]
    return Branches(
        setup=(scene.text_step(f"{old}/{inner}", args["text"]), *scene.noise_steps(args["noise"])),
        checks=(
            check("file_absent", path=old),
            check("same_bytes_as_setup", path=f"{new}/{inner}", source=f"{old}/{inner}"),
            others(old, f"{old}/{inner}", new, f"{new}/{inner}"),
        ),
        plan=(rename_stage(old, new),),
        shortcut=(bash(f"mkdir {new}"),),
    )


RENAME_FOLDER = workflow(
    "rename-folder",
    (
        ("rename", "change the name of"),
        ("the folder {old} to {new}", "{old} to {new}", "the folder called {old} to {new}"),
    ),
    _sample_rename_folder,
    _rename_folder,
    lambda rng, bank, args: {**args, "new": scene.spare_word(bank, args)},
)


def _sample_two_folders(rng: Random, bank: Bank) -> Args:
    return {"first": bank.word(), "second": bank.word(), "noise": scene.noise(rng, bank, most=2)}


def _two_folders(args: Args) -> Branches:
    first, second = args["first"], args["second"]
    return Branches(
        setup=scene.noise_steps(args["noise"]),
        checks=(check("dir_exists", path=first), check("dir_exists", path=second), others(first, second)),
        plan=(folder_stage(first), folder_stage(second)),
        shortcut=(bash(f"mkdir {first}"),),
    )


TWO_FOLDERS = workflow(
    "two-folders",
    (("create", "make", "add"), ("the folders {first} and {second}", "a folder {first} and a folder {second}")),
    _sample_two_folders,
    _two_folders,
    lambda rng, bank, args: {**args, "second": scene.spare_word(bank, args)},
)

WORKFLOWS = (RENAME, DELETE, DELETE_LOGS, MOVE, NEW_FOLDER, RENAME_FOLDER, TWO_FOLDERS)
