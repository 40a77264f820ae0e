"""Workflows of the Forms app: fill fields, choose, tick, send. Only the screen can do them."""

from __future__ import annotations

from random import Random
from typing import Any

from components.forge import words
from components.forge.workflows import scene
from components.forge.workflows.base import Args, Bank, Branches, by_hand, check, others, workflow


def form_branches(args: Args, values: dict[str, Any], partial: dict[str, Any]) -> Branches:
    """Send exactly `values`; the shortcut fills the form with `partial` and sends or forgets to send."""
    return Branches(
        setup=(scene.form_step(args["form"]),),
        checks=(check("form_record", values=values), others(forms=True)),
        plan=(by_hand("fill_form", values=values, order=list(values)),),
        shortcut=(by_hand("fill_form", values=partial, send=partial != values),),
    )


def _sample_texts(rng: Random, bank: Bank) -> Args:
    first, second = rng.sample(words.FORM_TEXTS, 2)
    return {
        "first": first, "first_value": bank.word(), "second": second, "second_value": bank.word(),
        "form": scene.form(rng, (first, second)),
    }  # fmt: skip


def _texts(args: Args) -> Branches:
    values = {args["first"]: args["first_value"], args["second"]: args["second_value"]}
    swapped = {args["first"]: args["second_value"], args["second"]: args["first_value"]}
    return form_branches(args, values, swapped)


_FILL = ("fill in the form with", "fill the form with", "send the form with")

FORM_TEXTS = workflow(
    "form-texts",
    (
        _FILL,
        (
            "{first} {first_value} and {second} {second_value}",
            "{first_value} as {first} and {second_value} as {second}",
        ),
    ),
    _sample_texts,
    _texts,
    lambda rng, bank, args: {**args, "second_value": scene.spare_word(bank, args)},
    max_steps=16,
)


def _sample_choice(rng: Random, bank: Bank) -> Args:
    first, choice = rng.choice(words.FORM_TEXTS), rng.choice(tuple(words.FORM_CHOICES))
    return {
        "first": first, "first_value": bank.word(), "choice": choice, "option": rng.choice(words.FORM_CHOICES[choice]),
        "form": scene.form(rng, (first,), choice=choice),
    }  # fmt: skip


def _choice(args: Args) -> Branches:
    values = {args["first"]: args["first_value"], args["choice"]: args["option"]}
    return form_branches(args, values, {args["first"]: args["first_value"]})


def _wrong_choice(rng: Random, bank: Bank, args: Args) -> Args:
    return {**args, "option": next(o for o in words.FORM_CHOICES[args["choice"]] if o != args["option"])}


FORM_CHOICE = workflow(
    "form-choice",
    (_FILL, ("{first} {first_value} and {choice} {option}", "{first_value} as {first} and {option} as {choice}")),
    _sample_choice,
    _choice,
    _wrong_choice,
    max_steps=16,
)


def _sample_check(rng: Random, bank: Bank) -> Args:
    first, box = rng.choice(words.FORM_TEXTS), rng.choice(words.FORM_CHECKS)
    return {
        "first": first, "first_value": bank.word(), "check": box, "form": scene.form(rng, (first,), check=box),
    }  # fmt: skip


def _check(args: Args) -> Branches:
    values = {args["first"]: args["first_value"], args["check"]: True}
    return form_branches(args, values, {args["first"]: args["first_value"]})


FORM_CHECK = workflow(
    "form-check",
    (_FILL, ("{first} {first_value} and tick {check}", "{first_value} as {first} and {check} on")),
    _sample_check,
    _check,
    lambda rng, bank, args: {**args, "first_value": scene.spare_word(bank, args)},
    max_steps=16,
)

WORKFLOWS = (FORM_TEXTS, FORM_CHOICE, FORM_CHECK)
