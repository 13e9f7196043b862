"""What a lesson must not hold: answers of held-out tasks, and secrets.

A held-out target counts as quoted only if it is distinctive, by the rules at `distinctive` and `LeakIndex`: a one-digit
number, a year or a tag name of the label space is no leak. A short target counts where the lesson also quotes the
question.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from combee.kernel.guard.evidence import FindSecrets, no_secrets
from combee.kernel.playbook import Delta, Operation, Remove

__all__ = ["HeldOut", "LeakIndex", "distinctive", "screen"]

_TOKEN = re.compile(r"\d[\d,_]*(?:\.\d+)?|[^\W\d]\w*")
_PART = re.compile(r",(?!\d)|;|\n|\|")
RUN = 8  # words of a question in a row that count as quoting it
SHARED = 3  # a target of this many held-out tasks is a label, not an answer

Tokens = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One task that must stay unseen; with its question, also short targets are guarded."""

    id: str
    target: str
    question: str = ""


def _tokens(text: str) -> Tokens:
    """Words in lower case and numbers in one form: `1,200.50` and `1200.5` are equal.

    Other forms of the same letters (full width) and letters that nobody sees count as what a reader sees.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
    return tuple(_number(token) if token[0].isdecimal() else token.casefold() for token in _TOKEN.findall(text))


def _number(token: str) -> str:
    plain = token.replace(",", "").replace("_", "")
    return format(Decimal(plain).normalize(), "f")


def distinctive(target: str) -> bool:
    """Return whether finding this text in a lesson can only mean that the answer was copied.

    - a number: four significant digits or more, and not a whole number from 1900 to 2100;
    - one word: eight characters or more with a digit inside or a capital after a small letter (an identifier);
    - several words or numbers: ten characters or more in all.
    """
    tokens = _tokens(target)
    if not tokens:
        return False
    if len(tokens) > 1:
        return sum(map(len, tokens)) >= 10
    if tokens[0][0].isdecimal():
        digits = tokens[0].replace(".", "").strip("0") if "." in tokens[0] else tokens[0].strip("0")
        year = "." not in tokens[0] and len(tokens[0]) == 4 and "1900" <= tokens[0] <= "2100"
        return len(digits) >= 4 and not year
    return len(tokens[0]) >= 8 and re.search(r"\d|[a-z][A-Z]", target) is not None


class LeakIndex:
    """The held-out tasks, ready to be looked for.

    A target is left out when it, or every one of its comma-separated parts, is known: listed in `known` (targets of the
    training tasks, names of the label space) or the target of three or more held-out tasks. A list of four or more
    known labels still counts as a whole, in its order.

    Args:
        held_out: the tasks of validation and test.
        known: texts that are no secret.
        seen: texts that the agent learns from, as training questions: what stands in them is no quotation of a
            held-out task, whatever else holds it.
    """

    def __init__(self, held_out: Iterable[HeldOut], known: Iterable[str] = (), *, seen: Iterable[str] = ()) -> None:
        tasks = list(held_out)
        shared = Counter(part for task in tasks for part in {_tokens(each) for each in _parts(task.target)})
        public = {_tokens(each) for text in known for each in (text, *_PART.split(text))}
        public |= {part for part, count in shared.items() if count >= SHARED}
        self._targets: dict[str, list[tuple[Tokens, str]]] = {}
        for task in tasks:
            for text in _parts(task.target):
                self._add_target(text, task.id, public)
        self._runs = _own_runs(tasks)
        self._answers = {task.id: _tokens(task.target) for task in tasks}
        for text in seen:
            self._forget(_tokens(text))

    def _add_target(self, text: str, task: str, public: set[Tokens]) -> None:
        tokens = _tokens(text)
        pieces = [_tokens(piece) for piece in _PART.split(text) if piece.strip()]
        labels_only = all(piece in public for piece in pieces) and len(pieces) < 4
        if distinctive(text) and tokens not in public and not labels_only:
            entries = self._targets.setdefault(tokens[0], [])
            if all(known != tokens for known, _ in entries):
                entries.append((tokens, task))

    def _forget(self, words: Tokens) -> None:
        """Take out all that these words show."""
        for at, word in enumerate(words):
            if word in self._targets:
                left = [entry for entry in self._targets[word] if words[at : at + len(entry[0])] != entry[0]]
                self._targets[word] = left
            self._runs.pop(words[at : at + RUN], None)

    def find(self, text: str) -> tuple[str, ...]:
        """Return the ids of the held-out tasks whose answer the text quotes, sorted."""
        words = _tokens(text)
        found = {
            task
            for at, word in enumerate(words)
            for tokens, task in self._targets.get(word, ())
            if words[at : at + len(tokens)] == tokens
        }
        if self._runs:
            for at in range(len(words) - RUN + 1):
                task = self._runs.get(words[at : at + RUN])
                if task and task not in found and _holds(words, self._answers[task]):
                    found.add(task)
        return tuple(sorted(found))


def _parts(target: str) -> tuple[str, ...]:
    pieces = tuple(piece.strip() for piece in _PART.split(target) if piece.strip())
    return (target, *pieces) if len(pieces) > 1 else (target,)


def _own_runs(tasks: Iterable[HeldOut]) -> dict[Tokens, str]:
    """Runs of words that one held-out question alone has; instructions that several share are no quotation."""
    owner: dict[Tokens, str] = {}
    for task in tasks:
        words = _tokens(task.question)
        for at in range(len(words) - RUN + 1):
            run = words[at : at + RUN]
            owner[run] = task.id if owner.get(run, task.id) == task.id else ""
    return {run: task for run, task in owner.items() if task}


def _holds(words: Tokens, answer: Tokens) -> bool:
    return bool(answer) and any(words[at : at + len(answer)] == answer for at in range(len(words)))


def screen(
    delta: Delta, index: LeakIndex | None, *, allow_leaks: bool = False, find_secrets: FindSecrets = no_secrets
) -> tuple[Delta, tuple[tuple[Operation, str], ...]]:
    """Return the delta without operations that hold a secret or quote a held-out answer, and those with the reason.

    Secrets go in any case; `allow_leaks` lets answers through. The reason names kinds and task ids, never the text.
    """
    kept: list[Operation] = []
    refused: list[tuple[Operation, str]] = []
    for operation in delta:
        text = "" if isinstance(operation, Remove) else operation.text
        section = getattr(operation, "section", "")
        if secrets := find_secrets(f"{section}\n{text}"):
            refused.append((operation, f"it holds a secret ({', '.join(secrets)})"))
        elif index is not None and not allow_leaks and (tasks := index.find(text)):
            refused.append((operation, f"it quotes the held-out answer of {', '.join(tasks)}"))
        else:
            kept.append(operation)
    return (delta if not refused else Delta(tuple(kept))), tuple(refused)
