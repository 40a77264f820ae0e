"""Mage-CUA-Forge at tiny size: skills, workflows, preparers, verifier, gate, generator."""
