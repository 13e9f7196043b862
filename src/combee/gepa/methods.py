"""The two aggregation methods of gepa components: operations on a playbook, and rewriting any other text.

`DeltaMethod`: calls write operations and code merges them, so a call writes what is new and not the whole book again.
`RewriteMethod`: calls make new texts of records, and one text of several.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from combee.errors import CallError, CallErrorKind
from combee.gepa.asking import Asker, add_prompt, combine_prompt, delta_prompt, rewrite_prompt
from combee.gepa.records import Record, share_of
from combee.kernel.journal import JSON, hash_json
from combee.kernel.learn.codec import OperationsMethod
from combee.kernel.playbook import (
    Delta,
    Playbook,
    Remove,
    count_tokens,
    digest,
    distinct_terms,
    from_text,
    to_text,
)
from combee.model.operations import parse_operations

__all__ = ["DeltaMethod", "RewriteDraft", "RewriteMethod", "is_playbook"]

_CITED = 0.25
"""Share of a record's own terms that the operations citing it must hold (a lesson is shorter than its case)."""
_KNOWN = 0.8
"""Share of a record's own terms that a bullet must hold for the playbook to say it already."""
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
        cited: dict[str, set[str]] = defaultdict(set)
        removed: set[str] = set()
        for operation in delta:
            terms = frozenset[str]() if isinstance(operation, Remove) else distinct_terms(operation.text)
            for source in operation.sources:
                cited[source] |= terms
                if isinstance(operation, Remove):
                    removed.add(source)
        return [item.key for item in items if item.right or item.key in removed or self._says(item, cited)]

    def _says(self, item: Record, cited: Mapping[str, set[str]]) -> bool:
        least = max(1, math.ceil(_CITED * len(item.terms) - 1e-9)) if item.terms else 0
        if item.key in cited and len(item.terms & cited[item.key]) >= least:
            return True
        return any(share_of(item.terms, terms) >= _KNOWN for terms in self._known)


def _with_keys(raw: object, items: Sequence[Record]) -> object:
    """Return an operation with record keys for the numbers in its `sources`; unchanged without a valid one."""
    if not isinstance(raw, Mapping):
        return raw
    given = raw.get("sources", raw.get("source", raw.get("records")))
    numbers = [int(number) for number in _NUMBER.findall(str(given))] if given is not None else []
    keys = [items[number - 1].key for number in numbers if 1 <= number <= len(items)]
    rest = {key: value for key, value in raw.items() if key not in ("sources", "source", "records")}
    return {**rest, "sources": keys} if keys else rest


TOO_MUCH = frozenset({CallErrorKind.LENGTH, CallErrorKind.SCHEMA, CallErrorKind.EMPTY, CallErrorKind.CONTEXT_TOO_LONG})
"""Errors of a call that had too much to read or to write."""
_LONG = {CallErrorKind.CONTEXT_TOO_LONG}
_SHORT = 500  # tokens: any reply can hold a text of this size
_NOTHING = frozenset({"", "(nothing)", "nothing"})
_MARKED = re.compile(r"[0-9_/]")
"""Marks numbers and names in code: a line that has one of its own says something that no other line does."""

COVERED = 0.5
"""Share of a record's own terms that must stand in a text for the record to count as covered."""


@dataclass(frozen=True, slots=True)
class RewriteDraft:
    """A new text, the keys of the records behind it, and the reply it was read from."""

    text: str
    keys: frozenset[str]
    raw: str
    beside: int = 0
    """Lines that were added below what calls wrote, without a call."""
    left_out: int = 0
    """Lines for which the text had no room."""
    _terms: list[frozenset[str]] = field(default_factory=list, repr=False, compare=False)

    @property
    def terms(self) -> frozenset[str]:
        """The distinct terms of the text."""
        if not self._terms:
            self._terms.append(distinct_terms(self.text))
        return self._terms[0]


class RewriteMethod:
    """Records to a new text (`combee.kernel.aggregate.Method`).

    What a combining call leaves out of the texts that it is given is kept below what it wrote, up to `room` tokens of
    the whole: each line was paid for. None (the paper's method): the call's text stands as it is.

    A text that no reply can hold is not written again: calls say what is to be added, and code puts it together.
    """

    def __init__(
        self,
        current: str,
        asker: Asker,
        *,
        template: str | None,
        combine_template: str | None,
        room: int | None,
    ) -> None:
        self.current = current
        self._room = room
        self._adds = room is not None and 2 * count_tokens(current) > asker.max_tokens
        self.combine_calls_model = not self._adds
        self.prompts: dict[str, str] = {}
        self._asker = asker
        self._templates = (template, combine_template)

    @property
    def fingerprint(self) -> str:
        """Return the hash of what besides the records decides a result."""
        ask = add_prompt if self._adds else rewrite_prompt
        prompts = [ask("", (), self._templates[0]), combine_prompt("", (), self._templates[1])]
        return hash_json(["gepa", self._asker.settings, prompts, self.current])

    def key(self, item: Record) -> str:
        """Return the key of the record, which names its content."""
        return item.key

    def weight(self, item: Record) -> int:
        """Return its tokens."""
        return item.weight

    async def leaf(self, items: Sequence[Record], node: str) -> RewriteDraft:
        """Ask for a text that these records would have made right.

        Raises:
            CallError: The call failed, or two replies in a row could not be used.
        """
        keys, mine = frozenset(item.key for item in items), self._templates[0]
        if not self._adds:
            prompt = rewrite_prompt(self.current, items, mine)
            try:
                return await self._ask(prompt, "reflection/map", node, keys)
            except CallError as error:
                if self._room is None or error.kind not in TOO_MUCH - _LONG or count_tokens(self.current) <= _SHORT:
                    raise  # the text would have fitted into the reply: something else is wrong
        draft = await self._ask(add_prompt(self.current, items, mine), "reflection/add", node, keys)
        lines = (line for line in draft.text.split("\n") if line.strip().casefold() not in _NOTHING)
        added = replace(draft, text="\n".join(lines), _terms=[])
        return self._with_lost(replace(draft, text=self.current, _terms=[]), [added], self._room)

    async def combine(self, deltas: Sequence[RewriteDraft], node: str) -> RewriteDraft:
        """Ask for one text of several; where no reply can hold them, they are put together by code.

        Raises:
            CallError: The call failed for a reason other than the length of these texts.
        """
        keys = frozenset[str]().union(*(draft.keys for draft in deltas))
        longest = max(deltas, key=lambda one: len(one.text))
        together = RewriteDraft(longest.text, keys, longest.raw, longest.beside)
        if self._adds:
            return self._with_lost(together, deltas, self._room)
        prompt = combine_prompt(self.current, [draft.text for draft in deltas], self._templates[1])
        try:
            draft = await self._ask(prompt, "reflection/combine", node, keys)
        except CallError as error:
            if self._room is None or error.kind not in TOO_MUCH:
                raise
            draft = together
        return self._with_lost(draft, deltas, self._room)

    def _with_lost(self, draft: RewriteDraft, deltas: Sequence[RewriteDraft], room: int | None) -> RewriteDraft:
        """Return a draft with the new lines of others whose terms it lacks."""
        if room is None:
            return draft
        present, known = set(draft.terms), {*self.current.split("\n"), *draft.text.split("\n")}
        lines: list[str] = []
        size, left_out = count_tokens(draft.text), sum(one.left_out for one in deltas)
        for line in dict.fromkeys(line for one in deltas for line in one.text.split("\n") if line not in known):
            terms = distinct_terms(line)
            missing = terms - present
            if not missing or (share_of(terms, present) >= COVERED and not any(map(_MARKED.search, missing))):
                continue
            present |= terms
            size += count_tokens(line) + 1
            if size <= room:
                lines.append(line)
            else:
                left_out += 1
        text = "\n".join([draft.text, *lines])
        return RewriteDraft(text, draft.keys, draft.raw, draft.beside + len(lines), left_out)

    async def _ask(self, prompt: str, role: str, node: str, keys: frozenset[str]) -> RewriteDraft:
        self.prompts[node] = prompt
        answer = await self._asker.text(prompt, role=role, item=node)
        return RewriteDraft(answer.text, keys, answer.raw)

    def sources(self, delta: RewriteDraft) -> frozenset[str]:
        """Return the keys of the records that went in."""
        return delta.keys

    def size(self, delta: RewriteDraft) -> int:
        """Return the lines of the text that say something."""
        return sum(bool(line.strip()) for line in delta.text.split("\n"))

    def covered(self, item: Record, delta: RewriteDraft) -> bool:
        """Return whether at least half of the record's own terms stand in the text."""
        return bool(self.coverage((item,), delta))

    def coverage(self, items: Sequence[Record], delta: RewriteDraft) -> list[str]:
        """Return the keys of the covered records."""
        terms, keys = delta.terms, delta.keys
        return [item.key for item in items if item.key in keys and share_of(item.terms, terms) >= COVERED]

    def encode(self, delta: RewriteDraft) -> JSON:
        """Return the draft as JSON."""
        beside: dict[str, JSON] = {"beside": delta.beside, "left_out": delta.left_out}
        return {"text": delta.text, "keys": [*sorted(delta.keys)], "raw": delta.raw, **beside}

    def decode(self, value: JSON) -> RewriteDraft:
        """Return the draft that `encode` wrote."""
        fields = cast("dict[str, JSON]", value)
        return RewriteDraft(
            str(fields["text"]),
            frozenset(map(str, cast("list[JSON]", fields["keys"]))),
            str(fields["raw"]),
            cast("int", fields.get("beside", 0)),
            cast("int", fields.get("left_out", 0)),
        )
