"""The playbook.

Bullets, operations, deltas and what is done with them. Plain data and pure functions; only `save`, `read` and `load`
touch the disk.
"""

from __future__ import annotations

from combee.kernel.playbook.applying import apply
from combee.kernel.playbook.comparing import BookDiff, Change, diff
from combee.kernel.playbook.counting import count_tokens
from combee.kernel.playbook.deltas import delta_of, merge, sort_key
from combee.kernel.playbook.duplicates import Folded, deduplicate, fold_duplicates, near_duplicates, same_lesson
from combee.kernel.playbook.ids import Cited, find_ids
from combee.kernel.playbook.jsonform import digest, from_json, to_json
from combee.kernel.playbook.model import Add, Bullet, Delta, Merge, Operation, Playbook, Remove, Update, Vote, VoteKind
from combee.kernel.playbook.outcome import Applied, Refusal
from combee.kernel.playbook.parsing import parse_operations
from combee.kernel.playbook.problems import Parsed, Problem
from combee.kernel.playbook.readtext import from_text
from combee.kernel.playbook.replaying import Replay, Revision, replay, without_sources
from combee.kernel.playbook.sections import DEFAULT_SECTION, SECTIONS, canonical_section
from combee.kernel.playbook.storage import check_place, load, read, save
from combee.kernel.playbook.terms import distinct_terms, lesson_core, similarity
from combee.kernel.playbook.text import count_lone_surrogates, normalize
from combee.kernel.playbook.textform import to_text, tokens
from combee.kernel.playbook.views import view

__all__ = [
    "DEFAULT_SECTION",
    "SECTIONS",
    "Add",
    "Applied",
    "BookDiff",
    "Bullet",
    "Change",
    "Cited",
    "Delta",
    "Folded",
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
    "canonical_section",
    "check_place",
    "count_lone_surrogates",
    "count_tokens",
    "deduplicate",
    "delta_of",
    "diff",
    "digest",
    "distinct_terms",
    "find_ids",
    "fold_duplicates",
    "from_json",
    "from_text",
    "lesson_core",
    "load",
    "merge",
    "near_duplicates",
    "normalize",
    "parse_operations",
    "read",
    "replay",
    "same_lesson",
    "save",
    "similarity",
    "sort_key",
    "to_json",
    "to_text",
    "tokens",
    "view",
    "without_sources",
]
