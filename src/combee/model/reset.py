"""When a used-up limit is free again, as the header fields of a refusal say it.

Providers write it in a dozen ways: `x-ratelimit-reset-requests: 6m0s`, `x-ratelimit-reset: 1767225600` (or in
milliseconds), `ratelimit-reset: 12`, `ratelimit: "burst";r=0;t=12`, `anthropic-ratelimit-requests-reset: 2026-...Z`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

_LONGEST = 600.0  # seconds; for what lies further off single calls ask from time to time
_FIELD = re.compile(r"(?:x-|anthropic-)?rate-?limit-(?:(\w+)-)?(remaining|reset)(?:-after)?(?:-(\w+))?")
_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_UNITS = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_PART = re.compile(r"\b(r|remaining|t|reset)\s*=\s*(\d+(?:\.\d+)?)")


def reset_seconds(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds until all limits of which nothing remains are free again; None where no field says so.

    Args:
        headers: The header fields of a refusal; their names in any case.
        now: The time that dates are counted from.
    """
    remaining: dict[str, float | None] = {}
    resets: dict[str, float | None] = {}
    today = now or datetime.now(UTC)
    for name, value in headers.items():
        found = _FIELD.fullmatch(name.lower())
        if found is not None:
            (remaining if found[2] == "remaining" else resets)[found[1] or found[3] or ""] = _read(value, today)
        elif name.lower() == "ratelimit":
            for key, number in _PART.findall(value.lower()):
                (remaining if key in {"r", "remaining"} else resets)["*"] = float(number)
    spent = [resets.get(limit) for limit, left in remaining.items() if left is not None and left <= 0]
    known = [seconds for seconds in spent if seconds is not None and seconds <= _LONGEST]
    return max(known, default=None)


def _read(value: str, today: datetime) -> float | None:
    """Return a number, or the seconds of a span or until a time."""
    text = value.strip()
    try:
        number = float(text)
    except ValueError:
        span = _SPAN.fullmatch(text) if text else None
        if span is not None:
            return sum(float(part) * unit for part, unit in zip(span.groups(), _UNITS, strict=True) if part)
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            return None
        return max(0.0, ((when if when.tzinfo else when.replace(tzinfo=UTC)) - today).total_seconds())
    if number > 1e9:  # seconds or milliseconds since 1970
        return max(0.0, (number / 1000 if number > 1e11 else number) - today.timestamp())
    return number
