"""What a recorded run passes before it is stored: cleaning, redaction, JSON lines."""

from combee.kernel.learn.roles import Outcome, Role, Step, ToolCall, Trace, trace_id
from combee.redaction.clean import clean, clean_text, count_tokens, failed
from combee.redaction.jsonl import from_jsonl, to_jsonl, trace_from_data
from combee.redaction.redact import Redactor, find_secrets, redact, redact_trace

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
    "find_secrets",
    "from_jsonl",
    "redact",
    "redact_trace",
    "to_jsonl",
    "trace_from_data",
    "trace_id",
]
