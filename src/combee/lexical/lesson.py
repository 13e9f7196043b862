"""A lesson as one sentence, English or Chinese, and back.

`When a sentence says "owned [34.6] % of the interest" about a percentage, the tag is X.` The brackets mark the entity.
What a person edits still reads: without brackets the phrase counts as a whole; see `read_lesson` for other forms.

What the lexical agent is asked: labels on offer and the spots to be labelled. A tagging task (numbered questions `What
is best tag for entity "E" in sentence: "S?"`, the shape of FiNER) has one spot a question. Any other text is one spot
without an entity: the whole text is the context, and the answer is one label.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from combee.kernel.playbook import normalize
from combee.lexical.features import CJK, Features, features

SECTION = "CONTEXT CLUES & INDICATORS"
PHRASE_WORDS = 24

_FORM = re.compile(
    r'When an? (?:sentence|text) says "(?P<phrase>[^"]*)"(?: about (?P<kind>[^",]+))?, '
    r"the (?:tag|label) is (?P<label>.+)\."
)
_CHINESE_FORM = re.compile(r"文本含有“(?P<phrase>.*)”时，标签是“(?P<label>[^“”]+)”。")
_CONCLUSION = re.compile(r"\b(?:the|its) (?:tag|label|answer) is\b", re.IGNORECASE)
_ABOUT = re.compile(r"[\"”'] about (an? [^\"“”,.]+)$")
_PIECE = re.compile(rf"[{CJK}]{{1,2}}|[^\s{CJK}]+")
_HAN = re.compile(r"[\u3400-\u9fff]")
_OTHER = re.compile(r"[\u3041-\u30ff\uac00-\ud7a3]")  # kana or hangul: not Chinese
_EDGE = " \t\n,;:.!\"'`“”‘’"
_MARK = re.compile(r"\[([^\[\]]+)\]")
_TAG_NAME = re.compile(r"\b[A-Z][a-z]+(?:[A-Z]+[a-z]*){2,}\d*\b")
_PLAIN = str.maketrans({"[": "(", "]": ")", '"': "'", "\n": " ", "\r": " "})


@dataclass(frozen=True, slots=True)
class Lesson:
    """A phrase with its marked entity (`start:end`; both 0 where none is marked), the entity's kind, and the label."""

    phrase: str
    label: str
    start: int = 0
    end: int = 0
    kind: str = ""

    @property
    def text(self) -> str:
        """The sentence that stands in the playbook."""
        if self.start == self.end:
            if _HAN.search(self.phrase) and not _OTHER.search(self.phrase):
                return normalize(f"文本含有“{self.phrase}”时，标签是“{self.label}”。")
            return normalize(f'When a text says "{self.phrase}", the label is {self.label}.')
        marked = f"{self.phrase[: self.start]}[{self.phrase[self.start : self.end]}]{self.phrase[self.end :]}"
        return normalize(f'When a sentence says "{marked}" about {self.kind}, the tag is {self.label}.')

    def features(self) -> Features:
        """Return what the phrase has in common with other texts."""
        return features(self.phrase, self.start, self.end, self.kind)[0]


def lesson_from(spot: Spot, label: str, words: int = PHRASE_WORDS) -> Lesson:
    """Keep of a spot's sentence the `words` words around the entity (the first ones where nothing is marked)."""
    pieces = [(match.start(), match.end()) for match in _PIECE.finditer(spot.sentence)]
    label = " ".join(label.split())
    if spot.start == spot.end or not pieces:
        cut = pieces[min(2 * words, len(pieces)) - 1][1] if pieces else 0
        return Lesson(spot.sentence[:cut].translate(_PLAIN), label)
    at = next(place for place, (_, stop) in enumerate(pieces) if stop > spot.start)
    first = max(0, min(at - words // 2, len(pieces) - words))
    last = min(len(pieces), first + words) - 1
    begin, stop = pieces[first][0], pieces[last][1]
    kind = features(spot.sentence, spot.start, spot.end)[1]
    return Lesson(
        spot.sentence[begin:stop].translate(_PLAIN), label, spot.start - begin, min(spot.end, stop) - begin, kind
    )


@lru_cache(maxsize=32768)
def read_lesson(text: str) -> Lesson | None:
    """Read a bullet; None where it names no label.

    Three forms are read: the one that is written, any sentence that ends in `the tag is X`, and a text that holds
    exactly one name of three or more words in CamelCase.
    """
    match = _FORM.fullmatch(text.strip())
    if match is not None:
        return _marked(match["phrase"], match["kind"] or "", match["label"])
    match = _CHINESE_FORM.fullmatch(text.strip())
    if match is not None:
        return Lesson(match["phrase"], match["label"])
    ends = list(_CONCLUSION.finditer(text))
    label = text[ends[-1].end() :].strip(_EDGE) if ends else ""
    if not label:
        names = set(_TAG_NAME.findall(text))
        return Lesson(_TAG_NAME.sub(" ", text).strip(), names.pop()) if len(names) == 1 else None
    head = text[: ends[-1].start()].rstrip(" ,;:")
    about = _ABOUT.search(head[-100:])
    kind = about[1] if about else ""
    if about:
        head = head[: len(head) - len(about[0])]
    _, says, phrase = head.partition(" says ")
    return _marked((phrase if says else head).strip(_EDGE), kind, label)


def _marked(phrase: str, kind: str, label: str) -> Lesson:
    mark = _MARK.search(phrase)
    if mark is None:
        return Lesson(phrase, label, kind=kind)
    plain = phrase[: mark.start()] + mark[1] + phrase[mark.end() :]
    return Lesson(plain, label, mark.start(), mark.end() - 2, kind)


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
