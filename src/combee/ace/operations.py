"""From the operations of a curator's reply to a delta whose sources are real.

A model names its sources by number. An operation that names none that exist is given to the inputs whose terms it
holds; where there is none, to all, and then it covers nothing, since coverage is verified by terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from combee.ace.citing import cited_numbers
from combee.ace.coverage import FOUND_SHARE, says
from combee.kernel.playbook import Delta, merge, parse_operations

__all__ = ["Input", "ReadOperations", "read_operations"]

_SOURCES = ("sources", "source", "reflections", "operations")
_TEXTS = ("content", "text")
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Input:
    """One numbered input of a call: the reflections behind it, and what it says."""

    sources: tuple[str, ...]
    lessons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadOperations:
    """The delta, what was wrong with the reply, and how many operations named no source."""

    delta: Delta
    problems: tuple[str, ...] = ()
    unattributed: int = 0


def read_operations(raw: object, inputs: Sequence[Input], known_ids: Sequence[str]) -> ReadOperations:
    """Read a list of operations; a bad one is reported and skipped alone. `inputs` are numbered from 1."""
    listed = raw if isinstance(raw, list) else []
    prepared: list[object] = []
    problems: list[str] = [] if isinstance(raw, list) else [f"operations is no list but {type(raw).__name__}"]
    unattributed = 0
    for place, operation in enumerate(listed, start=1):
        if not isinstance(operation, Mapping):
            prepared.append(operation)
            continue
        fields = {str(key).strip().lower(): value for key, value in operation.items()}
        numbers = [n for key in _SOURCES if key in fields for n in cited_numbers(fields[key])]
        cited = {source for n in numbers if 1 <= n <= len(inputs) for source in inputs[n - 1].sources}
        unknown = [n for n in numbers if not 1 <= n <= len(inputs)]
        if unknown:
            problems.append(f"operation {place} cites {unknown[:5]}, and there are {len(inputs)} inputs")
        if not cited:
            unattributed += 1
            cited = _by_terms(_first(fields, _TEXTS), inputs)
        prepared.append(fields | {"sources": sorted(cited)})
    deltas: list[Delta] = []
    for start in range(0, len(prepared), _AT_ONCE):
        part = prepared[start : start + _AT_ONCE]
        # Only the sources of these operations: for each one the parser looks at all that it is given.
        sources = sorted({name for one in part if isinstance(one, dict) for name in one["sources"]})
        delta, found = parse_operations(part, sources=sources, known_ids=known_ids)
        deltas.append(delta)
        problems += [f"operation {start + problem.index + 1}: {problem.reason}" for problem in found]
    return ReadOperations(merge(*deltas), tuple(problems), unattributed)


def _first(fields: Mapping[str, object], names: Sequence[str]) -> object:
    return next((fields[name] for name in names if fields.get(name)), None)


def _by_terms(text: object, inputs: Sequence[Input]) -> set[str]:
    """Return the sources of the inputs whose lessons stand in the text; all sources where none does."""
    if isinstance(text, str):
        found = [one for one in inputs if any(says(text, lesson, FOUND_SHARE) for lesson in one.lessons)]
        if found:
            return {source for one in found for source in one.sources}
    return {source for one in inputs for source in one.sources}
