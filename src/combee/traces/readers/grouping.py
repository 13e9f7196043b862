"""Groups the records of a file by trace, where several traces are mixed in it, without holding the whole file.

At most `limit` bytes are held; past that the group that was touched longest ago is closed, and later records of it are
named as lost by whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from combee.traces.readers.source import Source

__all__ = ["Group", "grouped"]

_MOST_CLOSED = 1_000_000


@dataclass(slots=True)
class Group:
    """The records of one trace with their lines."""

    key: str
    records: list[tuple[int, dict[str, object]]] = field(default_factory=list)
    size: int = 0


def grouped(source: Source, records: Iterable[tuple[int, str, dict[str, object], int]], what: str) -> Iterator[Group]:
    """Yield groups of (line, key, record, size in bytes); `what` names one record in a notice."""
    open_groups: dict[str, Group] = {}
    closed: set[int] = set()
    held = 0
    for line, key, record, size in records:
        group = open_groups.pop(key, None)
        if group is None:
            if hash(key) in closed:
                source.skip(f"{what} that came after its trace was closed (too many traces are mixed)", line)
                continue
            group = Group(key)
        open_groups[key] = group  # last touched stands last
        group.records.append((line, record))
        group.size += size
        held += size
        while held > source.limits.held and len(open_groups) > 1:
            oldest = open_groups.pop(next(iter(open_groups)))
            held -= oldest.size
            if len(closed) < _MOST_CLOSED:
                closed.add(hash(oldest.key))
            yield oldest
    yield from open_groups.values()
