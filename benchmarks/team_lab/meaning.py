"""What a rule means to a scripted lead: words become concepts, and the order of concepts and negations decides.

No model: a small grammar over a closed vocabulary. Who does it, what to, and whether it is asked for or forbidden all
count, so a rule and its contrary in the same words differ. A word outside the vocabulary is not understood, and a
rule in such words is not followed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from benchmarks.team_lab.phrases import SEEN, Intent

__all__ = ["meanings", "meanings_by_words", "stance", "understood"]

_VOCABULARY = {
    "lead": "lead leader tech-lead coordinator yourself you",
    "dev": "python-dev dev developer programmer",
    "qa": "qa-dev qa tester",
    "edit": "edit change modify touch write patch fix alter repair rewrite",
    "code": "code source implementation module file",
    "bug": "bug repair defect fix",
    "give": "assign delegate hand give route dispatch leave let task have",
    "test": "test suite pytest regression check",
    "run": "run rerun repeat execute",
    "output": "output traceback error log failure assertion message",
    "send": "send include quote forward attach paste tell told",
    "merge": "merge integrate land",
    "ready": "ready",
    "wait": "wait",
    "before": "before until unless",
    "after": "after once when",
    "not": "not never no refrain without nobody avoid forbid skip don't cannot out drop",
    "only": "only alone exclusively solely",
    "except": "except but",
    "flag": "--agent flag",
    "plain": "positional plain position directly",
}
_ENDINGS = ("", "s", "es", "d", "ed", "ing")


def _words(vocabulary: Mapping[str, str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for concept, words in vocabulary.items():
        for word in words.split():
            stems = {word, word.removesuffix("e")} if concept not in {"lead", "not", "only"} else {word}
            for form in {stem + ending for stem in stems for ending in _ENDINGS} - {word.removesuffix("e")} | {word}:
                found.setdefault(form, set()).add(concept)
            if len(word) > 2 and word[-1] in "nt":  # run, running; forbid is listed as it is
                found.setdefault(f"{word}{word[-1]}ing", set()).add(concept)
    found.setdefault("written", set()).add("edit")
    found.setdefault("forbidden", set()).add("not")
    return {word: frozenset(concepts) for word, concepts in found.items()}


_WORD = re.compile(r"--agent|[a-z]+(?:[-'][a-z]+)*")


def _spoken(text: str) -> list[str]:
    return [word.removesuffix("'s") for word in _WORD.findall(text.casefold())]


def _seen_only() -> dict[str, str]:
    """Return the vocabulary without the words of which no form stands in a seen phrasing."""
    spoken = {word for texts in SEEN.values() for text in texts for word in _spoken(text)}

    def stands(word: str) -> bool:
        return any(stem + ending in spoken for stem in (word, word.removesuffix("e")) for ending in _ENDINGS)

    return {concept: " ".join(filter(stands, words.split())) for concept, words in _VOCABULARY.items()}


_CONCEPTS = {False: _words(_VOCABULARY), True: _words(_seen_only())}
"""Word to concepts; under True without synonyms that no seen phrasing has."""


class _Sentence:
    """The concepts of one sentence in order."""

    def __init__(self, text: str, *, seen_only: bool) -> None:
        concepts = _CONCEPTS[seen_only]
        self.at = [concepts.get(word, frozenset()) for word in _spoken(text)]

    def has(self, *concepts: str) -> bool:
        """Whether every concept occurs."""
        return all(any(concept in found for found in self.at) for concept in concepts)

    def place(self, concept: str, start: int = 0) -> int:
        """Where a concept first occurs from `start` on; -1 if it does not."""
        return next((at for at in range(start, len(self.at)) if concept in self.at[at]), -1)

    def negated(self, start: int = 0, end: int | None = None) -> bool:
        """Whether an odd number of negations lies between two places."""
        return sum("not" in found for found in self.at[start:end]) % 2 == 1


def stance(rules: Iterable[tuple[str, int]], *, seen_only: bool = False) -> dict[Intent, int]:
    """Return what a lead makes of weighted rules: +1 asked for, -1 its contrary; undecided ones are left out."""
    sums: Counter[Intent] = Counter()
    for text, weight in rules:
        for intent, sign in meanings(text, seen_only=seen_only).items():
            sums[intent] += sign * weight
    return {intent: 1 if total > 0 else -1 for intent, total in sums.items() if total}


@lru_cache(maxsize=4096)
def _meanings(text: str, *, seen_only: bool) -> tuple[tuple[Intent, int], ...]:
    found: dict[Intent, int] = {}
    for sentence in re.split(r"(?<=[.!?])\s+", text):
        found |= _read(_Sentence(sentence, seen_only=seen_only))
    return tuple((intent, sign) for intent, sign in found.items() if sign)


def meanings(text: str, *, seen_only: bool = False) -> dict[Intent, int]:
    """Return what a rule asks for (+1) or forbids (-1); empty where it is not understood.

    With `seen_only`, the lead knows no word that stands in none of the seen phrasings.
    """
    return dict(_meanings(text, seen_only=seen_only))


def _read(one: _Sentence) -> dict[Intent, int]:
    if one.has("merge"):
        if one.has("flag") or one.has("plain"):
            return {Intent.MERGE_NAME: _argument(one)}
        if one.has("ready"):
            return {Intent.WAIT_READY: _waiting(one)}
        if one.has("test") and (one.has("run") or one.has("after")):
            return {Intent.RETEST: -1 if one.negated() else 1}
    if one.has("output") and (one.has("dev") or one.has("send")) and (one.has("send") or one.has("give")):
        return {Intent.SEND_LOG: -1 if one.negated() else 1}
    if one.has("qa") and one.has("test"):
        return {Intent.USE_QA: -1 if one.negated() else 1}
    if one.has("edit", "code"):
        return _editing(one)
    if one.has("dev", "bug") and one.has("give"):
        return {Intent.USE_DEV: -1 if one.negated() else 1}
    return {}


def _argument(one: _Sentence) -> int:
    """Say how the merge command is called: a flag that is not negated before it is asked for."""
    flag, plain = one.place("flag"), one.place("plain")
    if flag >= 0 and not one.negated(0, flag):
        return -1
    if flag < 0:
        return -1 if one.negated(0, plain) else 1
    return 1


def _waiting(one: _Sentence) -> int:
    """Say whether a merge waits: by the word itself, else by what is forbidden before or allowed after READY."""
    wait = one.place("wait")
    if wait >= 0:
        return -1 if one.negated(0, wait) else 1
    merge, early = one.place("merge"), one.has("before")
    negated = one.negated(0, merge)
    if early:
        return 1 if negated else -1
    if one.has("after") or one.has("only"):
        return -1 if negated else 1
    return 0


def _editing(one: _Sentence) -> dict[Intent, int]:
    """Say who may edit: an exclusive actor, an exception to nobody, else the lead, forbidden or not."""
    if one.has("only") or one.has("not", "except"):
        if one.has("dev"):
            return {Intent.NO_EDIT: 1, Intent.USE_DEV: 1}
        return {Intent.NO_EDIT: -1} if one.has("lead") else {}
    if one.has("dev") and not one.has("lead"):
        return {Intent.USE_DEV: -1 if one.negated() else 1}
    return {Intent.NO_EDIT: 1 if one.negated() else -1}


def meanings_by_words(text: str) -> dict[Intent, int]:
    """Return the meaning of the seen phrasing with the most words in common: the control, which keywords can fool."""
    words = set(_WORD.findall(text.casefold()))
    best, score = None, 0.0
    for meaning, phrasings in SEEN.items():
        for phrasing in phrasings:
            others = set(_WORD.findall(phrasing.casefold()))
            alike = len(words & others) / len(words | others)
            if alike > score:
                best, score = meaning, alike
    return {best[0]: best[1]} if best else {}


def understood(
    phrasings: Mapping[tuple[Intent, int], Iterable[str]],
    read: Callable[[str], Mapping[Intent, int]] = meanings,
) -> tuple[int, int, list[str]]:
    """Return (right, all, those wrong or not understood) over phrasings whose meaning is known."""
    wrong: list[str] = []
    count = 0
    for (intent, sign), texts in phrasings.items():
        for text in texts:
            count += 1
            if read(text).get(intent) != sign:
                wrong.append(text)
    return count - len(wrong), count, wrong
