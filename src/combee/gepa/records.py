"""The records of a reflective dataset as items of an aggregation: a key, a text, and the terms that must survive.

Adapters put anything into a record; it is rendered as plain text, in the order of its keys.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from combee.errors import UsageError
from combee.playbook import count_tokens, distinct_terms

__all__ = ["Record", "read_records", "share_of", "shown", "shown_records"]

_TICKS = re.compile(r"`+")
_COMMON = 0.5  # terms in more than this share of the records are the task's words, not a record's


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `terms` are those of its feedback that are its own; `right` says that there was nothing to mend."""

    key: str
    text: str
    terms: frozenset[str]
    weight: int
    right: bool = False


def read_records(raw: Iterable[object]) -> list[Record]:
    """Return the records of one component. Equal records get different keys, since each is a case of its own.

    Raises:
        UsageError: A record holds an image.
    """
    texts: list[str] = []
    feedback: list[frozenset[str]] = []
    right: list[bool] = []
    for item in raw:
        fields: Mapping[object, object] = item if isinstance(item, Mapping) else {"Record": item}
        texts.append("\n".join(f"{key}: {_shown(value)}" for key, value in fields.items()))
        said = [_shown(value) for key, value in fields.items() if "feedback" in str(key).casefold()]
        feedback.append(distinct_terms("\n".join(said) if said else texts[-1]) - {"not"})
        right.append(_is_right(fields))
    seen = Counter(term for terms in feedback for term in terms)
    common = {term for term, count in seen.items() if len(texts) > 3 and count > _COMMON * len(texts)}
    times: Counter[str] = Counter()
    records: list[Record] = []
    for text, terms, is_right in zip(texts, feedback, right, strict=True):
        name = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
        times[name] += 1
        key = name if times[name] == 1 else f"{name}~{times[name]}"
        records.append(Record(key, text, terms - common, count_tokens(text) + 16, is_right))
    return records


def share_of(terms: frozenset[str], found: frozenset[str]) -> float:
    """Return the share of the terms that are found; 1 where there are none."""
    return len(terms & found) / len(terms) if terms else 1.0


def shown_records(records: Sequence[Record]) -> str:
    """Return records as a prompt shows them: numbered, each in a fence that nothing in it can close."""
    return "\n\n".join(shown(f"Record {number}", record.text) for number, record in enumerate(records, start=1))


def shown(title: str, text: str) -> str:
    """Return a text under a title, in a fence longer than any run of backticks in it."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{title}:\n{fence}\n{text}\n{fence}"


def _is_right(fields: Mapping[object, object]) -> bool:
    for key, value in fields.items():
        if str(key).casefold() == "score" and isinstance(value, int | float) and not isinstance(value, bool):
            return value >= 1
    return False


def _shown(value: object, depth: int = 0) -> str:
    if type(value).__module__ == "gepa.image":
        raise UsageError("a record holds an image", hint="Describe it in words, or use gepa's own reflection.")
    pad = "  " * (depth + 1)
    if isinstance(value, Mapping):
        return "".join(f"\n{pad}{key}: {_shown(part, depth + 1)}" for key, part in value.items()) or "(none)"
    if isinstance(value, list | tuple):
        return "".join(f"\n{pad}- {_shown(part, depth + 1)}" for part in value) or "(none)"
    text = str(value).strip()
    return text if "\n" not in text else "\n" + "\n".join(f"{pad}{line}".rstrip() for line in text.split("\n"))
