"""The curator that needs no model: lessons become operations as they are; equal lessons become one.

By itself it loses nothing. `forget` simulates the loss of the paper's model, `output_limit` is the same curator under a
real limit of tokens a reply; whoever shows numbers with `forget` on says "simulated forgetting".

What one call loses: simulated forgetting (the paper's loss, as chance), or what an output limit leaves no room for.
Forgetting: each lesson that enters a call of m items is kept with probability exp(-m/m0); a hash of the seed, the place
in the tree and the lesson decides: order and repetition change nothing. m0 = 40 fits the paper's entry counts.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from combee.errors import UsageError
from combee.kernel.journal import Scope, hash_json
from combee.kernel.learn.codec import ReflectionsMethod
from combee.kernel.learn.roles import Reflection, Summary
from combee.kernel.playbook import Add, Delta, Operation, Playbook, count_tokens, delta_of, distinct_terms, merge
from combee.lexical.features import features
from combee.lexical.lesson import SECTION, read_lesson


@dataclass(frozen=True, slots=True)
class LexicalCurator:
    """Makes the aggregation method of each step.

    Attributes:
        forget: m0 of the simulated forgetting: a call over m reflections keeps each lesson that enters it with
            probability exp(-m/m0). In the top call of the preset "paper" m counts updates: an assumption. None: off.
        output_limit: Tokens that one call may write. None: no limit.
        seed: Decides what is forgotten.

    Raises:
        UsageError: `forget` or `output_limit` is not above 0, or `forget` is infinite.
    """

    forget: float | None = None
    output_limit: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.forget is not None and not 0 < self.forget < math.inf:
            raise UsageError(f"forget is {self.forget}", hint="Give a number above 0, such as 40, or leave it out.")
        if self.output_limit is not None and self.output_limit < 1:
            raise UsageError(f"output_limit is {self.output_limit}", hint="Give 1 token or more, or leave it out.")

    def method(self, playbook: Playbook, scope: Scope) -> LexicalMethod:
        """Return the method; the place of the scope takes part in what is forgotten."""
        return LexicalMethod(self, scope.address)


@dataclass(frozen=True, slots=True)
class LexicalMethod(ReflectionsMethod):
    """Reflections to one delta by code (`combee.kernel.aggregate.Method`, with the hooks for baselines)."""

    curator: LexicalCurator
    place: str = ""
    combine_calls_model: bool = False
    """True: `combine` counts as a call of a model, with its losses. (The preset "paper" uses `combine_by_model`.)"""

    @property
    def fingerprint(self) -> str:
        """Return the hash of what besides the reflections decides a result."""
        curator = self.curator
        return hash_json(["lexical", 1, curator.forget, curator.output_limit, curator.seed, self.place])

    def digest(self, item: Reflection) -> str:
        """Return the hash of what the reflection says."""
        return hash_json([item.lessons, item.origins if isinstance(item, Summary) else None])

    def similarity(self, one: Reflection, other: Reflection) -> float:
        """Return how alike the lessons of two reflections are: the share of common words and labels, 0 to 1."""
        left, right = _topics(one.lessons), _topics(other.lessons)
        return len(left & right) / (len(left | right) or 1)

    @property
    def output_limit(self) -> int | None:
        """The tokens that one call may write."""
        return self.curator.output_limit

    def output(self, item: Reflection) -> int:
        """Return the tokens that the item's lessons take in a reply."""
        return sum(OPERATION_TOKENS + count_tokens(lesson) for lesson in item.lessons)

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        """Write the lessons of the reflections."""
        return self._written(_sources(items), len(items), node)

    async def combine(self, deltas: Sequence[Delta], node: str) -> Delta:
        """Unite the deltas: by code and without loss, unless combining is declared a call."""
        if self.combine_calls_model:
            return await self.combine_by_model(deltas, node)
        return merge(*deltas)

    async def combine_by_model(self, deltas: Sequence[Delta], node: str) -> Delta:
        """Unite the deltas in one call over `len(deltas)` updates, with the losses of a call."""
        entering = {op.text: op.sources for op in merge(*deltas) if isinstance(op, Add)}
        return self._written(entering, len(deltas), f"{node}/combine")

    async def summarize(self, items: Sequence[Reflection], node: str) -> Reflection:
        """Return one reflection with one lesson a label: the one whose words the label's others share most."""
        kept = self._written(_sources(items), len(items), f"{node}/summary")
        of_label: dict[str, list[Add]] = defaultdict(list)
        for operation in kept:
            if isinstance(operation, Add):
                lesson = read_lesson(operation.text)
                of_label[lesson.label if lesson else operation.text].append(operation)
        origins: dict[str, tuple[str, ...]] = {}
        for operations in of_label.values():
            chosen = _most_common(operations)
            origins[chosen.text] = tuple(sorted({source for op in operations for source in op.sources}))
        identity = "+".join(sorted(item.id for item in items))
        return Summary(
            id=f"summary~{hash_json(identity)[:12]}",
            trace=identity,
            task=identity,
            text="\n".join(origins),
            lessons=tuple(origins),
            origins=origins,
        )

    def coverage(self, items: Sequence[Reflection], delta: Delta) -> list[str]:
        """Return those whose lessons' distinctive terms all stand in operations that cite them."""
        cited: dict[str, list[str]] = defaultdict(list)
        for operation in delta:
            for source in operation.sources:
                cited[source].append(getattr(operation, "text", ""))
        return [item.id for item in items if all(_stands_in(lesson, cited[item.id]) for lesson in item.lessons)]

    def with_output_limit(self, tokens: int) -> LexicalMethod:
        """Return the same method with another limit on what one call writes."""
        return replace(self, curator=replace(self.curator, output_limit=tokens))

    def _written(self, entering: Mapping[str, tuple[str, ...]], m: int, node: str) -> Delta:
        """Return what a call over `m` inputs writes of the lessons (with their sources) that enter it."""
        curator = self.curator
        if curator.forget is not None:
            seed = f"{curator.seed}/{self.place}/{node}"
            entering = {
                lesson: sources for lesson, sources in entering.items() if remembered(seed, lesson, m, curator.forget)
            }
        delta = delta_of(Add(SECTION, lesson, sources) for lesson, sources in entering.items())
        if curator.output_limit is None:
            return delta
        return delta_of(fitting(delta.operations, curator.output_limit))


def _sources(items: Sequence[Reflection]) -> dict[str, tuple[str, ...]]:
    """Return lesson -> the reflections it comes from."""
    reflections: dict[str, set[str]] = defaultdict(set)
    for item in items:
        origins = item.origins if isinstance(item, Summary) else None
        for lesson in item.lessons:
            reflections[lesson].update((origins or {}).get(lesson, (item.id,)))
    return {lesson: tuple(sorted(sources)) for lesson, sources in reflections.items()}


def _most_common(operations: Sequence[Add]) -> Add:
    """Return the operation whose words the others share most."""
    words = [frozenset(features(op.text)[0]) for op in operations]
    shared = [sum(len(mine & other) for other in words) / (len(mine) or 1) for mine in words]
    return min(zip(shared, operations, strict=True), key=lambda pair: (-pair[0], pair[1].text))[1]


@lru_cache(maxsize=4096)
def _topics(lessons: tuple[str, ...]) -> frozenset[str]:
    topics: set[str] = set()
    for text in lessons:
        lesson = read_lesson(text)
        if lesson is not None:
            topics.update(name for name in lesson.features() if name[0] == "w")
            topics.add(f"label {lesson.label}")
    return frozenset(topics)


def _stands_in(lesson: str, texts: Sequence[str]) -> bool:
    if lesson in texts:
        return True
    needed = distinct_terms(lesson)
    return any(needed <= distinct_terms(text) for text in texts)


OPERATION_TOKENS = 16
"""What one operation costs in a reply besides its text: type, section, sources, punctuation."""


def remembered(seed: str, lesson: str, m: int, m0: float) -> bool:
    """Return whether a call over `m` items keeps this lesson; `seed` names the run, the step and the node."""
    data = f"{seed}\0{lesson}".encode("utf-8", "replace")
    draw = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") / 2**64
    return draw < math.exp(-m / m0)


def fitting(operations: Sequence[Operation], limit: int) -> list[Operation]:
    """Return the operations that a reply of `limit` tokens holds, in their order.

    Where not all fit, a curator writes the common and drops the precise: operations are taken by how many of the call's
    lessons share their words (the mean over the words; highest first, then by text), until the next would not fit.
    """
    texts = [getattr(operation, "text", "") for operation in operations]
    cost = [OPERATION_TOKENS + count_tokens(text) for text in texts]
    if sum(cost) <= limit:
        return list(operations)
    words = [_words(text) for text in texts]
    spread = Counter(word for own in words for word in own)
    common = [sum(spread[word] for word in own) / (len(own) or 1) for own in words]
    taken: set[int] = set()
    room = limit
    for place in sorted(range(len(texts)), key=lambda place: (-common[place], texts[place])):
        if cost[place] > room:
            break
        room -= cost[place]
        taken.add(place)
    return [operation for place, operation in enumerate(operations) if place in taken]


def _words(text: str) -> frozenset[str]:
    lesson = read_lesson(text)
    seen = lesson.features() if lesson else features(text)[0]
    return frozenset(name for name in seen if name[0] == "w")
