"""The embedded agent: a generator whose bullets vote, and a reflector that turns a wrong answer into a lesson.

No model, no network, the same answers everywhere: what it knows stands in the playbook and in the names of the labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from combee.kernel.journal import Scope
from combee.kernel.learn.roles import Reflection, Rollout, Score, Task
from combee.kernel.playbook import Playbook, Vote, VoteKind
from combee.lexical.index import Lexicon, Prediction
from combee.lexical.lesson import PHRASE_WORDS, Asked, lesson_from, read_lesson, read_question

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
