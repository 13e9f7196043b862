"""Readers of agent traces: one a format, chosen by content, streaming over a file or a folder of any size."""

from combee.traces.readers.reading import ReadResult, TraceReader, read, reader, readers
from combee.traces.readers.source import Notice, ReadLimits, Report, Source

__all__ = [
    "Notice",
    "ReadLimits",
    "ReadResult",
    "Report",
    "Source",
    "TraceReader",
    "read",
    "reader",
    "readers",
]
