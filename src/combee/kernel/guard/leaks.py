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
from combee.kernel.playbook.text import COMMON

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_TOKEN = re.compile(rf"{_CJK.pattern}|\d[\d,_]*(?:\.\d+)?|[^\W\d](?:(?!{_CJK.pattern})\w)*")
_RUN = re.compile(r"\d+|[^\W\d_]+")
_YEAR = re.compile(r"19\d\d|20\d\d|2100")
_AMOUNT = re.compile(r"[\d.,]+-?[^\W\d_]{1,8}")  # 100km, 15mins, 100th, 5-year
_COUNTED = COMMON | {
    "chapter",
    "class",
    "covid",
    "grade",
    "item",
    "level",
    "option",
    "page",
    "phase",
    "row",
    "stage",
    "task",
}
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
    - a code: a word of five characters or more that mixes letters with digits, small with capital letters inside, or
      joins capitals by a hyphen or underscore; not a year, an ordinal, an amount with its unit or "step-10";
    - several words or numbers: ten characters or more in all (CJK characters count twice), or a code among them.
    """
    if any(map(_is_code, target.split())):
        return True
    tokens = _tokens(target)
    if len(tokens) == 1 and tokens[0][0].isdecimal():
        digits = tokens[0].replace(".", "").strip("0") if "." in tokens[0] else tokens[0].strip("0")
        return len(digits) >= 4 and not _YEAR.fullmatch(tokens[0])
    return len(tokens) > 1 and sum(len(token) + bool(_CJK.fullmatch(token)) for token in tokens) >= 10


def _is_code(word: str) -> bool:
    """Return whether a word looks like an identifier: it means one thing, and nobody writes it by chance."""
    bare = re.sub(r"[^\w.,:-]", "", word).strip(".,:-_")
    if len(bare) < 5:
        return False
    runs = [run for run in _RUN.findall(bare) if not _YEAR.fullmatch(run)]
    letters, digits = ("".join(run for run in runs if run.isdecimal() is kind) for kind in (False, True))
    if not letters:
        return len(digits) >= 5 and len(_tokens(bare)) > 1
    if digits:
        plain = _AMOUNT.fullmatch(bare) or letters.casefold() in _COUNTED
        return len(letters) + len(digits) >= 3 and not (plain and len(digits) < 4)
    joined = "-" in bare and letters.isupper() and min(map(len, runs)) > 1
    return joined or "_" in bare or re.search(r"[a-z][A-Z]", bare) is not None


def _spellings(text: str) -> set[Tokens]:
    """Return the ways a text may be written: a code also without its separators, and with one wherever it may be."""
    spellings = {_tokens(text)}
    if any(map(_is_code, text.split())):
        joined = "".join(_RUN.findall(unicodedata.normalize("NFKC", text).casefold()))
        spellings |= {(joined,), tuple(_RUN.findall(joined))}
    return spellings


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
            for spelled in _spellings(text):
                entries = self._targets.setdefault(spelled[0], [])
                if all(known != spelled for known, _ in entries):
                    entries.append((spelled, task))

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
        quoted = {
            task
            for at, word in enumerate(words)
            for tokens, task in self._targets.get(word, ())
            if words[at : at + len(tokens)] == tokens
        }
        if self._runs:
            for at in range(len(words) - RUN + 1):
                task = self._runs.get(words[at : at + RUN])
                if task and task not in quoted and _holds(words, self._answers[task]):
                    quoted.add(task)
        return tuple(sorted(quoted))


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
