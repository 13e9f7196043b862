"""The one check of whole numbers that fit, choice and controller share."""

from __future__ import annotations

from combee.errors import UsageError

__all__ = ["check_whole"]


def check_whole(name: str, value: object) -> None:
    """Raise UsageError unless `value` is an int of at least 1 (True is not a number here)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"the {name} must be a whole number of at least 1, not {value!r}")
