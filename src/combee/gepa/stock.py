"""What we need of the stock `gepa` package, and what is said where it is missing or too old."""

from __future__ import annotations

from importlib import import_module

from combee.errors import UsageError, how_to_install

__all__ = ["require_gepa"]

_SEAM = "gepa.proposer.reflective_mutation.reflection_lm"


def require_gepa() -> None:
    """Check that gepa is there and lets a reflection strategy in.

    Raises:
        UsageError: It is not installed, or older than 0.1.4.
    """
    try:
        import_module("gepa")
    except ImportError:
        raise UsageError(
            "combee.gepa needs the gepa package, which is not installed", hint=how_to_install("gepa")
        ) from None
    try:
        import_module(_SEAM)
    except ImportError:
        raise UsageError(
            "this gepa takes no reflection strategy; gepa 0.1.4 is the first that does", hint=how_to_install("gepa")
        ) from None
