"""Deltas are sets of operations; merging them is union: associative, commutative, idempotent.

Operations that say the same are one, with the sources of all. The order is canonical: kind, target, hash of the
content.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import TypeAlias

from combee.kernel.playbook.model import Add, Delta, Merge, Operation, Remove, Update
from combee.kernel.playbook.sections import SECTIONS, section_key
from combee.kernel.playbook.text import equality_key

__all__ = ["SortKey", "content_hash", "delta_of", "merge", "sort_key"]

SortKey: TypeAlias = tuple[int, str, str]

_RANK = {name: f"{index:02d}" for index, name in enumerate(SECTIONS)}


def content_hash(text: str) -> str:
    """Return the hash by which texts are ordered where nothing else decides."""
    return sha256(equality_key(text).encode()).hexdigest()


def sort_key(operation: Operation) -> SortKey:
    """Return (kind, target, content hash). Operations with equal keys say the same; REMOVE < MERGE < UPDATE < ADD."""
    if isinstance(operation, Add):
        section = operation.section
        return (3, _RANK[section] if section in _RANK else "~" + section_key(section), content_hash(operation.text))
    if isinstance(operation, Update):
        return (2, operation.id, content_hash(operation.text))
    if isinstance(operation, Merge):
        return (1, "\0".join(operation.ids), content_hash(operation.text))
    return (0, operation.id, "")


def _unite(one: Operation, other: Operation) -> Operation:
    """Join two operations with equal sort keys.

    Of two spellings the smaller stays, so the order of joining does not matter.
    """
    sources = one.sources + other.sources
    if isinstance(one, Remove) or isinstance(other, Remove):
        return replace(one, sources=sources)
    text = min(one.text, other.text)
    if isinstance(one, Add) and isinstance(other, Add):
        return Add(min(one.section, other.section), text, sources)
    return replace(one, text=text, sources=sources)


def delta_of(operations: Iterable[Operation]) -> Delta:
    """Return the delta of these operations: canonical order, equal ones joined with their sources united."""
    found: dict[SortKey, Operation] = {}
    for operation in operations:
        key = sort_key(operation)
        before = found.get(key)
        if before is None:
            found[key] = operation
        elif before != operation:
            found[key] = _unite(before, operation)
    return Delta(tuple(found[key] for key in sorted(found)))


def merge(*deltas: Delta) -> Delta:
    """Return the union of deltas.

    Associative, commutative and idempotent, so the shape of a tree of merges does not matter.
    """
    return delta_of(operation for delta in deltas for operation in delta.operations)
