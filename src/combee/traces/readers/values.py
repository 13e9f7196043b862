"""Safe access to foreign JSON: a missing or odd value is an empty one, never an exception."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime


def text(value: object, default: str = "") -> str:
    """Return a text; a number becomes its digits, anything else the default."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _digits(value)
    return default


def _digits(value: float) -> str:
    try:
        return str(value)
    except ValueError:  # more digits than Python prints
        return ""


def table(value: object) -> dict[str, object]:
    """Return an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[object]:
    """Return a list, or an empty one."""
    return value if isinstance(value, list) else []


def objects(value: object) -> Iterator[dict[str, object]]:
    """Yield the objects of a list."""
    return (item for item in rows(value) if isinstance(item, dict))


def number(value: object) -> float | None:
    """Return a finite number (also one written as text), or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def flag(value: object) -> bool | None:
    """Return true or false (also written as text), or None."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return None


def compact(value: object) -> str:
    """Return the value as one line of JSON; a text stays as it is, None is empty."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    except (RecursionError, ValueError):
        return "[nested too deeply]"


def when(value: object) -> str | None:
    """Return a time as recorded text; seconds, milliseconds or nanoseconds since 1970 become ISO 8601 in UTC."""
    if isinstance(value, str) and not value.isdigit():
        return value or None
    seconds = number(value)
    if seconds is None or seconds <= 0:
        return None
    while seconds > 1e11:
        seconds /= 1000.0
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None
