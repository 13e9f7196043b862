"""A trace in the making: steps are numbered, texts made plain, sizes bounded, and the id computed at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from combee.redaction import Outcome, Step, ToolCall, Trace, plain, trace_id
from combee.traces.readers.messages import Piece
from combee.traces.readers.source import Source

__all__ = ["Draft"]


class Draft:
    """Gathers the steps of one trace read from `source`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.steps: list[Step] = []
        self.meta: dict[str, str] = {}
        self.run = ""
        """The format's own unique name of this run, where it has one."""
        self._size = 0

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
        steps = tuple(self.steps)
        kept = {key: self._plain(value) for key, value in {**self.meta, **(meta or {})}.items() if value}
        yield Trace(trace_id(task, steps, outcome, self._plain(self.run)), task, steps, outcome, meta=kept)

    def _plain(self, text: str, line: int | None = None) -> str:
        clean = plain(text)
        if clean is not text and clean != text:
            self.source.note("lone surrogates were replaced", line)
        return clean
