"""The playbook.

Bullets, operations, deltas and what is done with them. Plain data and pure functions; only `save`, `read` and `load`
touch the disk.
"""

from __future__ import annotations

from combee.playbook.applying import apply
from combee.playbook.comparing import BookDiff, Change, diff
from combee.playbook.counting import count_tokens
from combee.playbook.deltas import delta_of, merge, sort_key
from combee.playbook.duplicates import Folded, deduplicate, fold_duplicates, near_duplicates, same_lesson
from combee.playbook.ids import Cited, find_ids
from combee.playbook.jsonform import digest, from_json, to_json
from combee.playbook.model import Add, Bullet, Delta, Merge, Operation, Playbook, Remove, Update, Vote, VoteKind
from combee.playbook.outcome import Applied, Refusal
from combee.playbook.parsing import parse_operations
from combee.playbook.problems import Parsed, Problem
from combee.playbook.readtext import from_text
from combee.playbook.replaying import Replay, Revision, replay, without_sources
from combee.playbook.sections import DEFAULT_SECTION, SECTIONS, canonical_section
from combee.playbook.storage import check_place, load, read, save
from combee.playbook.terms import distinct_terms, lesson_core, similarity
from combee.playbook.text import count_lone_surrogates, normalize
from combee.playbook.textform import to_text, tokens
from combee.playbook.views import view

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
