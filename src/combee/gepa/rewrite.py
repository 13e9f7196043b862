"""Rewriting a component as an aggregation method: records to new texts, new texts to one, both by model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from combee.gepa.asking import Asker
from combee.gepa.prompts import combine_prompt, rewrite_prompt
from combee.gepa.records import Record, share_of
from combee.kernel.journal import JSON, hash_json
from combee.kernel.playbook import distinct_terms

__all__ = ["Draft", "RewriteMethod"]

COVERED = 0.5
"""Share of a record's own terms that must stand in a text for the record to count as covered."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A new text, the keys of the records behind it, and the reply it was read from."""

    text: str
    keys: frozenset[str]
    raw: str
    _terms: list[frozenset[str]] = field(default_factory=list, repr=False, compare=False)

    @property
    def terms(self) -> frozenset[str]:
        """The distinct terms of the text."""
        if not self._terms:
            self._terms.append(distinct_terms(self.text))
        return self._terms[0]


class RewriteMethod:
    """Records to a new text (`combee.kernel.aggregate.Method`)."""

    combine_calls_model = True

    def __init__(self, current: str, asker: Asker, *, template: str | None, combine_template: str | None) -> None:
        self.current = current
        self.prompts: dict[str, str] = {}
        self._asker = asker
        self._templates = (template, combine_template)

    @property
    def fingerprint(self) -> str:
        """Return the hash of what besides the records decides a result."""
        prompts = [rewrite_prompt("", (), self._templates[0]), combine_prompt("", (), self._templates[1])]
        return hash_json(["gepa", self._asker.settings, prompts, self.current])

    def key(self, item: Record) -> str:
        """Return the key of the record, which names its content."""
        return item.key

    def weight(self, item: Record) -> int:
        """Return its tokens."""
        return item.weight

    async def leaf(self, items: Sequence[Record], node: str) -> Draft:
        """Ask for a text that these records would have made right.

        Raises:
            CallError: The call failed, or two replies in a row could not be used.
        """
        prompt = rewrite_prompt(self.current, items, self._templates[0])
        return await self._ask(prompt, "reflection/map", node, frozenset(item.key for item in items))

    async def combine(self, deltas: Sequence[Draft], node: str) -> Draft:
        """Ask for one text of several. Raises `CallError` as `leaf` does."""
        prompt = combine_prompt(self.current, [draft.text for draft in deltas], self._templates[1])
        return await self._ask(prompt, "reflection/combine", node, frozenset().union(*(draft.keys for draft in deltas)))

    async def _ask(self, prompt: str, role: str, node: str, keys: frozenset[str]) -> Draft:
        self.prompts[node] = prompt
        answer = await self._asker.text(prompt, role=role, item=node)
        return Draft(answer.text, keys, answer.raw)

    def sources(self, delta: Draft) -> frozenset[str]:
        """Return the keys of the records that went in."""
        return delta.keys

    def size(self, delta: Draft) -> int:
        """Return the lines of the text that say something."""
        return sum(bool(line.strip()) for line in delta.text.split("\n"))

    def covered(self, item: Record, delta: Draft) -> bool:
        """Return whether at least half of the record's own terms stand in the text."""
        return bool(self.coverage((item,), delta))

    def coverage(self, items: Sequence[Record], delta: Draft) -> list[str]:
        """Return the keys of the covered ones."""
        terms, keys = delta.terms, delta.keys
        return [item.key for item in items if item.key in keys and share_of(item.terms, terms) >= COVERED]

    def encode(self, delta: Draft) -> JSON:
        """Return the draft as JSON."""
        return {"text": delta.text, "keys": [*sorted(delta.keys)], "raw": delta.raw}

    def decode(self, value: JSON) -> Draft:
        """Return the draft that `encode` wrote."""
        fields = cast("dict[str, JSON]", value)
        return Draft(str(fields["text"]), frozenset(map(str, cast("list[JSON]", fields["keys"]))), str(fields["raw"]))
