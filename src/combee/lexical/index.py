"""The bullets of a playbook pooled by label, so that the nearest ones vote for it (Rocchio's rule, an inverted index).

Every bullet that shares something with the question votes for its label; many bullets that say the same count less than
as many that say different things. The words of the labels' names vote too, so an empty book answers as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from combee.kernel.playbook import Playbook
from combee.lexical.features import Features, features, name_words
from combee.lexical.lesson import Spot, read_lesson

# Chosen by four-fold cross-validation on FiNER's train file; the accuracy changes by less than 0.01 around each.
_NAME = 0.3
_OFTEN = 0.02
_COMMON = 0.3
_MOST_USED = 3


@dataclass(frozen=True, slots=True)
class Prediction:
    """The label for one spot, its lead over the next (0 to 1 of its score), and the bullets that spoke for it most."""

    label: str
    margin: float
    used: tuple[str, ...]


@lru_cache(maxsize=32768)
def _read(text: str) -> tuple[str, Features] | None:
    lesson = read_lesson(text)
    return None if lesson is None else (lesson.label, lesson.features())


@lru_cache(maxsize=8192)
def _asked(spot: Spot) -> Features:
    return features(spot.sentence, spot.start, spot.end)[0]


@lru_cache(maxsize=64)
def _names(labels: tuple[str, ...]) -> Mapping[str, list[tuple[str, float]]]:
    """Return word -> (label, weight). A word that few names hold weighs more; the weights of one name have length 1."""
    words = {label: name_words(label) for label in labels}
    holders: dict[str, int] = defaultdict(int)
    for held in words.values():
        for word in held:
            holders[word] += 1
    table: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for label, held in words.items():
        weights = {word: math.log((1 + len(labels)) / (1 + holders[word])) for word in held}
        length = math.sqrt(math.fsum(weight * weight for weight in weights.values())) or 1.0
        for word, weight in weights.items():
            table[word].append((label, weight / length))
    return dict(table)


class Index:
    """Sums of features by label: grows and shrinks bullet by bullet, yet depends on the bullets alone."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._bullets: dict[str, dict[str, Features]] = {}
        self._sums: dict[str, Features] = {}
        self._totals: dict[str, int] = {}
        self._postings: dict[str, dict[str, float]] = {}
        self._predictions: dict[tuple[Spot, tuple[str, ...]], Prediction] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def changes(self, book: Playbook) -> tuple[list[str], dict[str, str]]:
        """Return the ids that have to go and the bullets (id to text) that have to come, to hold this book."""
        texts = {bullet.id: bullet.text for bullet in book.bullets}
        fresh = dict(texts.items() - self._texts.items())
        return [name for name, text in self._texts.items() - texts.items()], fresh

    def change(self, gone: Iterable[str], fresh: Mapping[str, str]) -> None:
        """Take bullets out and put others in."""
        self._predictions.clear()
        for name in gone:
            self._take(name, self._texts.pop(name), -1)
        for name, text in fresh.items():
            self._texts[name] = text
            self._take(name, text, 1)

    def _take(self, name: str, text: str, sign: int) -> None:
        read = _read(text)
        if read is None:
            return
        label, weights = read
        bullets = self._bullets.setdefault(label, {})
        if sign > 0:
            bullets[name] = weights
        else:
            del bullets[name]
        sums = self._sums.setdefault(label, {})
        for feature, weight in weights.items():
            total = sums.get(feature, 0) + sign * weight
            if total:
                sums[feature] = total
                self._postings.setdefault(feature, {})[label] = math.sqrt(total)
            else:
                del sums[feature], self._postings[feature][label]
        self._totals[label] = self._totals.get(label, 0) + sign * sum(weights.values())
        if not bullets:
            del self._bullets[label], self._sums[label], self._totals[label]

    def predict(self, spot: Spot, options: tuple[str, ...] = ()) -> Prediction:
        """Label one spot, with one of the options where there are any."""
        key = (spot, options)
        prediction = self._predictions.get(key)
        if prediction is None:
            prediction = self._predictions[key] = self._judge(_asked(spot), options)
        return prediction

    def _judge(self, asked: Features, options: tuple[str, ...]) -> Prediction:
        scores = self._scores(asked, options)
        if not scores:
            return Prediction(min(options, default=""), 0.0, ())
        best = max(scores.values())
        label = min(name for name, score in scores.items() if score == best)
        second = max((score for name, score in scores.items() if name != label), default=0.0)
        margin = 1 - second / best if best > 0 else 0.0
        return Prediction(label, margin, self._nearest(asked, label))

    def _scores(self, asked: Features, options: tuple[str, ...]) -> dict[str, float]:
        scores: dict[str, float] = defaultdict(float)
        named: dict[str, float] = defaultdict(float)
        names = _names(options or tuple(sorted(self._sums)))
        all_labels = len(self._sums) + 1
        square = 0.0
        for feature, weight in asked.items():
            holders = self._postings.get(feature)
            rare = weight * (math.log(all_labels / (len(holders) + 1 if holders else 1)) + _COMMON)
            square += rare * rare
            if holders:
                for label, root in holders.items():
                    scores[label] += rare * root
            for label, share in names.get(feature, ()):
                named[label] += rare * share
        length = math.sqrt(square) or 1.0
        for label, score in scores.items():
            scores[label] = score / (length * math.sqrt(self._totals[label])) + _OFTEN * math.log1p(
                len(self._bullets[label])
            )
        for label, score in named.items():
            scores[label] += _NAME * score / length
        return {label: scores[label] for label in options if label in scores} if options else scores

    def _nearest(self, asked: Features, label: str) -> tuple[str, ...]:
        """Return the ids of the bullets of this label that share most with the question, nearest first."""
        shared: list[tuple[int, str]] = []
        for name, weights in self._bullets.get(label, {}).items():
            common = asked.keys() & weights.keys()
            if common:
                shared.append((-sum(asked[feature] * weights[feature] for feature in common), name))
        return tuple(name for _, name in sorted(shared)[:_MOST_USED])


class Lexicon:
    """Indexes of the last few books that were asked about; a book that grew by a few bullets costs only those."""

    def __init__(self, keep: int = 2) -> None:
        self._keep = keep
        self._held: list[tuple[Playbook, Index]] = []

    def index(self, book: Playbook) -> Index:
        """Return the index of this book."""
        for place, (held, index) in enumerate(self._held):
            if held is book:
                if place:
                    self._held.insert(0, self._held.pop(place))
                return index
        index = self._grown(book)
        self._held.insert(0, (book, index))
        return index

    def _grown(self, book: Playbook) -> Index:
        """Turn an index that is near into that of the book, or make a new one (in place of the oldest)."""
        for place, (_, index) in enumerate(self._held):
            gone, fresh = index.changes(book)
            if (len(gone) + len(fresh)) * 4 <= len(book):
                del self._held[place]
                if gone or fresh:
                    index.change(gone, fresh)
                return index
        del self._held[self._keep - 1 :]
        index = Index()
        index.change(*index.changes(book))
        return index
