"""What was wrong with something that was read, one by one; everything else was kept."""

from __future__ import annotations

from dataclasses import dataclass

from combee.kernel.playbook.model import Playbook

__all__ = ["Parsed", "Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that was wrong.

    `index` counts operations from 0, or lines of a text from 1; `skipped` tells that it was left out.
    """

    index: int
    reason: str
    shown: str = ""
    skipped: bool = True


@dataclass(frozen=True, slots=True)
class Parsed:
    """A book that was read and what was wrong with it."""

    playbook: Playbook
    problems: tuple[Problem, ...] = ()
