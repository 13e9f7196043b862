"""Whether a step shows a failure: a tool result marked so, an exit code that is not 0, or a line that names an error.

A sign for choosing what to keep and what to look at, not a verdict about the run.
"""

from __future__ import annotations

import re

from combee.trace.model import Step

__all__ = ["failed"]

_EXIT = re.compile(
    r"(?:exit(?:ed with)?(?: code| status)?|return\s?code|returned|status code)[\s:=\"'>]{1,6}(-?\d{1,5})\b(?!\.\d)",
    re.IGNORECASE,
)
_RETURN_CODE = re.compile(r"<returncode>\s*(-?\d{1,5})\s*</returncode>")
_LINE = re.compile(
    r"^.{0,200}?(?:"
    r"Traceback \(most recent call last\)|\b[A-Z]\w{0,60}(?:Error|Exception)\b|\b(?:error|fatal|panic)(?:\[\w+\])?:|"
    r"\berror TS\d+|\bnpm ERR!|command not found|No such file or directory|[Pp]ermission denied|[Cc]onnection refused|"
    r"\bFAILED\b|\b[1-9]\d* failed\b|\b[Cc]annot (?:find|open|access|import)\b|\bENOENT\b|\bEACCES\b|"
    r"\b[Ss]egmentation fault\b|"
    r"\b[Tt]imed out\b|\bUnable to \w+|\bInvalid \w+|\bUnknown (?:option|command|argument)"
    r").{0,400}",
    re.MULTILINE,
)


def _exit_code(text: str) -> int | None:
    marked = _RETURN_CODE.search(text[:400])
    if marked:
        return int(marked[1])
    code: int | None = None
    for match in _EXIT.finditer(text[-600:] if len(text) > 1200 else text):
        code = int(match[1])
    return code


def failed(step: Step) -> bool:
    """Return whether the step is a tool result (or a user's terminal output) that shows a failure."""
    if step.is_error:
        return True
    if step.role not in {"tool", "user"} or (step.role == "user" and step.answers is None):
        return False
    code = _exit_code(step.text)
    if code is not None:
        return code != 0
    return _LINE.search(step.text) is not None
