"""Our own JSON lines (`combee.redaction.to_jsonl`), lossless."""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import Trace, trace_from_data
from combee.traces.readers.source import Source

__all__ = ["OwnReader"]


class OwnReader:
    """Reads `{"combee_trace": 1, ...}` lines."""

    name = "combee"

    def sniff(self, source: Source) -> float:
        """Look for the version field."""
        return 1.0 if any(isinstance(value, dict) and "combee_trace" in value for value in source.first) else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield each line's trace as it was written."""
        for line, value in source.records():
            try:
                yield trace_from_data(value)
            except ValueError as error:
                source.skip(str(error), line)
