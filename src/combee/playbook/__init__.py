"""The playbook: bullets, operations, deltas and what is done with them. Plain data and pure functions; only `save` and `load` touch the disk."""

from __future__ import annotations

from combee.playbook.model import Add, Bullet, Delta, Merge, Operation, Playbook, Remove, Update, Vote, VoteKind
from combee.playbook.sections import DEFAULT_SECTION, SECTIONS, canonical_section
from combee.playbook.text import normalize

__all__ = [
    "DEFAULT_SECTION",
    "SECTIONS",
    "Add",
    "Bullet",
    "Delta",
    "Merge",
    "Operation",
    "Playbook",
    "Remove",
    "Update",
    "Vote",
    "VoteKind",
    "canonical_section",
    "normalize",
]
