"""Workflows of GIMP."""

from __future__ import annotations

from components.forge.realapps.workflows.kit import (
    Args,
    Bank,
    Branches,
    Moves,
    Random,
    SetupStep,
    both,
    check,
    made,
    noise,
    noise_steps,
    python,
    rest,
    step,
    term,
)

TEAL = [0, 128, 128]
SIZE = [400, 300]
_COLOURS = ([200, 40, 40], [230, 180, 30], [60, 60, 190], [240, 240, 240])


def drawing(rng: Random, background: list[int]) -> Args:
    """One box, never in the middle: a mirrored picture must differ."""
    left, top = rng.choice((40, 60, 80)), rng.choice((30, 50, 70))
    box = [left, top, left + rng.choice((80, 100)), top + rng.choice((60, 90))]
    return {"size": SIZE, "background": background, "boxes": [[*box, *rng.choice(_COLOURS)]]}


def setup(args: Args, opened: bool) -> tuple[SetupStep, ...]:
    steps = (step("picture", path=args["path"], **args["drawing"]), *noise_steps(args))
    return (*steps, step("open", app="gimp", path=args["path"])) if opened else steps


def convert(path: str, new: str, code: str) -> str:
    return python(f"from PIL import Image, ImageOps\nimage = Image.open({path!r})\n{code}\nimage.save({new!r})")


def export(new: str) -> Moves:
    """GIMP: File > Export As under a new name, with the settings that are offered."""
    return [
        ["key", "ctrl", "shift", "e"],
        ["window", "Export Image"],
        ["key", "ctrl", "a"],
        ["type", new + "\n"],
        ["window", "Export Image as"],
        ["key", "enter"],
        ["saved", new],
        ["gone", "Export Image"],
    ]


def _sample(rng: Random, bank: Bank) -> Args:
    return {
        "path": bank.word() + ".png",
        "new": bank.word() + ".png",
        "noise": noise(bank),
        "drawing": drawing(rng, rng.choice(([250, 250, 250], [30, 60, 40], [90, 90, 160]))),
    }


AXES = {"left and right": "mirror", "top and bottom": "flip"}
_FLIP = {"mirror": "image = ImageOps.mirror(image)", "flip": "image = ImageOps.flip(image)"}
_FLIP_ITEM = {"mirror": 0, "flip": 1}


def _mirror(args: Args) -> Branches:
    path, new, change = args["path"], args["new"], AXES[args["axis"]]
    # Image > Transform > Flip Horizontally / Vertically, by the places of the menu of a maximised window.
    menu: Moves = [["key", "alt", "i"], ["click", 216, 182], ["click", 520, 182 + 23 * _FLIP_ITEM[change]]]
    return Branches(
        setup=setup(args, opened=True),
        checks=(check("picture", path=new, drawing=args["drawing"], change=change, form="PNG"), rest(new)),
        plan=(both([*menu, *export(new)], convert(path, new, _FLIP[change])),),
        shortcut=(term(f"cp {path} {new}"),),
    )


MIRROR = made(
    "gimp-mirror",
    (
        ("swap {axis} of the picture {path}", "flip the picture {path} so that {axis} change places"),
        ("and export it as {new}", "and export the result under the name {new}"),
    ),
    lambda rng, bank: {**_sample(rng, bank), "axis": rng.choice(tuple(AXES))},
    _mirror,
    lambda rng, bank, args: {**args, "axis": next(a for a in AXES if a != args["axis"])},
)


def _layers_sample(rng: Random, bank: Bank) -> Args:
    width = rng.choice((200, 240, 280, 320))
    return {
        "path": bank.word() + ".png",
        "new": bank.word() + ".xcf",
        "noise": noise(bank),
        "drawing": drawing(rng, TEAL),
        "width": width,
        "height": width * 3 // 4,
    }


def _layers(args: Args) -> Branches:
    """The published demonstration: alpha, the solid teal background cleared, the layer scaled, saved with layers."""
    path, new, size = args["path"], args["new"], [args["width"], args["height"]]
    moves: Moves = [
        ["key", "alt", "l"],
        ["click", 270, 257],
        ["click", 576, 258],
        ["key", "shift", "o"],
        ["click", 430, 500],
        ["key", "delete"],
        ["key", "ctrl", "shift", "a"],
        ["key", "alt", "l"],
        ["click", 272, 364],
        ["window", "Scale Layer"],
        ["key", "ctrl", "a"],
        ["type", f"{size[0]}\t"],
        ["click_in", "Scale Layer", 327, 242],
        ["gone", "Scale Layer"],
        ["key", "ctrl", "s"],
        ["window", "Save Image"],
        ["key", "ctrl", "a"],
        ["type", new + "\n"],
        ["saved", new],
        ["gone", "Save Image"],
    ]
    clear = (
        "(gimp-layer-add-alpha layer) (gimp-context-set-sample-threshold-int 0) "
        "(gimp-image-select-color image CHANNEL-OP-REPLACE layer '(0 128 128)) (gimp-edit-clear layer) "
        "(gimp-selection-none image) "
    )

    def batch(change: str) -> str:
        script = (
            f'(let* ((image (car (gimp-file-load RUN-NONINTERACTIVE "{path}" "{path}"))) '
            f"(layer (car (gimp-image-get-active-layer image)))) {change}"
            f'(gimp-xcf-save 0 image layer "{new}" "{new}"))'
        )
        return (
            f"gimp -i -d -f -s -b '{script.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}' -b '(gimp-quit 0)'"
        )

    return Branches(
        setup=setup(args, opened=True),
        checks=(
            check("layers", path=new, layers=[{"size": size, "alpha": True, "drawing": args["drawing"]}]),
            rest(new),
        ),
        plan=(both(moves, batch(f"{clear}(gimp-layer-scale layer {size[0]} {size[1]} FALSE) ")),),
        shortcut=(term(batch(clear)),),
    )


LAYERS = made(
    "gimp-layers",
    (
        ("add an alpha channel to the layer of {path},", "give the layer of {path} transparency,"),
        ("clear its solid teal background, scale the layer to {width} x {height} pixels",),
        ("and save it with layers as {new}", "and save the layered file as {new}"),
    ),
    _layers_sample,
    _layers,
    lambda rng, bank, args: {**args, "width": args["width"] + 40, "height": args["height"] + 30},
    max_steps=60,
)


def _scale(args: Args) -> Branches:
    path, new, size = args["path"], args["new"], [args["width"], args["height"]]
    return Branches(
        setup=setup(args, opened=False),
        checks=(check("picture", path=new, drawing=args["drawing"], size=size, form="PNG"), rest(new)),
        plan=(term(convert(path, new, f"image = image.resize({tuple(size)})")),),
        shortcut=(term(convert(path, new, f"image = image.crop((0, 0, {size[0]}, {size[1]}))")),),
    )


SCALE = made(
    "gimp-scale",
    (
        ("scale the picture {path}", "resize all of the picture {path}"),
        ("to {width} x {height} pixels", "to a width of {width} and a height of {height} pixels"),
        ("and export it as {new}",),
    ),
    lambda rng, bank: {**_sample(rng, bank), "width": rng.choice((200, 240)), "height": rng.choice((120, 150))},
    _scale,
    lambda rng, bank, args: {**args, "width": args["width"] + 40},
)


def _gray(args: Args) -> Branches:
    path, new = args["path"], args["new"]
    return Branches(
        setup=setup(args, opened=False),
        checks=(check("picture", path=new, drawing=args["drawing"], change="gray", form="JPEG"), rest(new)),
        plan=(term(convert(path, new, "image = image.convert('L')")),),
        shortcut=(term(convert(path, new, "image = image.convert('RGB')")),),
    )


GRAY = made(
    "gimp-gray",
    (
        ("export {path} without colours", "make a grayscale copy of {path}"),
        ("as the JPEG {new}", "and export it as {new}"),
    ),
    lambda rng, bank: {**(args := _sample(rng, bank)), "new": args["new"].replace(".png", ".jpg")},
    _gray,
    lambda rng, bank, args: {**args, "new": "x" + args["new"]},
)

WORKFLOWS = (MIRROR, LAYERS, SCALE, GRAY)
