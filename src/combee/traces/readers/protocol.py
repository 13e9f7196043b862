"""What a reader of one format is. Third parties register theirs under the entry point group `combee.readers`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from combee.redaction import Trace
from combee.traces.readers.source import Source

__all__ = ["Reader"]


@runtime_checkable
class Reader(Protocol):
    """Reads the traces of one format.

    A reader is given every file and folder (`source.folder`) that no other reader took; it looks at `source.first`,
    `source.kind` or `source.names`, never at the name of the file alone.
    """

    name: str

    def sniff(self, source: Source) -> float:
        """Return how sure it is, from 0 (not mine) to 1; the surest gets the source, if it is at least 0.5 sure."""
        ...

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the traces one by one; what cannot be read is named with `source.skip(reason, line)`."""
        ...
