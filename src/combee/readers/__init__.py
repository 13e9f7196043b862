"""Readers of agent traces: one a format, chosen by content, streaming over a file or a folder of any size."""

from combee.readers.notices import Notice, Report
from combee.readers.protocol import Reader
from combee.readers.read import ReadResult, read
from combee.readers.registry import GROUP, reader, readers
from combee.readers.source import Limits, Source

__all__ = ["GROUP", "Limits", "Notice", "ReadResult", "Reader", "Report", "Source", "read", "reader", "readers"]
