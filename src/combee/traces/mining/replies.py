"""A tool's result that is one JSON value: whether it says of itself that the call failed, and in what words.

Only the value's own top says so: an `error` deep in what a tool found, or in a record that it shows, is data.
"""

from __future__ import annotations

import json
import re

__all__ = ["reply_error", "unwrapped"]

_LONGEST = 20_000
_CODES = ("exit_code", "exitCode", "returncode", "return_code")
_PRINTED = ("output", "stdout", "stderr")
_SAYS = ("message", "msg", "detail", "reason", "description", "text", "type", "code")
_SHOWS_A_RECORD = frozenset({"id", "level"})
_OF_ERRORS = frozenset({"error", "errors", "details", "detail", "content"})
_NOTHING = re.compile(r"\W*(?:none|null|nil|no|no errors?|0 errors?|ok|success|false|n/?a|0)?\W*", re.IGNORECASE)


def reply_error(text: str) -> tuple[bool, str]:
    """Return whether a text is one JSON value, and what it says went wrong (empty where it says nothing of that)."""
    value = _json(text)
    if not isinstance(value, dict):
        return isinstance(value, list), ""
    said = _error(value)
    line = " ".join(text.split())
    return True, line if said and set(value) <= {"error"} and isinstance(value["error"], str) else said


def unwrapped(text: str) -> tuple[str, int | None]:
    """Return what a command printed and its exit code, where a result is an object that holds both."""
    value = _json(text)
    if not isinstance(value, dict):
        return text, None
    codes = (value.get(key) for key in _CODES)
    code = next((each for each in codes if isinstance(each, int) and not isinstance(each, bool)), None)
    if code is None or not any(isinstance(value.get(key), str) for key in _PRINTED):
        return text, None
    return "\n".join(each for key in _PRINTED if isinstance(each := value.get(key), str) and each), code


def _json(text: str) -> object:
    text = text.strip()
    if not text.startswith(("{", "[")) or not text.endswith(("}", "]")) or len(text) > _LONGEST:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _error(value: dict[str, object]) -> str:
    if value.get("success") is True or value.get("ok") is True or _SHOWS_A_RECORD & value.keys():
        return ""
    if any(isinstance(each, list | dict) and each for key, each in value.items() if key not in _OF_ERRORS):
        return ""  # it brought something
    said = _words(value.get("error")) or _words(value.get("errors"))
    marked = value.get("success") is False or value.get("ok") is False or value.get("status") == "error"
    marked = marked or value.get("error") is True or value.get("isError") is True or value.get("is_error") is True
    return said or (_words({**value, "code": None, "type": None}) or _words(value.get("content")) if marked else "")


def _words(value: object, depth: int = 0) -> str:
    """Return an error in words: a text, the message of an object, or the first of a list."""
    if isinstance(value, str):
        line = " ".join(value.split())
        return "" if _NOTHING.fullmatch(line) else line
    if isinstance(value, dict) and depth < 3:
        return next(filter(None, (_words(value.get(key), depth + 1) for key in _SAYS)), "")
    if isinstance(value, list) and value and depth < 3:
        return _words(value[0], depth + 1)
    return ""
