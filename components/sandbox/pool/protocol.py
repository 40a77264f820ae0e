"""What a slot and its host say to each other, in messages of `x11.guest.wire`: observations and errors as data."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image
from pydantic import TypeAdapter

from components.contracts.calls import AccessibilityCall, BashCall, ComputerUse, DesktopCall
from components.contracts.desktop import Element, Observation
from components.contracts.errors import (
    CallError,
    CoworkError,
    ParamsError,
    PolicyError,
    SandboxError,
    TaskError,
    VerifierError,
)

WHERE = "slot"
CALLS: TypeAdapter[DesktopCall] = TypeAdapter(ComputerUse | BashCall | AccessibilityCall)
_TYPES: dict[str, type[CoworkError]] = {
    "task": TaskError, "verifier": VerifierError, "sandbox": SandboxError, "params": ParamsError, "policy": PolicyError,
}  # fmt: skip


def encode_seen(seen: Observation) -> tuple[dict[str, Any], bytes]:
    """(all but the screen, the screen as a PNG). Level 1: a fifth larger than level 6 and half the time."""
    data = io.BytesIO()
    Image.fromarray(seen.screen).save(data, "PNG", compress_level=1)
    elements = [(e.kind, e.label, e.box, e.state) for e in seen.elements]
    return {"pointer": seen.pointer, "elements": elements}, data.getvalue()


def decode_seen(meta: dict[str, Any], png: bytes) -> Observation:
    """Raises `SandboxError` for what is no observation: an old or half picture is worse than none."""
    try:
        with Image.open(io.BytesIO(png)) as image:
            screen = np.asarray(image.convert("RGB"))
        pointer = meta.get("pointer")
        elements = tuple(Element(kind, label, tuple(box), state) for kind, label, box, state in meta["elements"])
        return Observation(screen, None if pointer is None else (int(pointer[0]), int(pointer[1])), elements)
    except (OSError, ValueError, TypeError, KeyError, SyntaxError) as error:
        raise SandboxError(f"this is no observation: {error!r}", where=WHERE, remedy="the episode is lost") from error


def encode_error(error: BaseException) -> dict[str, Any]:
    if isinstance(error, CallError):
        kind, code = "call", error.code
    elif isinstance(error, CoworkError):
        kind, code = error.border, ""
    else:
        return {"kind": "sandbox", "code": "", "message": f"{type(error).__name__}: {error}"[:2000], "where": WHERE,
                "remedy": "look at the slot's own messages"}  # fmt: skip
    return {"kind": kind, "code": code, "message": error.message, "where": error.where, "remedy": error.remedy}


def decode_error(data: dict[str, Any]) -> CoworkError:
    message, where, remedy = (str(data.get(name, "")) for name in ("message", "where", "remedy"))
    if data.get("kind") == "call":
        return CallError(str(data.get("code", "")), message, where=where, remedy=remedy)
    return _TYPES.get(str(data.get("kind")), SandboxError)(message, where=where, remedy=remedy)
