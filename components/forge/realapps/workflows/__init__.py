"""One workflow a skill over real applications; the registry by skill id."""

from __future__ import annotations

from components.forge.realapps.workflows import calc, cross, files, pictures, shop, writer
from components.forge.workflows.base import Workflow

WORKFLOWS: dict[str, Workflow] = {
    made.skill.id: made for module in (calc, writer, pictures, files, shop, cross) for made in module.WORKFLOWS
}

__all__ = ["WORKFLOWS"]
