"""A lesson as one English sentence, and back.

`When a sentence says "owned [34.6] % of the interest" about a percentage, the tag is X.` The brackets mark the entity.
What a person edits still reads: without brackets the phrase counts as a whole; see `read_lesson` for other forms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from combee.kernel.playbook import normalize
from combee.lexical.features import Features, features
from combee.lexical.questions import Spot

__all__ = ["PHRASE_WORDS", "SECTION", "Lesson", "lesson_from", "read_lesson"]

SECTION = "CONTEXT CLUES & INDICATORS"
PHRASE_WORDS = 24

_FORM = re.compile(
    r'When an? (?:sentence|text) says "(?P<phrase>[^"]*)"(?: about (?P<kind>[^",]+))?, '
    r"the (?:tag|label) is (?P<label>.+)\."
)
_CONCLUSION = re.compile(r"\b(?:the|its) (?:tag|label|answer) is\b", re.IGNORECASE)
_ABOUT = re.compile(r"[\"”'] about (an? [^\"“”,.]+)$")
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
            return normalize(f'When a text says "{self.phrase}", the label is {self.label}.')
        marked = f"{self.phrase[: self.start]}[{self.phrase[self.start : self.end]}]{self.phrase[self.end :]}"
        return normalize(f'When a sentence says "{marked}" about {self.kind}, the tag is {self.label}.')

    def features(self) -> Features:
        """Return what the phrase has in common with other texts."""
        return features(self.phrase, self.start, self.end, self.kind)[0]


def lesson_from(spot: Spot, label: str, words: int = PHRASE_WORDS) -> Lesson:
    """Keep of a spot's sentence the `words` words around the entity (the first ones where nothing is marked)."""
    pieces = [(match.start(), match.end()) for match in re.finditer(r"\S+", spot.sentence)]
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
