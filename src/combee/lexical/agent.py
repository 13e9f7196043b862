"""The embedded agent: a generator whose bullets vote, a reflector that makes a wrong answer a lesson, and a curator.

No model, no network, the same answers everywhere: what it knows stands in the playbook and in the names of the labels.

By itself the curator loses nothing. `forget` simulates the loss of the paper's model, `output_limit` is the same
curator under a real limit of tokens a reply; whoever shows numbers with `forget` on says "simulated forgetting". Each
lesson that enters a call of m items is then kept with probability exp(-m/m0); a hash of the seed, the place in the tree
and the lesson decides: order and repetition change nothing. m0 = 40 fits the paper's entry counts.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from combee.errors import UsageError
from combee.kernel.journal import Scope, hash_json
from combee.kernel.learn.codec import ReflectionsMethod
from combee.kernel.learn.roles import Reflection, Rollout, Score, Summary, Task
from combee.kernel.playbook import (
    Add,
    Delta,
    Operation,
    Playbook,
    Vote,
    VoteKind,
    count_tokens,
    delta_of,
    distinct_terms,
    merge,
)
from combee.lexical.features import features
from combee.lexical.index import Lexicon, Prediction
from combee.lexical.lesson import PHRASE_WORDS, SECTION, Asked, lesson_from, read_lesson, read_question

UNKNOWN = "unknown"
"""The answer to a question that offers no labels, while the book holds none either."""

THIN_MARGIN = 0.25
"""A right answer with a smaller lead is a lesson too: 0.67, not 0.63, on held-out quarters of FiNER's train file."""


def _labels(predictions: Iterable[Prediction]) -> list[str]:
    return [prediction.label or UNKNOWN for prediction in predictions]


def _predictions(lexicon: Lexicon, asked: Asked, playbook: Playbook) -> list[Prediction]:
    index = lexicon.index(playbook)
    return [index.predict(spot, asked.options) for spot in asked.spots]


class LexicalGenerator:
    """Answers with the label that the nearest bullets vote for; several questions in order, comma between."""

    def __init__(self, lexicon: Lexicon | None = None) -> None:
        self._lexicon = Lexicon() if lexicon is None else lexicon

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Label every spot of the task; the bullets that spoke most for the answers are reported as used."""
        predictions = _predictions(self._lexicon, read_question(task.question), playbook)
        used = dict.fromkeys(name for prediction in predictions for name in prediction.used)
        leads = ", ".join(f"{prediction.margin:.0%}" for prediction in predictions)
        return Rollout(task.id, ",".join(_labels(predictions)), tuple(used), f"lead over the next label: {leads}")


class LexicalReflector:
    """Writes one lesson for each wrong answer, and for each right one whose lead was thin; votes on the bullets used.

    A used bullet is helpful where its own label was the answer and right, harmful where it was the answer and wrong.
    """

    def __init__(
        self, lexicon: Lexicon | None = None, *, thin_margin: float = THIN_MARGIN, phrase_words: int = PHRASE_WORDS
    ) -> None:
        self._lexicon = Lexicon() if lexicon is None else lexicon
        self._thin = thin_margin
        self._words = phrase_words

    async def reflect(
        self, task: Task, rollout: Rollout, score: Score | None, playbook: Playbook, scope: Scope
    ) -> Reflection | None:
        """Compare the answers with the target; without a target there is nothing to learn."""
        if task.target is None:
            return None
        asked = read_question(task.question)
        targets = _parts(task.target, len(asked.spots))
        answers = _parts(rollout.answer, len(asked.spots))
        whole = score is not None and score.passed
        right = [whole or _same(answer, target) for answer, target in zip(answers, targets, strict=True)]
        lessons: list[str] = []
        lines = [f"{sum(right)} of {len(right)} right."]
        for number, prediction in enumerate(_predictions(self._lexicon, asked, playbook)):
            if not targets[number] or (right[number] and prediction.margin >= self._thin):
                continue
            lesson = lesson_from(asked.spots[number], targets[number], self._words).text
            lessons.append(lesson)
            seen = "Right, but by a thin lead." if right[number] else f"Answered {answers[number] or 'nothing'}: wrong."
            lines.append(f"{seen} {lesson}")
        outcomes: dict[str, set[bool]] = {}
        for answer, good in zip(answers, right, strict=True):
            outcomes.setdefault(answer, set()).add(good)
        votes = _votes(rollout.used, playbook, outcomes, {whole})
        lessons = list(dict.fromkeys(lessons))
        text = "\n".join(lines)
        identity = f"{task.id}~{_short_hash(text, *(f'{kind}{bullet}' for bullet, kind in votes))}"
        return Reflection(
            id=identity,
            trace=task.id,
            task=task.id,
            text=text,
            lessons=tuple(lessons),
            votes=tuple(Vote(identity, bullet, kind) for bullet, kind in votes),
            passed=all(right),
            labels=task.labels,
        )


def _parts(text: str, count: int) -> list[str]:
    """Return one stripped answer a question; what is missing is empty, what is too much is left out."""
    parts = [part.strip() for part in text.split(",")] if count > 1 else [text.strip()]
    return (parts + [""] * count)[:count]


def _same(answer: str, target: str) -> bool:
    return answer.casefold() == target.casefold()


def _votes(
    used: Iterable[str], playbook: Playbook, outcomes: Mapping[str, set[bool]], whole: set[bool]
) -> list[tuple[str, VoteKind]]:
    """Return the votes; a bullet whose label was answered right here and wrong there gets one of each."""
    votes: list[tuple[str, VoteKind]] = []
    for name in dict.fromkeys(used):
        bullet = playbook.get(name)
        if bullet is None:
            continue
        lesson = read_lesson(bullet.text)
        results = outcomes.get(lesson.label, whole) if lesson else whole
        votes.extend((name, VoteKind.HELPFUL if good else VoteKind.HARMFUL) for good in sorted(results, reverse=True))
    return votes


def _short_hash(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode("utf-8", "replace"), digest_size=4).hexdigest()


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
