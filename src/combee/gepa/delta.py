"""Delta mode: a component that is a playbook gets operations, and merging them is code.

So a call writes what is new and not the whole book again: tokens do not grow with the number of calls times its length.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from combee.gepa.asking import Asker
from combee.gepa.prompts import delta_prompt
from combee.gepa.records import Record, share_of
from combee.kernel.journal import hash_json
from combee.kernel.learn.codec import OperationsMethod
from combee.kernel.playbook import (
    Delta,
    Playbook,
    Remove,
    digest,
    distinct_terms,
    from_text,
    parse_operations,
    to_text,
)

__all__ = ["DeltaMethod", "is_playbook"]

SAID = 0.25
"""Share of a record's own terms that the operations citing it must hold (a lesson is shorter than its case)."""
_KNOWN = 0.8
_NUMBER = re.compile(r"[0-9]{1,9}")
_TEXT: Mapping[str, Any] = {"type": "string"}
_FIELDS: Mapping[str, Any] = {
    "type": {"type": "string", "enum": ["ADD", "UPDATE", "MERGE", "REMOVE"]},
    "section": _TEXT,
    "content": _TEXT,
    "bullet_ids": {"type": "array", "items": _TEXT},
    "sources": {"type": "array", "items": {"type": "integer"}},
}
_OPERATION: Mapping[str, Any] = {
    "type": "object",
    "properties": _FIELDS,
    "required": list(_FIELDS),
    "additionalProperties": False,
}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reasoning": _TEXT, "operations": {"type": "array", "items": _OPERATION}},
    "required": ["reasoning", "operations"],
    "additionalProperties": False,
}


def is_playbook(text: str) -> bool:
    """Return whether a text is a playbook in ACE form: bullets with ids and nothing else, or an empty book's mark."""
    read = from_text(text)
    if not len(read.playbook):
        return "<!-- combee playbook:" in text
    return not read.problems and all("\n\n" not in bullet.text for bullet in read.playbook)


class DeltaMethod(OperationsMethod):
    """Records to operations (`combee.kernel.aggregate.Method`)."""

    combine_calls_model = False

    def __init__(self, book: Playbook, asker: Asker) -> None:
        self.book = book
        self.prompts: dict[str, str] = {}
        self.problems: list[str] = []
        self._asker = asker
        self._shown = to_text(book, mark=False).rstrip("\n")
        self._known = [distinct_terms(bullet.text) for bullet in book]

    @property
    def fingerprint(self) -> str:
        """Return the hash of what besides the records decides a result."""
        return hash_json(["gepa delta", self._asker.settings, delta_prompt("", ()), digest(self.book)])

    def key(self, item: Record) -> str:
        """Return the key of the record, which names its content."""
        return item.key

    def weight(self, item: Record) -> int:
        """Return its tokens."""
        return item.weight

    async def leaf(self, items: Sequence[Record], node: str) -> Delta:
        """Ask what these records change in the playbook.

        Raises:
            CallError: The call failed, or two replies in a row held no operations.
        """
        prompt = self.prompts[node] = delta_prompt(self._shown, items)
        raw = await self._asker.json(prompt, role="reflection/delta", item=node, required="operations", schema=SCHEMA)
        named = [_with_keys(part, items) for part in raw]
        found, problems = parse_operations(
            named, sources=[item.key for item in items], known_ids=[bullet.id for bullet in self.book]
        )
        self.problems += [f"{node}: {problem.reason}" for problem in problems]
        return found

    def covered(self, item: Record, delta: Delta) -> bool:
        """Return whether operations that cite the record say something of it; see `coverage`."""
        return bool(self.coverage((item,), delta))

    def coverage(self, items: Sequence[Record], delta: Delta) -> list[str]:
        """Return the keys of the covered records.

        A record is covered when the operations that cite it hold a quarter of its own terms, when one takes a bullet
        out for it, when a bullet says it already, or when its run was right, so that it had nothing to teach.
        """
        said: dict[str, set[str]] = defaultdict(set)
        removed: set[str] = set()
        for operation in delta:
            terms = frozenset[str]() if isinstance(operation, Remove) else distinct_terms(operation.text)
            for source in operation.sources:
                said[source] |= terms
                if isinstance(operation, Remove):
                    removed.add(source)
        return [item.key for item in items if item.right or item.key in removed or self._says(item, said)]

    def _says(self, item: Record, said: Mapping[str, set[str]]) -> bool:
        least = max(1, math.ceil(SAID * len(item.terms) - 1e-9)) if item.terms else 0
        if item.key in said and len(item.terms & said[item.key]) >= least:
            return True
        return any(share_of(item.terms, terms) >= _KNOWN for terms in self._known)


def _with_keys(raw: object, items: Sequence[Record]) -> object:
    """Return an operation with record keys for the numbers in its `sources`; without one that exists, all stand."""
    if not isinstance(raw, Mapping):
        return raw
    given = raw.get("sources", raw.get("source", raw.get("records")))
    numbers = [int(number) for number in _NUMBER.findall(str(given))] if given is not None else []
    keys = [items[number - 1].key for number in numbers if 1 <= number <= len(items)]
    rest = {key: value for key, value in raw.items() if key not in ("sources", "source", "records")}
    return {**rest, "sources": keys} if keys else rest
