"""The id of a trace: a hash of what it holds, so the same run has the same id wherever its file lies.

Labels and `meta` (file names, models, costs) are left out; lone surrogates must be gone before (see `plain`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from combee.trace.model import Outcome, Step

__all__ = ["plain", "trace_id"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def plain(text: str) -> str:
    """Return text that encodes as UTF-8: surrogate pairs are joined, lone surrogates become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _SURROGATE.sub("\ufffd", joined)
    return text


def trace_id(task: str, steps: Sequence[Step], outcome: Outcome | None, run: str = "") -> str:
    """Return `t-` and 24 hex digits. Texts must encode as UTF-8.

    `run` is the name that the format itself gives this run (a trial's uuid): two runs that went alike stay two.
    """
    digest = hashlib.blake2b(digest_size=12)

    def take(*texts: str | None) -> None:
        # Each part is led by its length, so that no two different lists of parts join to one text.
        parts = [f"{-1 if text is None else len(text)}:{text or ''}" for text in texts]
        digest.update("".join(parts).encode())

    take(task)
    if run:
        take(f"run {run}")
    for step in steps:
        head = f"{step.role} {step.is_error} {len(step.tool_calls)}"
        take(head, step.text, step.answers, step.timestamp, step.agent)
        for call in step.tool_calls:
            take(call.id, call.name, call.arguments)
    if outcome is not None:
        take(f"{outcome.success} {outcome.score} {outcome.claimed}", outcome.detail)
        for name, passed in sorted(outcome.tests.items()):
            take(f"{passed} {name}")
    return f"t-{digest.hexdigest()}"
