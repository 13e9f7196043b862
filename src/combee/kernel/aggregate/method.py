"""What an aggregation method is: how items become deltas, and how deltas are combined.

The engine knows no model and no playbook. Items (`T`) have a key and a weight in tokens; deltas (`D`) have sources and
a size. Beyond the protocol a method may offer these hooks; each is looked up by name, and the engine does without a
missing one.

fingerprint: str
    Hash of what besides the items decides the result of a call (prompts, playbook version, model); part of addresses.
digest(item) -> str
    Hash of an item's content; without it the key stands for the content.
coverage(items, delta) -> keys
    `covered` for many items at once, where that is faster.
combine_by_model(deltas, node) -> delta
    One model call over several deltas, for methods whose `combine` is code. The preset "paper" ends in it.
summarize(items, node) -> item
    One call that makes one shorter item of several; it must carry the keys of the items it stands for into `sources`.
with_output_limit(tokens) -> method
    The same method with another limit on what one call may write.
output_limit: int
    Tokens that one call may write of what its items ask for; with `output(item) -> tokens`, what an item takes of them.
window_share(items) -> float
    Share of the model's window that a leaf over the items uses; None where the window is not known. With `input_room`,
    the tokens of items that a leaf has room for.
similarity(a, b) -> float
    How alike two items are, 0 to 1. Without it: common words of `text(item)`, of the item's `text`, or of str(item).
text(item) -> str
    The words of an item, for the default similarity.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar, cast

from combee.kernel.journal import JSON

T_contra = TypeVar("T_contra", contravariant=True)
T = TypeVar("T")
D = TypeVar("D")


class Method(Protocol[T_contra, D]):
    """Turns groups of items into deltas and deltas into one delta."""

    @property
    def combine_calls_model(self) -> bool:
        """False: `combine` is code (a merge of any fan-in). True: it calls a model: capped fan-in, levels."""
        ...

    def key(self, item: T_contra) -> str:
        """Return the stable id of an item; two items with one key are one item."""
        ...

    def weight(self, item: T_contra) -> int:
        """Return the tokens that the item adds to a call."""
        ...

    async def leaf(self, items: Sequence[T_contra], node: str) -> D:
        """Read the items of one group in one call. `node` is a stable name like "r0/l0/g3".

        Raises:
            CallError: The call gave nothing usable, after all retries.
        """
        ...

    async def combine(self, deltas: Sequence[D], node: str) -> D:
        """Make one delta of one or more. Raises `CallError` only where it calls a model."""
        ...

    def sources(self, delta: D) -> frozenset[str]:
        """Return the keys of the items that the delta cites: a claim."""
        ...

    def size(self, delta: D) -> int:
        """Return the number of lessons (operations) in the delta."""
        ...

    def covered(self, item: T_contra, delta: D) -> bool:
        """Return whether what is distinctive in the item is found in an operation that cites it (not just claimed)."""
        ...

    def encode(self, delta: D) -> JSON:
        """Return the delta as JSON, without loss."""
        ...

    def decode(self, value: JSON) -> D:
        """Return the delta that `encode` wrote."""
        ...


_WORD = re.compile(r"\w+")


def fingerprint(method: Method[T, D]) -> str:
    """Return the method's fingerprint, or ""."""
    return str(getattr(method, "fingerprint", ""))


def digest_of(method: Method[T, D]) -> Callable[[T], str]:
    """Return the function that names an item and its content."""
    hook = cast("Callable[[T], str] | None", getattr(method, "digest", None))
    return method.key if hook is None else lambda item: f"{method.key(item)} {hook(item)}"


def covered_keys(method: Method[T, D], keys: Sequence[str], items: Sequence[T], delta: D) -> list[str]:
    """Return those of the keys whose items the delta covers, in their order."""
    hook = cast("Callable[[Sequence[T], D], Iterable[str]] | None", getattr(method, "coverage", None))
    if hook is None:
        covered = method.covered
        return [key for key, item in zip(keys, items, strict=True) if covered(item, delta)]
    inside = set(hook(items, delta))
    return [key for key in keys if key in inside]


def combine_by_model(method: Method[T, D]) -> Callable[[Sequence[D], str], Awaitable[D]] | None:
    """Return the call that combines by model, or None where the method only merges by code."""
    if method.combine_calls_model:
        return method.combine
    return cast("Callable[[Sequence[D], str], Awaitable[D]] | None", getattr(method, "combine_by_model", None))


def summarize(method: Method[T, D]) -> Callable[[Sequence[T], str], Awaitable[T]] | None:
    """Return the call that makes one item of several, or None."""
    return cast("Callable[[Sequence[T], str], Awaitable[T]] | None", getattr(method, "summarize", None))


def with_limit(method: Method[T, D], tokens: int) -> Method[T, D] | None:
    """Return the method with another output limit, or None where it has no such option."""
    hook = cast("Callable[[int], Method[T, D]] | None", getattr(method, "with_output_limit", None))
    return None if hook is None else hook(tokens)


def output_limit(method: Method[T, D]) -> int | None:
    """Return the tokens that one call may write, or None where the method does not say, or not what an item takes."""
    limit = getattr(method, "output_limit", None)
    return limit if isinstance(limit, int) and hasattr(method, "output") else None


def output_of(method: Method[T, D], item: T) -> int:
    """Return the tokens that the item is expected to take of what a call writes."""
    return int(cast("Callable[[T], int]", getattr(method, "output", lambda _: 0))(item))


def input_room(method: Method[T, D]) -> int | None:
    """Return the tokens of items that the model's window has room for, or None where it is not known."""
    room = getattr(method, "input_room", None)
    return room if isinstance(room, int) else None


def window_share(method: Method[T, D], items: Sequence[T]) -> float | None:
    """Return the share of the model's window that a leaf over the items uses, or None where it is not known."""
    return cast("Callable[[Sequence[T]], float | None]", getattr(method, "window_share", lambda _: None))(items)


def similarity_of(method: Method[T, D]) -> Callable[[T, T], float]:
    """Return the method's similarity, or the share of common words."""
    hook = cast("Callable[[T, T], float] | None", getattr(method, "similarity", None))
    if hook is not None:
        return hook
    text = cast("Callable[[T], str]", getattr(method, "text", lambda item: str(getattr(item, "text", item))))
    words: dict[str, frozenset[str]] = {}

    def words_of(item: T) -> frozenset[str]:
        key = method.key(item)
        if key not in words:
            words[key] = frozenset(_WORD.findall(text(item).casefold()))
        return words[key]

    def shared(a: T, b: T) -> float:
        one, two = words_of(a), words_of(b)
        return len(one & two) / (len(one | two) or 1)

    return shared
