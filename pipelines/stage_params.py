"""What a stage sees of the recipe's parameters: the sections that the registry names for it, and `seed`.

A stage function gets a `Params` with only those sections, so that `params.rl.lr` reads the same everywhere and a
section that was not declared cannot be read unnoticed (its attribute does not exist).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from components.contracts.params import Params
from pipelines.registry import StageDef


def stage_params(params: Params, stage: StageDef) -> Params:
    """`params` cut down to what `stage` declares. The result keeps the types and is frozen as before."""
    return _assemble(Params, params, ["seed", *stage.params])


def _assemble(schema: type[BaseModel], source: BaseModel, wanted: list[str]) -> Any:
    whole = [key for key in wanted if "." not in key]
    values = {key: getattr(source, key) for key in whole}
    for head in sorted({key.split(".", 1)[0] for key in wanted} - set(whole)):
        inner = [key.split(".", 1)[1] for key in wanted if key.startswith(head + ".")]
        section = getattr(source, head)
        values[head] = _assemble(type(section), section, inner)
    # Not validated again: the values come from a validated object, and the absent sections are absent on purpose.
    return schema.model_construct(_fields_set=set(values), **values)


def sections(params: Params, stage: StageDef) -> dict[str, Any]:
    """The same as plain values by dotted section, `seed` included: what enters keys and run records."""
    plain = params.model_dump(mode="json")
    return {key: pick(plain, key) for key in ("seed", *stage.params)}


def pick(values: Mapping[str, Any], dotted: str) -> Any:
    """The value at a dotted key of nested mappings. Raises KeyError."""
    found: Any = values
    for part in dotted.split("."):
        found = found[part]
    return found
