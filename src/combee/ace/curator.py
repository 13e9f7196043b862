"""ACE's Curator on any model, as an aggregation method: reflections become operations, operations become one delta.

Leaves are model calls, deltas are united by code; the preset "paper" ends in one more model call over all updates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from combee.ace.prompts import CURATOR, SUMMARY, Prompts, Shown, fence, show_reflections
from combee.ace.replies import CITED_SHARE, Input, Known, cited_numbers, read_operations
from combee.kernel.journal import JSON, Scope, hash_json
from combee.kernel.learn.codec import ReflectionsMethod, delta_to_json
from combee.kernel.learn.roles import Reflection, Summary
from combee.kernel.playbook import (
    SECTIONS,
    Delta,
    Playbook,
    Remove,
    VoteKind,
    count_tokens,
    digest,
    says,
    tokens,
)
from combee.model import ChatModel
from combee.model.answer_text import why_unusable
from combee.model.asking import as_text, ask, model_print
from combee.model.settings import CallOptions

_NO_BUDGET = "Keep entries short."
_WINDOW = 0.9  # share of a model's window that a call may fill
_REASONING = 256  # tokens that the short "reasoning" of a reply may take
_OPERATION = 24  # tokens of an operation besides its text: names of the fields, type, section, sources


class AceCurator:
    """Makes the aggregation method of each step.

    Args:
        model: Any model.
        prompts: The prompts; ours by default.
        options: Length, temperature and seed of the replies.
        token_budget: Tokens the playbook may have, so that the model is told how much room there is.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prompts: Prompts | None = None,
        options: CallOptions | None = None,
        token_budget: int | None = None,
    ) -> None:
        self.model = model
        self.prompts = prompts or Prompts.load()
        self.options = options or CallOptions()
        self.token_budget = token_budget
        self.shown = Shown()
        self._known: Known | None = None

    def method(self, playbook: Playbook, scope: Scope) -> AceMethod:
        """Return the method against this version of the playbook."""
        return AceMethod(self, playbook, scope, self.options)

    def known(self, playbook: Playbook) -> Known:
        """Return the index of what a book says; the last one is kept."""
        if self._known is None or self._known.book is not playbook:
            self._known = Known(playbook)
        return self._known

    def room(self, playbook: Playbook) -> str:
        """Return what the model is told about the size of the book."""
        if self.token_budget is None:
            return _NO_BUDGET
        return f"{_NO_BUDGET} The playbook has {tokens(playbook)} of the {self.token_budget} tokens it may have."


@dataclass(frozen=True, slots=True)
class AceMethod(ReflectionsMethod):
    """Reflections to one delta (an aggregation `Method` with the hooks for coverage, preset and baselines)."""

    curator: AceCurator
    book: Playbook
    scope: Scope
    options: CallOptions
    combine_calls_model: bool = False

    @property
    def fingerprint(self) -> str:
        """Return the hash of what besides the reflections decides a result."""
        options = self.options
        print_ = model_print(self.curator.model)
        return hash_json(
            [
                "ace",
                1,
                self.curator.prompts.digest,
                print_,
                digest(self.book),
                options.max_tokens,
                options.temperature,
                options.seed,
            ]
        )

    def digest(self, item: Reflection) -> str:
        """Return the hash of what the reflection says."""
        return hash_json([item.text, list(item.lessons)])

    def weight(self, item: Reflection) -> int:
        """Return the tokens that the reflection adds to a prompt."""
        return count_tokens(item.text) + 16

    def text(self, item: Reflection) -> str:
        """Return what the default similarity compares."""
        return "\n".join(item.lessons) or item.text

    @property
    def output_limit(self) -> int:
        """The tokens that a reply has for operations: what the model may write, less what it says about them."""
        return max(self.options.max_tokens - _REASONING, self.options.max_tokens // 2)

    def output(self, item: Reflection) -> int:
        """Return the tokens that the item takes in a reply in which each of its lessons is an operation."""
        return sum(_OPERATION + count_tokens(lesson) for lesson in item.lessons)

    @property
    def input_room(self) -> int | None:
        """The tokens of reflections for which the model's window has room, or None where it is not known."""
        window = self.options.context_tokens
        return None if window is None else max(1, int(_WINDOW * window) - self._fixed - self.options.max_tokens)

    def window_share(self, items: Sequence[Reflection]) -> float | None:
        """Return the share of the model's window that a call over these reflections uses, or None."""
        if self.options.context_tokens is None:
            return None
        reply = min(self.options.max_tokens, _REASONING + sum(map(self.output, items)))
        return (self._fixed + sum(map(self.weight, items)) + reply) / self.options.context_tokens

    @property
    def _fixed(self) -> int:
        """The tokens of a prompt without reflections."""
        return self.curator.prompts.tokens["curator"] + self.curator.known(self.book).tokens

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        """Ask the model what these reflections change in the playbook.

        Raises:
            CallError: The call failed; LENGTH and CONTEXT_TOO_LONG too, so that the scan splits the group.
        """
        inputs = [Input(_origins(item), item.lessons) for item in items]
        return await self._operations("curator", {"reflections": show_reflections(items)}, inputs, node)

    async def combine_by_model(self, deltas: Sequence[Delta], node: str) -> Delta:
        """Ask the model for one list of operations out of several updates (the top call of the preset "paper")."""
        inputs: list[Input] = []
        parts: list[str] = []
        for number, delta in enumerate(deltas, start=1):
            lines = []
            for operation in delta:
                text = getattr(operation, "text", "")
                inputs.append(Input(operation.sources, (text,) if text else ()))
                lines.append(f"{len(inputs)}. {_line(delta_to_json(Delta((operation,))))}")
            parts.append(fence("update", "\n".join(lines) or "(no operations)", number))
        return await self._operations("combine", {"updates": "\n\n".join(parts)}, inputs, node)

    async def summarize(self, items: Sequence[Reflection], node: str) -> Reflection:
        """Return one reflection with the lessons of several, as the model sums them up."""
        reply = await self._ask("summarize", {"reflections": show_reflections(items)}, node, SUMMARY, ("lessons",))
        origins: dict[str, tuple[str, ...]] = {}
        everybody = tuple(sorted({source for item in items for source in _origins(item)}))
        for part in reply["lessons"] if isinstance(reply["lessons"], list) else []:
            fields = part if isinstance(part, Mapping) else {"text": part}
            text = " ".join(as_text(fields.get("text")).split())
            if text and why_unusable(text) is None:
                numbers = [n for n in cited_numbers(fields.get("sources")) if 1 <= n <= len(items)]
                named = {source for n in numbers for source in _origins(items[n - 1])}
                origins[text] = tuple(sorted(named)) or everybody
        joined = "+".join(sorted(item.id for item in items))
        text = "\n".join(f"Lesson: {lesson}" for lesson in origins) or "No lessons."
        name = f"summary~{hash_json([joined, text])[:12]}"
        return Summary(id=name, trace=joined, task=joined, text=text, lessons=tuple(origins), origins=origins)

    def coverage(self, items: Sequence[Reflection], delta: Delta) -> list[str]:
        """Return those whose every lesson stands in an operation that cites them, or in the playbook already.

        Taking out an entry that the reflection found harmful covers it too. A reflection without lessons has nothing
        that could be missing.
        """
        cited: dict[str, list[str]] = defaultdict(list)
        removed: dict[str, set[str]] = defaultdict(set)
        for operation in delta:
            for source in operation.sources:
                if isinstance(operation, Remove):
                    removed[source].add(operation.id)
                else:
                    cited[source].append(operation.text)
        known = self.curator.known(self.book)
        covered = []
        for item in items:
            names = _origins(item)
            if removed and item.votes:
                harmful = {vote.bullet for vote in item.votes if vote.kind is VoteKind.HARMFUL}
                if any(harmful & removed[name] for name in names if name in removed):
                    covered.append(item.id)
                    continue
            texts = [text for name in names if name in cited for text in cited[name]]
            # Most lessons are copied as they stand, or not at all: the first tests are quick.
            if not item.lessons or (
                (texts or known.holds_any)
                and all(
                    lesson in texts or any(says(text, lesson, CITED_SHARE) for text in texts) or known.says(lesson)
                    for lesson in item.lessons
                )
            ):
                covered.append(item.id)
        return covered

    def with_output_limit(self, tokens: int) -> AceMethod:
        """Return the same method with another limit on what one call writes."""
        return replace(self, options=replace(self.options, max_tokens=tokens))

    async def _operations(self, prompt: str, values: Mapping[str, str], inputs: Sequence[Input], node: str) -> Delta:
        reply = await self._ask(prompt, values, node, CURATOR, ("operations",))
        read = read_operations(reply["operations"], inputs, [bullet.id for bullet in self.book])
        problems = list(read.problems)
        if read.unattributed:
            problems.append(f"{read.unattributed} operations named no source")
        if problems:
            self.scope.decide(f"problems/{prompt}/{node}/{hash_json(values)[:12]}", problems)
        return read.delta

    async def _ask(
        self, prompt: str, values: Mapping[str, str], node: str, schema: Mapping[str, Any], required: Sequence[str]
    ) -> dict[str, Any]:
        curator = self.curator
        filled = {
            **values,
            "playbook": curator.shown(self.book),
            "sections": ", ".join(SECTIONS),
            "budget": curator.room(self.book),
        }
        reply = await ask(
            curator.model,
            curator.prompts[prompt].render(filled),
            self.scope,
            role="curator" if prompt == "curator" else f"curator/{prompt}",
            item=node,
            schema=schema,
            required=required,
            options=self.options,
        )
        # What a curator sent and nobody asked for is not used, and counted: an entry may be a lesson that is lost.
        if odd := [name for name in reply if name not in schema["properties"] and reply[name]]:
            unused = [
                f"an entry under the key {name!r}, which nobody asked for"
                for name in odd
                for _ in (reply[name] if isinstance(reply[name], list) else (1,))
            ]
            self.scope.decide(f"problems/{prompt}/{node}/{hash_json(reply)[:12]}/keys", unused)
        return reply


def _origins(item: Reflection) -> tuple[str, ...]:
    """Return the reflections an item stands for: itself, or those behind a summary."""
    if isinstance(item, Summary):
        return tuple(sorted({source for sources in (item.origins or {}).values() for source in sources}))
    return (item.id,)


def _line(operations: JSON) -> str:
    """Return one operation as a prompt shows it, without its sources."""
    one = operations[0] if isinstance(operations, list) else {}
    fields = one if isinstance(one, dict) else {}
    return " | ".join(
        f"{key}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in fields.items()
        if key != "sources"
    )
