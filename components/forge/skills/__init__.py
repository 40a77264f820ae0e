"""The skill taxonomy."""

from __future__ import annotations

from components.forge.skills.catalog import BY_ID, SKILLS, Skill, SkillKind

__all__ = ["BY_ID", "SKILLS", "Skill", "SkillKind"]
