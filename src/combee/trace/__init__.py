"""Traces: recorded runs as plain data, their JSON lines, cleaning and redaction."""

from combee.trace.clean import clean, clean_text, count_tokens
from combee.trace.failure import failed
from combee.trace.identity import plain, trace_id
from combee.trace.jsonl import from_jsonl, to_jsonl, trace_from_data
from combee.trace.model import Outcome, Role, Step, ToolCall, Trace
from combee.trace.redact import Redactor, redact, redact_trace

__all__ = [
    "Outcome",
    "Redactor",
    "Role",
    "Step",
    "ToolCall",
    "Trace",
    "clean",
    "clean_text",
    "count_tokens",
    "failed",
    "from_jsonl",
    "plain",
    "redact",
    "redact_trace",
    "to_jsonl",
    "trace_from_data",
    "trace_id",
]
