"""Is a lesson specific, or a platitude? Numbers, identifiers, names and rare words decide, if what it cites holds them.

A curator can cite everything and write "check your work" at the usual rate; counts and citations do not show that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from combee.kernel.guard.evidence import lessons
from combee.kernel.playbook import Delta, distinct_terms

__all__ = ["count_specific", "echoed", "specific_terms"]

_MARKED = re.compile(r"\d|_|[a-z][A-Z]|[A-Z]{2}|\w[.:/\\]+\w|\w\(")
_NAME = re.compile(r"(?<=[^\s.!?:] )[A-Z]\w+")
_CODE = re.compile(r"`([^`\n]+)`")
SUPPORT = 4  # a lesson must share a term with at least one in four of the reflections it cites


def specific_terms(text: str) -> frozenset[str]:
    """Return the terms of a text that carry information by their form: numbers, identifiers, code, names."""
    marked = {term for term in distinct_terms(text) if _MARKED.search(term)}
    return frozenset(marked.union(_NAME.findall(text), _CODE.findall(text)))


def count_specific(delta: Delta, items: Mapping[str, str]) -> int:
    """Return how many lessons say something of what they cite.

    A lesson counts when it shares a distinctive term (`distinct_terms`, negation aside) with at least
    a quarter of the reflections it cites. From four reflections on, a term that more than half of all reflections hold
    does not count: it belongs to the subject, not to a lesson. A lesson that cites no reflection of this step counts
    by its form alone.
    """
    terms, common = _terms(items)
    count = 0
    for lesson in lessons(delta):
        cited = [terms[source] for source in lesson.sources if source in terms]
        if not cited:
            count += bool(specific_terms(lesson.text))
            continue
        own = distinct_terms(lesson.text) - common
        count += sum(not own.isdisjoint(found) for found in cited) * SUPPORT >= len(cited)
    return count


def echoed(delta: Delta, items: Mapping[str, str]) -> frozenset[str]:
    """Return the items of which a lesson that cites them holds a distinctive term, in the sense of `count_specific`.

    For items whose own terms need not stand in a good lesson, such as the right answer to a single case.
    """
    terms, common = _terms(items)
    found: set[str] = set()
    for lesson in lessons(delta):
        own = distinct_terms(lesson.text) - common
        found.update(source for source in lesson.sources if source in terms and not own.isdisjoint(terms[source]))
    return frozenset(found)


def _terms(items: Mapping[str, str]) -> tuple[dict[str, frozenset[str]], set[str]]:
    """Return the terms of each item, and those that belong to the subject: more than half of four or more have them."""
    terms = {item: distinct_terms(text) - {"not"} for item, text in items.items()}
    if len(items) < 4:
        return terms, set()
    held = Counter(term for found in terms.values() for term in found)
    return terms, {term for term, count in held.items() if count > len(items) / 2}
