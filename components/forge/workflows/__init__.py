"""One workflow a skill; the registry by skill id."""

from __future__ import annotations

from components.forge.workflows import cross, files, forms, notes, prefs, sheet, text
from components.forge.workflows.base import Bank, Branches, Plan, Stage, Wordings, Workflow, routes

WORKFLOWS: dict[str, Workflow] = {
    made.skill.id: made for module in (prefs, forms, files, notes, sheet, text, cross) for made in module.WORKFLOWS
}

__all__ = ["WORKFLOWS", "Bank", "Branches", "Plan", "Stage", "Wordings", "Workflow", "routes"]
