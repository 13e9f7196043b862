"""What was found in one run, whose words it is made of, and what is held back instead of being said.

The rule is one of origin. A lesson is made of our own sentences, of the agent's own calls as they ran, and of the known
form of a tool's error (`combee.traces.mining.quoting`). A call is held back, too, where the agent took over what
another one had written: an address that a tool named first, a sentence, a name that is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from combee.redaction import Step, Trace
from combee.redaction.orders import KINDS, flattened, names_a_place, orders
from combee.traces.mining.quoting import subwords

_CALLS, _ERROR, _VERDICT = "the agent's own calls", "the form of a tool's error", "names in the verdict"
_ORIGINS = {
    "flip": (_CALLS, _ERROR, "names of tests"),
    "contrast": (_CALLS, _VERDICT),
    "slow": (_CALLS, "the name of the task"),
    "correction": ("the user, a developer",),
}
_NEVER = frozenset({"fetch_and_run", "send", "secrets", "override", "destroy", "address"})
_QUOTED = re.compile(r"`([^`]+)`")
_PROSE = re.compile(r"(?<![\w-])[^\W\d_]+(?:,? [^\W\d_]+){4,}")
_OTHER_PROSE = re.compile(r"(?<![\w-])(?=[^\n]*[^\x00-\x7f])[^\W_]+(?:,? [^\W_]+){2,}")
_FAR_EAST = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{4,}")
_NAME = re.compile(r"[\w-]{12,}")
_LONG_NAME, _LONGEST_NAME = 5, 10  # in words
_TEST = re.compile(r"tests?(?=[_\W\dA-Z]|$)|Tests?(?=[_\WA-Z\d]|$)")
_SHOWN = 160
_COMMAND_OF = 2  # words
_MARKS = re.compile(r"\\[nt]|[\"'\\`]")
_ROW = 5  # words in a row that nobody repeats by chance
_WORDS = re.compile(r"[^\W_]+")
_CALLS_OUT = """
all agents; every agent; any agent; other agents; future agents; all assistants; ai agent; ai assistant;
language model; ignore previous; ignore all; ignore the above; disregard; system prompt; alle agenten; jeder
agent; an alle; ki-agent; ki-assistent; ignoriere; tous les agents; aux agents; ignorez; todos los agentes; los
agentes; ignora; ignore todas; todos os agentes;
所有代理; 所有智能体; 所有助手; 各位代理; 忽略; 无视; エージェント; 無視して
"""
_CALLING_OUT = tuple(each.strip() for each in _CALLS_OUT.split(";"))
"""Where a line of an output is looked at for orders, only to list it: no lesson hangs on this list."""


@dataclass(frozen=True, slots=True)
class MinedLesson:
    """One lesson of one run.

    `kind` is missing, absent, repair, until, setup, shell, hang, slow, dead_end, unmended, error, refusal, flip,
    correction or contrast; `key` is what recurs; `text` is the lesson and holds no step; `steps` are those of the
    recorded run that show it (the failure first, then what worked).
    """

    kind: str
    key: str
    text: str
    steps: tuple[int, ...]
    line: int = 0
    """Hash of the call (unmended: its words, hang: its program), to see in other runs whether it holds there too."""
    quotes: tuple[str, ...] = ()
    """What a joined lesson is made of, as the text quotes it: of a dead end the error and what was tried; of what was
    missing the install that brought it."""

    @property
    def origin(self) -> tuple[str, ...]:
        """Whose words the lesson is made of, beside our own sentence around them."""
        return _ORIGINS.get(self.kind, (_CALLS, _ERROR))


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Words that became no part of a lesson: where they stand, who wrote them, and why they were left out."""

    trace: str
    step: int
    origin: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.origin}, step {self.step} of {self.trace}: {self.reason}: {self.text}"


def _told(kinds: Iterable[str]) -> str:
    return ", ".join(KINDS[kind] for kind in sorted(kinds))


def first_words(text: str) -> str:
    """Return a text on one line, cut to what a list shows."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _bare(text: str) -> str:
    """Return a text without quotation marks, escapes and runs of blanks, as two writers of a command differ in them."""
    return " ".join(_MARKS.sub("", flattened(text).casefold()).split())


class Standing:
    """What in one run is the agent's own, and what another one wrote.

    Args:
        trace: the run.
        users: who the user is: a developer's messages are not foreign, of a grader's the first one, which is the task.
    """

    def __init__(self, trace: Trace, users: str) -> None:
        self.trace = trace
        self._users = users

    @cached_property
    def _foreign(self) -> str:
        return flattened("\n".join(step.text for step in self.trace.steps if self._is_foreign(step))).casefold()

    def _is_foreign(self, step: Step) -> bool:
        if step.role == "assistant":
            return False
        if step.role == "tool" or step.answers is not None or step.agent is not None or self._users == "customers":
            return True
        return self._users == "graders" and step.role == "user" and step.index > self._task

    @cached_property
    def _task(self) -> int:
        return next((step.index for step in self.trace.steps if step.role == "user"), 0)

    def against(self, lesson: MinedLesson) -> str:
        """Return why a lesson must not be said; empty where it may."""
        if lesson.kind == "correction":
            return ""  # judged where it is found
        shown = flattened(" \n ".join(_QUOTED.findall(lesson.text)))
        if kinds := _NEVER.intersection(orders(shown)):
            return _told(kinds)
        for place in names_a_place(shown):
            if self._taken_over(place):
                return f"{place} was named by another one first"
        for pattern, row in ((_PROSE, 4), (_OTHER_PROSE, 3), (_FAR_EAST, 1)):
            for match in pattern.finditer(shown):
                words = match[0].split(" ")
                if any(self._taken_over(" ".join(words[at : at + row])) for at in range(max(len(words) - row, 0) + 1)):
                    return "a call repeats a sentence of another one"
        if any(map(self._is_sentence, _NAME.findall(shown))):
            return "a name that is a sentence"
        return ""

    def against_worded(self, text: str) -> str:
        """Return why a lesson that a model worded must not be said; empty where it may."""
        shown = flattened(text)
        kinds = _NEVER.intersection(orders(shown)) - {"address"}
        if kinds:
            return _told(kinds)
        for place in names_a_place(shown):
            if self._taken_over(place) or (place in self._foreign and not self._called(place)):
                return f"{place} was named by another one first"
        words = _WORDS.findall(shown.casefold())
        foreign = " ".join(_WORDS.findall(self._foreign))
        for at in range(len(words) - _ROW + 1):
            row = " ".join(words[at : at + _ROW])
            if row in foreign and not self._called(row) and orders(" ".join(words[max(0, at - 4) : at + 2 * _ROW])):
                return "it repeats an order of another one"
        return ""

    def invented(self, text: str) -> str:
        """Return the first command in a lesson that stands nowhere in the run; empty where each does."""
        for span in _QUOTED.findall(text):
            words = _bare(span.partition("…")[0].partition("<")[0])
            if len(words.split()) >= _COMMAND_OF and words not in self._whole:
                return f"`{first_words(span)}` stands nowhere in the run"
        return ""

    @cached_property
    def _whole(self) -> str:
        return _bare("\n".join([*self._calls.values(), *(step.text for step in self.trace.steps)]))

    @cached_property
    def _calls(self) -> dict[int, str]:
        """What the agent called, by step, as it is read."""
        said = ((step.index, " \n ".join(call.arguments for call in step.tool_calls)) for step in self.trace.steps)
        return {index: flattened(text).casefold() for index, text in said if text}

    def _called(self, words: str) -> bool:
        """Whether words stand in a call of the agent's own."""
        return any(words in text for text in self._calls.values())

    def _taken_over(self, words: str) -> bool:
        """Whether words of the agent's calls stood in what another one wrote before."""
        words = words.casefold()
        if words not in self._foreign:
            return False
        before = False
        for step in self.trace.steps:
            if words in self._calls.get(step.index, ""):
                return before
            before = before or (self._is_foreign(step) and words in flattened(step.text).casefold())
        return False

    def _is_sentence(self, name: str) -> bool:
        words = [word for word in subwords(name.replace("-", "_")) if not word.isdigit()]
        if len(words) < _LONG_NAME or not self._taken_over(name):
            return False
        return bool(_NEVER.intersection(orders(name))) or (len(words) > _LONGEST_NAME and not _TEST.search(name))

    def unquoted(self, said: Iterable[tuple[int, str, str]]) -> Iterable[HeldBack]:
        """Yield those of (step, error line, what of it may be quoted) whose lost words read like an order."""
        for step, line, form in said:
            if form != line and (reason := _told(orders(line)) or ", ".join(names_a_place(line))):
                yield HeldBack(self.trace.id, step, "a tool", reason, first_words(line))

    def called_out(self) -> Iterable[HeldBack]:
        """Yield lines of this run in which another one speaks to agents: none of them is ever quoted."""
        if not any(mark in self._foreign for mark in _CALLING_OUT):
            return
        for step in self.trace.steps:
            if not self._is_foreign(step):
                continue
            for line in step.text.splitlines():
                low = flattened(line).casefold()
                if any(mark in low for mark in _CALLING_OUT) and (found := _NEVER.intersection(orders(line[:2000]))):
                    who = step.agent or ("a tool" if step.role == "tool" or step.answers else "the user")
                    yield HeldBack(self.trace.id, step.index, who, _told(found), first_words(line))
                    break


def sifted(lessons: Sequence[MinedLesson], standing: Standing) -> tuple[list[MinedLesson], list[HeldBack]]:
    """Return the lessons that may be said, and what was held back."""
    said: list[MinedLesson] = []
    held: list[HeldBack] = []
    for each in lessons:
        reason = standing.against(each)
        if reason:
            step = each.steps[0] if each.steps else 0
            held.append(HeldBack(standing.trace.id, step, "a lesson", reason, first_words(each.text)))
        else:
            said.append(each)
    return said, held
