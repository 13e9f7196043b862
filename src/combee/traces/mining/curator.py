"""The curator of mined lessons: code that writes them as operations, each under the section of its kind.

Equal lessons become one operation with all their sources, so what recurs is counted and not repeated. Nothing is lost:
no call is too large for code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from combee.kernel.aggregate import Method
from combee.kernel.journal import Scope, hash_json
from combee.kernel.learn import OperationsMethod, Reflection
from combee.kernel.playbook import Add, Delta, Playbook, count_tokens, delta_of

__all__ = ["MiningCurator", "MiningMethod"]

_MISTAKES, _STRATEGIES = "COMMON MISTAKES TO AVOID", "STRATEGIES & INSIGHTS"
_STARTS = ("A dead end: ", "The test ", "The user corrected ", "In the task ")


def _section_of(lesson: str) -> str:
    """Return the section of a mined lesson; every kind has words of its own."""
    return _STRATEGIES if lesson.startswith(_STARTS) or "in run after run" in lesson else _MISTAKES


@dataclass(frozen=True, slots=True)
class MiningCurator:
    """Makes the aggregation method of each step."""

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        """Return the method; it depends on nothing but the reflections."""
        return MiningMethod()


@dataclass(frozen=True, slots=True)
class MiningMethod(OperationsMethod):
    """Reflections to one delta by code (`combee.kernel.aggregate.Method`)."""

    combine_calls_model: bool = False

    @property
    def fingerprint(self) -> str:
        """Return the hash of what besides the reflections decides a result."""
        return hash_json(["mining", 1])

    def key(self, item: Reflection) -> str:
        """Return the id of the reflection."""
        return item.id

    def digest(self, item: Reflection) -> str:
        """Return the hash of what the reflection says."""
        return hash_json(list(item.lessons))

    def weight(self, item: Reflection) -> int:
        """Return the tokens of the reflection's text."""
        return count_tokens(item.text)

    def text(self, item: Reflection) -> str:
        """Return what the default similarity compares."""
        return "\n".join(item.lessons)

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        """Write the lessons of the reflections."""
        sources: dict[str, list[str]] = defaultdict(list)
        for item in items:
            for lesson in item.lessons:
                sources[lesson].append(item.id)
        return delta_of(Add(_section_of(lesson), lesson, tuple(cited)) for lesson, cited in sources.items())

    def covered(self, item: Reflection, delta: Delta) -> bool:
        """Return whether every lesson stands in an operation that cites the reflection."""
        cited = {getattr(operation, "text", "") for operation in delta if item.id in operation.sources}
        return all(Add("", lesson).text in cited for lesson in item.lessons)
