"""What a score has to beat: always the commonest label, and the label of the training question that is most alike.

Also which lessons cannot both be right: nearly the same words, another label. The fault is as often in the data as in
the lessons, so the samples behind both are named.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from combee.kernel.learn import Scorer, Task
from combee.kernel.playbook import Bullet, Playbook
from combee.kernel.playbook.text import word_list
from combee.lexical.lesson import read_lesson

_MOST = 5_000  # training questions that are searched
_ALIKE = 0.9  # share of common words from which two lessons are about the same thing
_NEGATIONS = frozenset({"no", "not", "never", "without", "none", "nor", "cannot", "不", "没", "未", "无"})
_FEW = 3  # a phrase of fewer words says too little to be compared


BASELINES = {"majority": "always the commonest answer", "nearest": "the most similar training row"}
"""In words, what each answers."""
BASELINES_KEY = "baselines"
"""Where the journal of a run keeps them."""


def baselines(train: Sequence[Task], tasks: Sequence[Task], scorer: Scorer) -> dict[str, float]:
    """Return the share of right answers of `majority` and `nearest`; empty where answers are not labels.

    Args:
        train: Tasks whose answers may be used.
        tasks: Tasks to score.
        scorer: Compares an answer with the target.
    """
    known = [(task, task.target) for task in train if task.target is not None][:_MOST]
    asked = [task for task in tasks if task.target is not None]
    counts = Counter(target for _, target in known)
    if not asked or not known or len(known) < 2 * len(counts):
        return {}
    common = min(counts, key=lambda label: (-counts[label], label))
    nearest = _Nearest([task.question for task, _ in known])
    answers = {
        "majority": [common] * len(asked),
        "nearest": [known[nearest.find(task.question)][1] for task in asked],
    }
    return {name: _share(asked, given, scorer) for name, given in answers.items()}


def _share(tasks: Sequence[Task], answers: Sequence[str], scorer: Scorer) -> float:
    scores = [scorer(task, answer) for task, answer in zip(tasks, answers, strict=True)]
    return sum(score.hits for score in scores) / max(1, sum(score.total for score in scores))


class _Nearest:
    """Finds the text that shares most words, rare ones counting more (TF-IDF, cosine)."""

    def __init__(self, texts: Sequence[str]) -> None:
        words = [frozenset(word_list(text)) for text in texts]
        texts_with = Counter(word for one in words for word in one)
        self._rare = {word: math.log(1 + len(texts) / count) for word, count in texts_with.items()}
        lengths = [math.sqrt(sum(self._rare[word] ** 2 for word in one)) or 1.0 for one in words]
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, one in enumerate(words):
            for word in one:
                self._postings[word].append((place, self._rare[word] ** 2 / lengths[place]))

    def find(self, text: str) -> int:
        """Return the index of the nearest text; of equals, the first."""
        scores: dict[int, float] = defaultdict(float)
        for word in sorted(set(word_list(text))):
            for place, weight in self._postings.get(word, ()):
                scores[place] += weight
        return min(scores, key=lambda place: (-round(scores[place], 9), place), default=0)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two bullets that give nearly the same text different labels, and the samples that each came from."""

    bullets: tuple[str, str]
    labels: tuple[str, str]
    sources: tuple[tuple[str, ...], tuple[str, ...]]

    def __str__(self) -> str:
        """Return both as text, with the samples they come from."""
        both = zip(self.bullets, self.labels, self.sources, strict=True)
        return " against ".join(f"[{bullet}] {label} ({_samples(sources)})" for bullet, label, sources in both)


def _samples(sources: Sequence[str]) -> str:
    return ", ".join(source.rpartition("~")[0] or source for source in sources[:3]) or "no source"


def contradictions(book: Playbook) -> tuple[Contradiction, ...]:
    """Return the pairs of bullets with nearly the same words and another label, in the order of the book.

    Where a number or a negation tells them apart (`3 days` and `40 days`, `no photo`) they may both be right.
    """
    return tuple(_pairs(book))


def _pairs(book: Playbook) -> Iterator[Contradiction]:
    read: list[tuple[Bullet, str, frozenset[str]]] = []
    places: dict[str, list[int]] = defaultdict(list)
    for bullet in book:
        lesson = read_lesson(bullet.text)
        words = frozenset(word_list(lesson.phrase)) if lesson is not None else frozenset()
        if lesson is None or len(words) < _FEW:
            continue
        for place in _candidates(words, places):
            other, label, others = read[place]
            alike = len(words & others) / len(words | others)
            if label.casefold() != lesson.label.casefold() and alike >= _ALIKE and not _tell_apart(words ^ others):
                yield Contradiction((other.id, bullet.id), (label, lesson.label), (other.sources, bullet.sources))
        for word in words:
            places[word].append(len(read))
        read.append((bullet, lesson.label, words))


def _candidates(words: frozenset[str], places: Mapping[str, Iterable[int]]) -> list[int]:
    """Return the earlier lessons that may be alike: they share one of the rarest words, so few have to be compared."""
    rarest = sorted(words, key=lambda word: (len(list(places.get(word, ()))), word))
    enough = len(words) - math.ceil(_ALIKE * len(words)) + 1  # two sets that are alike share one of these
    return sorted({place for word in rarest[:enough] for place in places.get(word, ())})


def _tell_apart(different: Iterable[str]) -> bool:
    return any(word in _NEGATIONS or any(character.isdigit() for character in word) for word in different)
