"""Readers of agent traces: one a format, chosen by content, streaming over a file or a folder of any size."""

from combee.traces.readers.notices import Notice, Report
from combee.traces.readers.protocol import Reader
from combee.traces.readers.read import ReadResult, read
from combee.traces.readers.registry import GROUP, reader, readers
from combee.traces.readers.source import Limits, Source

__all__ = ["GROUP", "Limits", "Notice", "ReadResult", "Reader", "Report", "Source", "read", "reader", "readers"]
