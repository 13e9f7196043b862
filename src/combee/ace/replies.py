"""What a reply cites and proposes, as models really write it, and whether a lesson is really in a text.

A model names its sources by number. An operation that names none that exist is given to the inputs whose terms it
holds; where there is none, to all, and then it covers nothing. Coverage is verified by terms, not by what a model
claims: numbers, names, code and formulas must all be there as written; of the plain words a share must, since a curator
may put a lesson in other words.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from combee.kernel.playbook import (
    Delta,
    Playbook,
    Vote,
    VoteKind,
    distinct_terms,
    merge,
    says,
    split_terms,
    tokens,
)
from combee.model.answer_text import why_unusable
from combee.model.asking import as_text
from combee.model.operations import find_ids, parse_operations

CITED_SHARE = 0.5
"""Share of a lesson's words that must stand in a text that cites its reflection."""
FOUND_SHARE = 0.8
"""Share of the words where nothing cites it: in an old entry, or for an operation that names no source."""


class Known:
    """What a playbook says already, found by terms: quick for many lessons and many entries."""

    def __init__(self, book: Playbook) -> None:
        self.book = book
        self._texts = [bullet.text for bullet in book]
        self._holding: Mapping[str, list[int]] = defaultdict(list)
        for place, text in enumerate(self._texts):
            for term in distinct_terms(text):
                self._holding[term].append(place)

    @cached_property
    def tokens(self) -> int:
        """Tokens of the playbook."""
        return tokens(self.book)

    @property
    def holds_any(self) -> bool:
        """Whether there is an entry at all."""
        return bool(self._texts)

    def says(self, lesson: str) -> bool:
        """Return whether an entry says the lesson."""
        if not self._texts:
            return False
        hard, words = split_terms(lesson)
        if not hard and not words:
            return False
        return any(says(self._texts[place], lesson, FOUND_SHARE) for place in self._candidates(hard, words))

    def _candidates(self, hard: frozenset[str], words: frozenset[str]) -> Iterable[int]:
        """Return the entries that hold all hard terms, or where there are none enough of the words."""
        if hard:
            rarest = min(hard, key=lambda term: (len(self._holding.get(term, ())), term))
            return self._holding.get(rarest, ())
        counts = Counter(place for word in words for place in self._holding.get(word, ()))
        least = math.ceil(FOUND_SHARE * len(words) - 1e-9)
        return [place for place, count in counts.items() if count >= least]


_NUMBER = re.compile(r"[0-9]{1,9}")


def cited_ids(raw: object, book: Playbook) -> tuple[str, ...]:
    """Return the bullet ids that a reply names, each once: those of the book first, then unknown ones as written."""
    mentions = [as_text(part) for part in raw] if isinstance(raw, list) else None
    if mentions is not None and all(mention in book for mention in mentions):  # the usual case, and quick
        return tuple(dict.fromkeys(mentions))
    cited = find_ids(mentions if mentions is not None else as_text(raw), book)
    return (*cited.known, *cited.unknown)


def cited_numbers(raw: object) -> list[int]:
    """Return the numbers in a list like [1, "2", "reflection 3"], or in a text like "1, 2"."""
    parts = raw if isinstance(raw, list) else [raw]
    numbers: list[int] = []
    for part in parts:
        if isinstance(part, bool) or part is None:
            continue
        if isinstance(part, int | float):
            numbers.append(int(part) if abs(part) < 1e9 else 0)
        else:
            numbers += [int(number) for number in _NUMBER.findall(as_text(part))]
    return list(dict.fromkeys(numbers))


def votes_of(raw: object, shown: Playbook, reflection: str) -> tuple[tuple[Vote, ...], tuple[str, ...]]:
    """Return the votes of a reply's `bullet_tags`, and what could not be used (ids that were not shown, other tags).

    `raw` is a list of objects with id and tag, or an object of id to tag.
    """
    if isinstance(raw, Mapping):
        pairs = [(as_text(name), as_text(tag)) for name, tag in raw.items()]
    elif isinstance(raw, list):
        pairs = [
            (as_text(part.get("id", part.get("bullet_id"))), as_text(part.get("tag")))
            for part in raw
            if isinstance(part, Mapping)
        ]
    else:
        pairs = []
    votes: set[Vote] = set()
    problems: list[str] = []
    for name, tag in pairs:
        known = [one for one in cited_ids([name], shown) if one in shown]
        word = tag.casefold()
        if not known:
            problems.append(f"a tag for {name[:40]!r}, which was not shown")
        elif word in {"helpful", "harmful"}:
            votes.add(Vote(reflection, known[0], VoteKind(word)))
        elif word != "neutral":
            problems.append(f"the tag {tag[:40]!r} for {known[0]}")
    return tuple(sorted(votes)), tuple(problems)


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
        bad = why_unusable(as_text(_first(fields, _TEXTS)))
        if bad is not None:
            problems.append(f"operation {place}: {bad.message}")
            continue
        prepared.append({k: v for k, v in fields.items() if k not in _SOURCES} | {"sources": sorted(cited)})
    deltas: list[Delta] = []
    for start in range(0, len(prepared), _AT_ONCE):
        part = prepared[start : start + _AT_ONCE]
        # Only the sources of these operations: for each one the parser looks at all that it is given.
        sources = sorted({name for one in part if isinstance(one, dict) for name in one["sources"]})
        delta, wrong = parse_operations(part, sources=sources, known_ids=known_ids)
        deltas.append(delta)
        problems += [f"operation {start + problem.index + 1}: {problem.reason}" for problem in wrong]
    return ReadOperations(merge(*deltas), tuple(problems), unattributed)


def _first(fields: Mapping[str, object], names: Sequence[str]) -> object:
    return next((fields[name] for name in names if fields.get(name)), None)


def _by_terms(text: object, inputs: Sequence[Input]) -> set[str]:
    """Return the sources of the inputs whose lessons stand in the text; all sources where none does."""
    if isinstance(text, str):
        saying = [one for one in inputs if any(says(text, lesson, FOUND_SHARE) for lesson in one.lessons)]
        if saying:
            return {source for one in saying for source in one.sources}
    return {source for one in inputs for source in one.sources}
