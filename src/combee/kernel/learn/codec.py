"""Operations, votes, revisions and reflections as JSON, so that the journal can hold a run's whole history.

`OperationsMethod` is what all aggregation methods share whose deltas are playbook operations, `ReflectionsMethod` what
those share that read reflections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from combee.kernel.journal import JSON
from combee.kernel.learn.roles import Reflection
from combee.kernel.playbook import (
    Add,
    Delta,
    Merge,
    Operation,
    Remove,
    Revision,
    Update,
    Vote,
    VoteKind,
    count_tokens,
    delta_of,
    merge,
)


def _operation_to_json(operation: Operation) -> JSON:
    sources = cast("list[JSON]", list(operation.sources))
    match operation:
        case Add():
            return {"type": "ADD", "section": operation.section, "text": operation.text, "sources": sources}
        case Update():
            return {"type": "UPDATE", "id": operation.id, "text": operation.text, "sources": sources}
        case Merge():
            ids = cast("list[JSON]", list(operation.ids))
            return {"type": "MERGE", "ids": ids, "text": operation.text, "sources": sources}
        case Remove():
            return {"type": "REMOVE", "id": operation.id, "sources": sources}


def _operation_from_json(value: JSON) -> Operation:
    kept = cast("dict[str, JSON]", value)
    sources = tuple(cast("list[str]", kept["sources"]))
    if kept["type"] == "ADD":
        return Add(str(kept["section"]), str(kept["text"]), sources)
    if kept["type"] == "UPDATE":
        return Update(str(kept["id"]), str(kept["text"]), sources)
    if kept["type"] == "MERGE":
        return Merge(tuple(cast("list[str]", kept["ids"])), str(kept["text"]), sources)
    return Remove(str(kept["id"]), sources)


def delta_to_json(delta: Delta) -> JSON:
    """Return the operations as a list."""
    return [_operation_to_json(operation) for operation in delta]


def delta_from_json(value: JSON) -> Delta:
    """Read what `delta_to_json` wrote."""
    return delta_of([_operation_from_json(item) for item in cast("list[JSON]", value)])


def revision_to_json(revision: Revision) -> dict[str, JSON]:
    """Return all that one step did to the book."""
    return {
        "delta": delta_to_json(revision.delta),
        "votes": [[vote.reflection, vote.bullet, vote.kind.value] for vote in revision.votes],
        "used": list(revision.used),
        "step": revision.step,
        "budget": revision.budget,
        "near": revision.near,
        "on_full": revision.on_full,
    }


def revision_from_json(value: JSON) -> Revision:
    """Read what `revision_to_json` wrote."""
    kept = cast("dict[str, JSON]", value)
    votes = cast("list[list[str]]", kept["votes"])
    return Revision(
        delta=delta_from_json(kept["delta"]),
        votes=tuple(Vote(reflection, bullet, VoteKind(kind)) for reflection, bullet, kind in votes),
        used=tuple(cast("list[str]", kept["used"])),
        step=cast("int", kept["step"]),
        budget=cast("int | None", kept["budget"]),
        near=cast("float | None", kept["near"]),
        on_full="evict" if kept.get("on_full") == "evict" else "refuse",
    )


def reflection_to_json(reflection: Reflection) -> dict[str, JSON]:
    """Return the reflection without its labels, which belong to its sample."""
    return {
        "id": reflection.id,
        "trace": reflection.trace,
        "task": reflection.task,
        "text": reflection.text,
        "lessons": list(reflection.lessons),
        "votes": [[vote.bullet, vote.kind.value] for vote in reflection.votes],
        "passed": reflection.passed,
    }


def reflection_from_json(value: JSON, labels: Mapping[str, str]) -> Reflection | None:
    """Read what `reflection_to_json` wrote; None stays None."""
    if value is None:
        return None
    kept = cast("dict[str, JSON]", value)
    identity = str(kept["id"])
    votes = cast("list[list[str]]", kept["votes"])
    return Reflection(
        id=identity,
        trace=str(kept["trace"]),
        task=str(kept["task"]),
        text=str(kept["text"]),
        lessons=tuple(str(lesson) for lesson in cast("list[JSON]", kept["lessons"])),
        votes=tuple(Vote(identity, bullet, VoteKind(kind)) for bullet, kind in votes),
        passed=cast("bool | None", kept["passed"]),
        labels=labels,
    )


class OperationsMethod:
    """The half of `aggregate.Method` that knows operations; a method adds the half that knows its items."""

    __slots__ = ()

    async def combine(self, deltas: Sequence[Delta], node: str) -> Delta:
        """Unite by code: no call, no loss."""
        return merge(*deltas)

    def sources(self, delta: Delta) -> frozenset[str]:
        """Return the keys of the items that the operations cite."""
        return frozenset(source for operation in delta for source in operation.sources)

    def size(self, delta: Delta) -> int:
        """Return the number of operations."""
        return len(delta)

    def encode(self, delta: Delta) -> JSON:
        """Return the operations as JSON."""
        return delta_to_json(delta)

    def decode(self, value: JSON) -> Delta:
        """Return the delta that `encode` wrote."""
        return delta_from_json(value)


class ReflectionsMethod(OperationsMethod):
    """The other half where the items are reflections; a method adds `leaf`, `coverage` and its fingerprint."""

    __slots__ = ()

    def key(self, item: Reflection) -> str:
        """Return the id of the reflection."""
        return item.id

    def weight(self, item: Reflection) -> int:
        """Return the tokens of the reflection's text."""
        return count_tokens(item.text)

    def text(self, item: Reflection) -> str:
        """Return what the default similarity compares."""
        return "\n".join(item.lessons)

    def covered(self, item: Reflection, delta: Delta) -> bool:
        """Return whether `coverage` names the reflection."""
        return bool(self.coverage((item,), delta))

    def coverage(self, items: Sequence[Reflection], delta: Delta) -> list[str]:
        """Return the keys of the reflections whose lessons are all verified to be in the delta."""
        raise NotImplementedError
