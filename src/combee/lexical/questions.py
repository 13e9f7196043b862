"""What the lexical agent is asked: labels on offer and the spots to be labelled.

A tagging task (numbered questions `What is best tag for entity "E" in sentence: "S?"`, the shape of FiNER) has one spot
a question. Any other text is one spot without an entity: the whole text is the context, and the answer is one label.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Asked", "Spot", "read_question"]

_START = re.compile(r'^[ \t]*(?:\d+[.)][ \t]*)?What is (?:the )?best (?:tag|label) for entity "', re.MULTILINE)
_MIDDLE = '" in sentence: "'
_OPTIONS_BEFORE_QUESTIONS = re.compile(r"[^\n]*?\b(?:options|labels|choices):", re.IGNORECASE)
_OPTIONS_IN_TEXT = re.compile(r"^(?:the )?(?:options|labels|choices):", re.IGNORECASE | re.MULTILINE)
_AFTER_OPTIONS = "Answer the following"


@dataclass(frozen=True, slots=True)
class Spot:
    """One thing to label: the characters `start:end` of `sentence`, or the sentence as a whole when both are 0."""

    sentence: str
    start: int = 0
    end: int = 0

    @property
    def entity(self) -> str:
        """The marked characters; empty where the whole text is meant."""
        return self.sentence[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Asked:
    """The spots of one task in their order, and the labels it offers (none where it names none)."""

    spots: tuple[Spot, ...]
    options: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def read_question(question: str) -> Asked:
    """Take a task's question apart. Never fails: what has no known shape is one spot."""
    starts = [(match.start(), match.end()) for match in _START.finditer(question)]
    head = question[: starts[0][0]] if starts else question
    options, rest = _options(head, _OPTIONS_BEFORE_QUESTIONS if starts else _OPTIONS_IN_TEXT)
    if not starts:
        return Asked((Spot(rest.strip()),), options)
    spots: list[Spot] = []
    asked_before: Counter[tuple[str, str]] = Counter()
    for place, (_, begin) in enumerate(starts):
        end = starts[place + 1][0] if place + 1 < len(starts) else len(question)
        entity, middle, rest = question[begin:end].partition(_MIDDLE)
        close = rest.rfind('"')  # a sentence may hold quotes of its own: the last one closes it
        sentence = (rest[:close] if middle and close >= 0 else rest).removesuffix("?").strip()
        entity = entity.strip()
        # The same number asked twice of one sentence means its first and its second place ("34 % of A, 34 % of B").
        spots.append(_spot(sentence, entity, asked_before[entity, sentence]))
        asked_before[entity, sentence] += 1
    return Asked(tuple(spots), options)


@lru_cache(maxsize=64)
def _split_options(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def _options(text: str, pattern: re.Pattern[str]) -> tuple[tuple[str, ...], str]:
    """Return the labels of the line `...options: A, B, C` and the text without that line."""
    match = pattern.search(text)
    if match is None:
        return (), text
    stops = [place for stop in (_AFTER_OPTIONS, "\n") if (place := text.find(stop, match.end())) >= 0]
    end = min(stops, default=len(text))
    return _split_options(text[match.end() : end].strip().removesuffix(".")), text[: match.start()] + text[end:]


def _spot(sentence: str, entity: str, nth: int) -> Spot:
    if not entity:
        return Spot(sentence)
    whole = [m.start() for m in re.finditer(rf"(?<![\w.,]){re.escape(entity)}(?![\w]|[.,]\d)", sentence)]
    places = whole or [m.start() for m in re.finditer(re.escape(entity), sentence)]
    if not places:
        return Spot(sentence)
    start = places[min(nth, len(places) - 1)]
    return Spot(sentence, start, start + len(entity))
