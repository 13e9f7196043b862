"""What a method may offer beyond the protocol; the engine looks each hook up by name and does without a missing one.

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
similarity(a, b) -> float
    How alike two items are, 0 to 1. Without it: common words of `text(item)`, of the item's `text`, or of str(item).
text(item) -> str
    The words of an item, for the default similarity.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar, cast

from combee.kernel.aggregate.protocol import Method

__all__ = ["combine_by_model", "covered_keys", "digest_of", "fingerprint", "similarity_of", "summarize", "with_limit"]

T = TypeVar("T")
D = TypeVar("D")

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
    found = set(hook(items, delta))
    return [key for key in keys if key in found]


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
