"""Which price files a recipe folder uses."""

from __future__ import annotations

from pathlib import Path

from components.tracking.prices import PriceTable, load_prices
from pipelines.remote import main_root
from pipelines.workspace import PROFILES, Workspace

SHIPPED = PROFILES.parent / "prices.yaml"
OWN = "prices.yaml"


def price_files(workspace: Workspace) -> list[Path]:
    """The folder's own file, that of the recipe around it (a profile's folder lies in one), then the shipped one."""
    return [*dict.fromkeys([workspace.root / OWN, main_root(workspace) / OWN]), SHIPPED]


def prices_of(workspace: Workspace) -> PriceTable:
    """Raises ParamsError when a file is no price table."""
    return load_prices(price_files(workspace))
