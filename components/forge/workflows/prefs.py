"""Workflows of the Prefs app: checkboxes, the volume slider, a drop-down. Only the screen can do them."""

from __future__ import annotations

from random import Random
from typing import Any

from components.forge import words
from components.forge.workflows import scene
from components.forge.workflows.base import Args, Bank, Branches, Stage, by_hand, check, others, workflow

ALREADY_RIGHT = 0.25
"""Share of toggle tasks whose box is in the wanted state from the start: an agent must look before it clicks."""

ON_OFF = {True: "on", False: "off"}


def pref_stage(name: str, prefs: dict[str, Any], *targets: str, **args: Any) -> Stage:
    """A goal in Prefs. `keep` is what the task leaves alone (all but `targets`): a slip there is put right again."""
    values = {**{label: ON_OFF[prefs["checks"][label]] for label in prefs["order"]}, "volume": str(prefs["volume"])}
    return by_hand(name, keep={k: v for k, v in values.items() if k not in targets}, **args)


def flip(prefs: dict[str, Any], label: str) -> Stage:
    """The other state of a box, whatever else: for shortcuts."""
    return by_hand("set_check", label=label, state=ON_OFF[not prefs["checks"][label]])


def _sample_toggle(rng: Random, bank: Bank) -> Args:
    label = rng.choice(words.CHECKS)
    start = scene.prefs(rng, bank, label)
    now = start["checks"][label]
    return {"label": label, "state": ON_OFF[now if rng.random() < ALREADY_RIGHT else not now], "prefs": start}


def _toggle(args: Args) -> Branches:
    label, state = args["label"], args["state"]
    right = args["prefs"]["checks"][label] is (state == "on")
    other = next(name for name in args["prefs"]["order"] if name != label)
    return Branches(
        setup=(scene.prefs_step(args["prefs"]),),
        checks=(check("pref_equals", key=label, value=state == "on"), others(prefs=(label,))),
        plan=(pref_stage("set_check", args["prefs"], label, label=label, state=state),),
        shortcut=(by_hand("set_check", label=label, state=state), flip(args["prefs"], other)),
        needs_nothing=right,
    )


def _wrong_toggle(rng: Random, bank: Bank, args: Args) -> Args:
    return (
        {**args, "state": "off" if args["state"] == "on" else "on"} if _toggle(args).needs_nothing else _other_box(args)
    )


def _other_box(args: Args) -> Args:
    other = next(name for name in args["prefs"]["order"] if name != args["label"])
    return {**args, "label": other, "state": ON_OFF[not args["prefs"]["checks"][other]]}


TOGGLE = workflow(
    "toggle-pref",
    (("turn {state}", "switch {state}"), ("{label}", "the {label} checkbox", "{label} in prefs")),
    _sample_toggle,
    _toggle,
    _wrong_toggle,
)


def _sample_two(rng: Random, bank: Bank) -> Args:
    first, second = rng.sample(words.CHECKS, 2)
    start = scene.prefs(rng, bank, first, second)
    return {
        "first": first,
        "first_state": ON_OFF[not start["checks"][first]],
        "second": second,
        "second_state": ON_OFF[not start["checks"][second]],
        "prefs": start,
    }


def _two(args: Args) -> Branches:
    keys = (args["first"], args["second"])
    stages = tuple(
        pref_stage("set_check", args["prefs"], *keys, label=args[n], state=args[f"{n}_state"])
        for n in ("first", "second")
    )
    return Branches(
        setup=(scene.prefs_step(args["prefs"]),),
        checks=(
            check("pref_equals", key=keys[0], value=args["first_state"] == "on"),
            check("pref_equals", key=keys[1], value=args["second_state"] == "on"),
            others(prefs=keys),
        ),
        plan=stages,
        shortcut=stages[:1],
    )


TOGGLE_TWO = workflow(
    "toggle-two",
    (
        (
            "turn {first_state} {first} and turn {second_state} {second}",
            "switch {first_state} {first} and switch {second_state} {second}",
            "set {first} to {first_state} and {second} to {second_state}",
        ),
        ("", "in prefs"),
    ),
    _sample_two,
    _two,
    lambda rng, bank, args: {**args, "second_state": "off" if args["second_state"] == "on" else "on"},
)


def _sample_volume(rng: Random, bank: Bank) -> Args:
    start = scene.prefs(rng, bank)
    wanted = rng.choice([n for n in bank.fives() if n != start["volume"]])
    return {"number": wanted, "prefs": start}


def _volume(args: Args) -> Branches:
    stage = pref_stage("set_volume", args["prefs"], "volume", value=args["number"])
    return Branches(
        setup=(scene.prefs_step(args["prefs"]),),
        checks=(check("pref_equals", key="volume", value=args["number"]), others(prefs=("volume",))),
        plan=(stage,),
        shortcut=(by_hand("set_volume", value=args["number"]), flip(args["prefs"], args["prefs"]["order"][0])),
    )


SET_VOLUME = workflow(
    "set-volume",
    (
        ("set", "move", "change"),
        ("the volume to {number}", "the volume slider to {number}", "the volume in prefs to {number}"),
    ),
    _sample_volume,
    _volume,
    lambda rng, bank, args: {**args, "number": args["number"] + (10 if args["number"] < 50 else -10)},
)


def _sample_option(rng: Random, bank: Bank) -> Args:
    start = scene.prefs(rng, bank)
    menu = start["menu"]
    option = rng.choice([o for o in menu["options"] if o != menu["value"]])
    return {"menu": menu["label"], "option": option, "prefs": start}


def _option(args: Args) -> Branches:
    stage = pref_stage("choose", args["prefs"], label=args["menu"], option=args["option"])
    return Branches(
        setup=(scene.prefs_step(args["prefs"]),),
        checks=(check("pref_equals", key=args["menu"], value=args["option"]), others(prefs=(args["menu"],))),
        plan=(stage,),
        shortcut=(
            by_hand("choose", label=args["menu"], option=args["option"]),
            flip(args["prefs"], args["prefs"]["order"][0]),
        ),  # fmt: skip
    )


def _wrong_option(rng: Random, bank: Bank, args: Args) -> Args:
    menu = args["prefs"]["menu"]
    return {**args, "option": next(o for o in menu["options"] if o not in (args["option"], menu["value"]))}


CHOOSE_OPTION = workflow(
    "choose-option",
    (("choose", "pick", "select"), ("{option} as the {menu}", "the {menu} {option}")),
    _sample_option,
    _option,
    _wrong_option,
)

WORKFLOWS = (TOGGLE, TOGGLE_TWO, SET_VOLUME, CHOOSE_OPTION)
