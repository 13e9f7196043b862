"""The records of a reflective dataset as items of an aggregation: a key, a text, and the terms that must survive.

Adapters put anything into a record; it is rendered as plain text, in the order of its keys. Models here read text: in
the place of an image stands that there is one.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from combee.kernel.playbook import count_tokens, distinct_terms

__all__ = ["IMAGE", "Record", "prepare", "read_records", "share_of", "shown", "shown_records"]

IMAGE = "[an image that is not shown"
"""How the place of an image begins."""

_TICKS = re.compile(r"`+")
_COMMON = 0.5
_PORTION = 32
_HEAD_START = 0.05  # seconds


class _Feedback:
    """The feedback of the records of one reflection: which terms are a record's own, found when they are first wanted.

    Terms in more than half of the records are the task's words. Finding them takes longer than all else here, so it is
    done while the first calls are under way (`prepare`).
    """

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._own: list[frozenset[str]] | None = None

    def own(self, place: int) -> frozenset[str]:
        """Return the terms of one record."""
        if self._own is None:
            self._finish([self._terms(text) for text in self._texts])
        return (self._own or [])[place]

    async def prepare(self) -> None:
        """Find the terms in small portions, once the first calls are off, so that nobody on the loop waits for long."""
        await asyncio.sleep(_HEAD_START)
        found = []
        for count, text in enumerate(self._texts, start=1):
            found.append(self._terms(text))
            if count % _PORTION == 0:
                await asyncio.sleep(0)
        if self._own is None:
            self._finish(found)

    @staticmethod
    def _terms(text: str) -> frozenset[str]:
        return distinct_terms(text) - {"not"}

    def _finish(self, found: list[frozenset[str]]) -> None:
        seen = Counter(term for terms in found for term in terms)
        most = _COMMON * len(found) if len(found) > 3 else len(found)
        common = frozenset(term for term, count in seen.items() if count > most)
        self._own = [terms - common for terms in found]


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `right` says that there was nothing to mend."""

    key: str
    text: str
    weight: int
    right: bool
    place: int = field(compare=False)
    feedback: _Feedback = field(compare=False, repr=False)

    @property
    def terms(self) -> frozenset[str]:
        """The terms of its feedback that are its own."""
        return self.feedback.own(self.place)


def read_records(raw: Iterable[object]) -> list[Record]:
    """Return the records of one component. Equal records get different keys, since each is a case of its own."""
    texts: list[str] = []
    feedback: list[str] = []
    right: list[bool] = []
    for item in raw:
        fields: Mapping[object, object] = item if type(item) is dict or isinstance(item, Mapping) else {"Record": item}
        parts = [(str(key), _shown(value)) for key, value in fields.items()]
        texts.append("\n".join(f"{key}: {value}" for key, value in parts))
        said = [value for key, value in parts if "feedback" in key.casefold()]
        feedback.append("\n".join(said) if said else texts[-1])
        right.append(_is_right(fields))
    shared = _Feedback(feedback)
    times: Counter[str] = Counter()
    records: list[Record] = []
    for place, (text, is_right) in enumerate(zip(texts, right, strict=True)):
        name = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
        times[name] += 1
        key = name if times[name] == 1 else f"{name}~{times[name]}"
        records.append(Record(key, text, count_tokens(text) + 16, is_right, place, shared))
    return records


async def prepare(records: Sequence[Record]) -> None:
    """Find the terms of the records ahead of their use."""
    if records:
        await records[0].feedback.prepare()


def share_of(terms: frozenset[str], found: Set[str]) -> float:
    """Return the share of the terms that are found; 1 where there are none."""
    return len(terms & found) / len(terms) if terms else 1.0


def shown_records(records: Sequence[Record]) -> str:
    """Return records as a prompt shows them: numbered, each in a fence that nothing in it can close."""
    return "\n\n".join(shown(f"Record {number}", record.text) for number, record in enumerate(records, start=1))


def shown(title: str, text: str) -> str:
    """Return a text under a title, in a fence longer than any run of backticks in it."""
    longest = max(map(len, _TICKS.findall(text)), default=0) if "```" in text else 0
    fence = "`" * max(3, longest + 1)
    return f"{title}:\n{fence}\n{text}\n{fence}"


def _is_right(fields: Mapping[object, object]) -> bool:
    for key, value in fields.items():
        if str(key).casefold() == "score" and isinstance(value, int | float) and not isinstance(value, bool):
            return value >= 1
    return False


def _image(value: object) -> str:
    """Name an image by what tells it from others: its place, or else its content."""
    place = getattr(value, "path", None) or getattr(value, "url", None) or ""
    if not place or place.startswith("data:"):
        data = place or str(getattr(value, "base64_data", ""))
        place = hashlib.blake2b(data.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{IMAGE}: {place}]"


def _shown(value: object, depth: int = 0) -> str:
    if type(value) is str and "\n" not in value:  # nearly always
        return value.strip()
    if type(value).__module__ == "gepa.image":
        return _image(value)
    pad = "  " * (depth + 1)
    if isinstance(value, Mapping):
        return "".join(f"\n{pad}{key}: {_shown(part, depth + 1)}" for key, part in value.items()) or "(none)"
    if isinstance(value, list | tuple):
        return "".join(f"\n{pad}- {_shown(part, depth + 1)}" for part in value) or "(none)"
    text = str(value).strip()
    return text if "\n" not in text else "\n" + "\n".join(f"{pad}{line}".rstrip() for line in text.split("\n"))
