"""The playbook.

Bullets, operations, deltas and what is done with them. Plain data and pure functions; only `save`, `read` and `load`
touch the disk.
"""

from __future__ import annotations

from combee.kernel.playbook.applying import Replay, Revision, apply, replay, revise
from combee.kernel.playbook.counting import count_tokens, narrow_length
from combee.kernel.playbook.duplicates import deduplicate, near_duplicates, same_lesson
from combee.kernel.playbook.model import (
    Add,
    Applied,
    BookDiff,
    Bullet,
    BulletChange,
    Delta,
    Merge,
    Operation,
    Parsed,
    Playbook,
    Problem,
    Refusal,
    Remove,
    Update,
    Vote,
    VoteKind,
    delta_of,
    diff,
    merge,
)
from combee.kernel.playbook.sections import DEFAULT_SECTION, SECTIONS, canonical_section
from combee.kernel.playbook.storage import check_place, digest, from_json, load, read, save, to_json
from combee.kernel.playbook.text import count_lone_surrogates, distinct_terms, normalize, says, similarity, split_terms
from combee.kernel.playbook.textform import from_text, to_text, tokens
from combee.kernel.playbook.views import by_relevance, view

__all__ = [
    "DEFAULT_SECTION",
    "SECTIONS",
    "Add",
    "Applied",
    "BookDiff",
    "Bullet",
    "BulletChange",
    "Delta",
    "Merge",
    "Operation",
    "Parsed",
    "Playbook",
    "Problem",
    "Refusal",
    "Remove",
    "Replay",
    "Revision",
    "Update",
    "Vote",
    "VoteKind",
    "apply",
    "by_relevance",
    "canonical_section",
    "check_place",
    "count_lone_surrogates",
    "count_tokens",
    "deduplicate",
    "delta_of",
    "diff",
    "digest",
    "distinct_terms",
    "from_json",
    "from_text",
    "load",
    "merge",
    "narrow_length",
    "near_duplicates",
    "normalize",
    "read",
    "replay",
    "revise",
    "same_lesson",
    "save",
    "says",
    "similarity",
    "split_terms",
    "to_json",
    "to_text",
    "tokens",
    "view",
]
