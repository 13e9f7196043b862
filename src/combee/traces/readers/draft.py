"""A trace in the making: numbered steps, plain texts, bounded sizes, the outcome, and the id computed at the end.

An outcome is a score, a verdict of tests, or only the agent's own word. Where each model call repeats the conversation,
only what is new is added: what was said twice stays twice, and a tool's result is known by the id of its call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from combee.kernel.journal import clean_text
from combee.redaction import Outcome, Step, ToolCall, Trace, trace_id
from combee.traces.readers.messages import Piece
from combee.traces.readers.source import Source
from combee.traces.readers.values import flag, number, table, text
from combee.traces.readers.written import with_written_calls

_DETAIL = 4000


def scored(score: float | None, *, tests: Mapping[str, bool] | None = None, detail: str = "") -> Outcome:
    """Return the outcome of a score from outside: 1 or more is success, 0 or less is not, between is left open."""
    success = None if score is None or 0 < score < 1 else score >= 1
    return Outcome(success=success, score=score, tests=dict(tests or {}), detail=detail[:_DETAIL])


def graded(scores: Mapping[str, float], chosen: str, detail: str) -> Outcome:
    """Return the outcome of several scores: the chosen one counts, and each that is 0 or 1 is a test."""
    tests = {name: score >= 1 for name, score in scores.items() if score in {0.0, 1.0}} if len(scores) > 1 else {}
    return scored(scores[chosen], tests=tests, detail=detail)


def claim(success: bool | None, detail: str = "") -> Outcome:
    """Return an outcome that only the agent states."""
    return Outcome(success=success, claimed=success is not None, detail=detail[:_DETAIL])


def submitted(status: str) -> Outcome | None:
    """Return the outcome of an exit status: that the agent handed something in is its own claim of success."""
    if not status:
        return None
    return claim(True, status) if status.lower() == "submitted" else Outcome(detail=status)


def failure_detail(value: object) -> str:
    """Return what an error field says: a text, or the message (and type) of an object."""
    if isinstance(value, str):
        return value[:_DETAIL]
    error = table(value)
    kind = text(error.get("type")) or text(error.get("exception_type")) or text(error.get("error_class"))
    said = text(error.get("message")) or text(error.get("exception_message")) or text(error.get("error"))
    return ": ".join(part for part in (kind, said) if part)[:_DETAIL]


def recorded(value: Mapping[str, object]) -> Outcome | None:
    """Return the outcome at the top of a loose record: `resolved`, `reward` or `score`; `success` is a claim."""
    resolved = flag(value.get("resolved"))
    if resolved is None:
        resolved = flag(value.get("is_resolved"))
    for key in ("reward", "score"):
        score = number(value.get(key))
        if score is not None:
            outcome = scored(score)
            return outcome if resolved is None else Outcome(success=resolved, score=score)
    if resolved is not None:
        return Outcome(success=resolved)
    claimed = flag(value.get("success"))
    return None if claimed is None else claim(claimed)


class TraceDraft:
    """Gathers the steps of one trace read from `source`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.steps: list[Step] = []
        self.meta: dict[str, str] = {}
        self.run = ""
        """The format's own unique name of this run, where it has one."""
        self._size = 0
        self._copies = 0

    def add(
        self, piece: Piece, *, timestamp: str | None = None, agent: str | None = None, line: int | None = None
    ) -> None:
        """Add a piece of a message as a step; one without text and calls is left out unless it answers a call."""
        if not piece.text and not piece.calls and piece.answers is None:
            return
        if self._size > self.source.limits.trace:
            self.source.skip(f"steps after the first {self.source.limits.trace >> 20} MiB of one trace", line)
            return
        self._size += len(piece.text) + sum(len(call.arguments) for call in piece.calls)
        calls = (ToolCall(self._plain(c.id), self._plain(c.name), self._plain(c.arguments, line)) for c in piece.calls)
        self.steps.append(
            Step(
                index=len(self.steps),
                role=piece.role,
                text=self._plain(piece.text, line),
                tool_calls=tuple(calls),
                answers=None if piece.answers is None else self._plain(piece.answers),
                is_error=piece.is_error,
                timestamp=self._plain(timestamp) if timestamp else None,
                agent=None if agent is None else self._plain(agent),
            )
        )

    def copied(self, session: str, record: str) -> bool:
        """Whether a record of that unique name was met in another session: a fork or a resumed copy repeats it."""
        if self.source.report.is_new(f"{session} {self.source.name}", record):
            return False
        self._copies += 1
        return True

    def only_copies(self) -> bool:
        """Name the copies; where there is nothing else, count the run as met twice and say so."""
        if self._copies:
            self.source.note(f"{self._copies} records of another session that this one repeats are read once")
            if not self.steps:
                self.source.report.twice += 1
                self.source.belongs = True
                return True
        return False

    def pieces(
        self, found: Iterable[Piece], *, timestamp: str | None = None, agent: str | None = None, line: int | None = None
    ) -> None:
        """Add every piece of a message."""
        for piece in found:
            self.add(piece, timestamp=timestamp, agent=agent, line=line)

    def results_after_calls(self) -> None:
        """Move each result that was recorded before its call to just after that call, and number the steps anew."""
        known: set[str] = set()
        early: dict[str, list[Step]] = {}
        later = {call.id for step in self.steps for call in step.tool_calls if call.id}
        ordered: list[Step] = []
        for step in self.steps:
            if step.answers is not None and step.answers in later and step.answers not in known:
                early.setdefault(step.answers, []).append(step)
                continue
            ordered.append(step)
            for call in step.tool_calls:
                known.add(call.id)
                ordered += early.pop(call.id, [])
        if ordered != self.steps:
            self.source.note("results recorded before their calls were put after them")
            self.steps = [replace(step, index=at) for at, step in enumerate(ordered)]

    def trace(
        self,
        task: str | None = None,
        outcome: Outcome | None = None,
        meta: Mapping[str, str] | None = None,
        *,
        line: int | None = None,
    ) -> Iterator[Trace]:
        """Yield the trace, or nothing (named) where there is neither a step nor an outcome.

        The task is the first message of the user where none is given. Empty values of `meta` are left out.
        """
        if not self.steps and outcome is None:
            self.source.skip("no steps in it", line)
            return
        if task is None:
            task = next((step.text for step in self.steps if step.role == "user" and step.answers is None), "")
        task = self._plain(task, line)
        if outcome is not None:
            tests = {self._plain(name): passed for name, passed in outcome.tests.items()}
            outcome = Outcome(outcome.success, outcome.score, outcome.claimed, tests, self._plain(outcome.detail))
        steps = tuple(with_written_calls(self.steps))
        kept = {key: self._plain(value) for key, value in {**self.meta, **(meta or {})}.items() if value}
        yield Trace(trace_id(task, steps, outcome, self._plain(self.run)), task, steps, outcome, meta=kept)

    def _plain(self, text: str, line: int | None = None) -> str:
        clean = clean_text(text)
        if clean is not text and clean != text:
            self.source.note("lone surrogates were replaced", line)
        return clean


class Conversation:
    """Adds to a draft only what it does not hold yet."""

    def __init__(self, draft: TraceDraft) -> None:
        self.draft = draft
        self._known: Counter[tuple[str, str]] = Counter()
        self._answered: set[str] = set()
        self._called: set[str] = set()

    def heard(self, found: Iterable[Piece], *, timestamp: str | None, line: int | None) -> None:
        """Add what a model call was given: the conversation so far."""
        here: Counter[tuple[str, str]] = Counter()
        for piece in found:
            key = (piece.role, piece.text.strip())
            here[key] += 1
            if piece.calls and all(call.id in self._called for call in piece.calls):
                continue
            if piece.answers is not None and piece.answers in self._answered:
                continue
            if here[key] > self._known[key] or (piece.calls and not piece.text):
                self._add(piece, timestamp, line)

    def said(self, found: Iterable[Piece], *, timestamp: str | None, line: int | None) -> None:
        """Add what is new for sure: a model's answer, or a tool's call and result."""
        for piece in found:
            if piece.answers is not None and piece.answers in self._answered:
                continue
            if piece.calls and all(call.id in self._called for call in piece.calls) and not piece.text:
                continue
            self._add(piece, timestamp, line)

    def has_call(self, name: str) -> bool:
        """Whether a call of that id is known."""
        return name in self._called

    def open_call(self, tool: str) -> str:
        """Return the id of the oldest call of that tool without a result, or an empty one."""
        calls = (call for step in self.draft.steps for call in step.tool_calls if call.name == tool and call.id)
        return next((call.id for call in calls if call.id not in self._answered), "")

    def has_text(self, said: str) -> bool:
        """Whether the model already said this."""
        return self._known["assistant", said.strip()] > 0

    def _add(self, piece: Piece, timestamp: str | None, line: int | None) -> None:
        self._known[piece.role, piece.text.strip()] += 1
        self._called |= {call.id for call in piece.calls if call.id}
        if piece.answers is not None:
            self._answered.add(piece.answers)
        self.draft.add(piece, timestamp=timestamp, line=line)
