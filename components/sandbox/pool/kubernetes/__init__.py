"""Slots that are pods: of agent-sandbox claims, or of a StatefulSet whose ordinals the slot host hands out."""
