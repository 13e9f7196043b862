"""Our own skill: the file that teaches a coding agent to use combee, as package data."""

from __future__ import annotations

from importlib import resources

__all__ = ["own_skill"]


def own_skill() -> str:
    """Return the text of the skill file `combee/SKILL.md`."""
    return resources.files("combee.export").joinpath("skill", "SKILL.md").read_text(encoding="utf-8")
