"""The price table: dated prices of tokens and machine hours, read from YAML files that people edit.

A price that is not in the table is unknown (None). It never counts as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contracts.errors import ParamsError

PER = 1_000_000
"""Tokens that a token price is for."""

_REMEDY = "pipelines/prices.yaml says what such a file holds"

Amount = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Unit = Literal["cpu", "gpu", "sandbox"]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    since: date = Field(alias="from")
    source: Annotated[str, Field(min_length=1)]


class ModelPrice(_Entry):
    """USD per million tokens of a model from a date on. `cached_input` None = the same as `input`."""

    model: Annotated[str, Field(min_length=1)]
    input: Amount
    output: Amount
    cached_input: Amount | None = None

    def usd(self, tokens_in: float, tokens_out: float, cached_in: float = 0.0) -> float:
        """`cached_in` are those of `tokens_in` that came from the provider's cache."""
        cached = self.input if self.cached_input is None else self.cached_input
        return ((tokens_in - cached_in) * self.input + cached_in * cached + tokens_out * self.output) / PER


class MachinePrice(_Entry):
    """USD per hour of a unit from a date on; None = not known."""

    unit: Unit
    usd_per_hour: Amount | None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    models: tuple[ModelPrice, ...] = ()
    machine: tuple[MachinePrice, ...] = ()


@dataclass(frozen=True)
class PriceTable:
    """All entries, those that win first."""

    models: tuple[ModelPrice, ...] = ()
    machine: tuple[MachinePrice, ...] = ()

    def of(self, model: str, day: date) -> ModelPrice | None:
        """The price of a model on a day; None when it is not known. An exact name wins over a `prefix*`."""
        exact = [entry for entry in self.models if entry.model == model]
        broad = [e for e in self.models if e.model.endswith("*") and model.startswith(e.model[:-1])]
        broad.sort(key=lambda entry: -len(entry.model))
        return _newest(exact, day) or _newest([e for e in broad if e.model == broad[0].model], day)

    def usd(
        self, model: str, at_ms: float, tokens_in: float, tokens_out: float, cached_in: float = 0.0
    ) -> float | None:
        """What calls at that time (milliseconds since the epoch) cost; None when the price is not known."""
        price = self.of(model, day_of(at_ms))
        return None if price is None else price.usd(tokens_in, tokens_out, cached_in)

    def machine_usd(self, unit: Unit, at_ms: float, seconds: float) -> float | None:
        """What `seconds` of a unit cost; None when not known, 0 for no seconds."""
        if not seconds:
            return 0.0
        entry = _newest([e for e in self.machine if e.unit == unit], day_of(at_ms))
        return None if entry is None or entry.usd_per_hour is None else entry.usd_per_hour * seconds / 3600.0


def _newest(entries: Iterable[Any], day: date) -> Any | None:
    """The entry that began last and not after `day`; of equals the first."""
    begun = [entry for entry in entries if entry.since <= day]
    return max(begun, key=lambda entry: entry.since) if begun else None


def day_of(at_ms: float) -> date:
    """The UTC day of a time in milliseconds since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()


def load_prices(files: Sequence[Path]) -> PriceTable:
    """The table of several files, the first one winning for what it names. Files that do not exist are left out.

    Raises ParamsError that names the file and the entry when one is no price table.
    """
    import yaml

    models: list[ModelPrice] = []
    machine: list[MachinePrice] = []
    for path in files:
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ParamsError(f"cannot be read: {error}", where=path.name, remedy=_REMEDY) from error
        try:
            read = _File.model_validate(found)
        except ValidationError as error:
            first = error.errors()[0]
            at = ".".join(str(part) for part in first["loc"])
            raise ParamsError(f"{at}: {first['msg']}", where=path.name, remedy=_REMEDY) from error
        named, units = {entry.model for entry in models}, {entry.unit for entry in machine}
        models += [entry for entry in read.models if entry.model not in named]
        machine += [entry for entry in read.machine if entry.unit not in units]
    return PriceTable(tuple(models), tuple(machine))
