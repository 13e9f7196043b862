"""What was found in one run: a lesson with its steps, and the key that the same lesson of other runs shares."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MinedLesson"]


@dataclass(frozen=True, slots=True)
class MinedLesson:
    """One lesson of one run.

    `kind` is missing, absent, repair, until, shell, hang, slow, dead_end, unmended, error, flip, correction or
    contrast; `key` is what recurs; `text` is the lesson and holds no step; `steps` are those of the recorded run that
    show it (the failure first, then what worked).
    """

    kind: str
    key: str
    text: str
    steps: tuple[int, ...]
    line: int = 0
    """Hash of the call (unmended: its words, hang: its program), to see in other runs whether it holds there too."""
