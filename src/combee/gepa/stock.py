"""What we need of the stock `gepa` package, and what is said where it is missing or too old.

State through gepa's checkpoint: what `get_adapter_state` returns is all of a user's that survives `run_dir`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol, TypeVar

from combee.errors import UsageError, how_to_install
from combee.kernel.journal import JSON

__all__ = ["Keeps", "arguments_of_optimize", "keep_state", "require_gepa"]

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


def arguments_of_optimize() -> Mapping[str, Any]:
    """Return the arguments of the `gepa.optimize` that is calling, by name; empty where none is.

    gepa 0.1.4 tells a reflection strategy neither its template nor its settings for a model, and drops them.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "optimize" and frame.f_globals.get("__name__") == "gepa.api":
            return frame.f_locals
        frame = frame.f_back
    return {}


A = TypeVar("A")
_KEY = "combee"


class Keeps(Protocol):
    """Something with state: a `CombeeReflection`, a `CombeeSampler`."""

    def get_state(self) -> dict[str, JSON]:
        """Return a new dict of plain data."""
        ...

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from it."""
        ...


def keep_state(adapter: A, *parts: Keeps) -> A:
    """Let an adapter carry the state of a reflection and a sampler through gepa's checkpoints; return the adapter.

    The adapter's own state, where it has any, stays as it is. The order of the parts must not change between runs.
    """
    get: Callable[[], Mapping[str, Any]] | None = getattr(adapter, "get_adapter_state", None)
    put: Callable[[Mapping[str, Any]], None] | None = getattr(adapter, "set_adapter_state", None)

    def get_adapter_state() -> dict[str, Any]:
        return {**(get() if get is not None else {}), _KEY: [part.get_state() for part in parts]}

    def set_adapter_state(state: Mapping[str, Any]) -> None:
        kept = state.get(_KEY, [])
        if put is not None:
            put({name: value for name, value in state.items() if name != _KEY})
        for part, one in zip(parts, kept, strict=False):
            part.set_state(one)

    adapter.get_adapter_state = get_adapter_state  # type: ignore[attr-defined]  # gepa looks them up on the object
    adapter.set_adapter_state = set_adapter_state  # type: ignore[attr-defined]  # likewise
    return adapter
