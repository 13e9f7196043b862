"""What bench_gepa_learn watches a search with: calls and tokens of a model, and the curve of the best score."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from combee.kernel.playbook import count_tokens
from combee.mock.student import GepaStudent


class Counting:
    """A language model that counts calls and tokens, as gepa and Combee both call it."""

    def __init__(self, student: GepaStudent) -> None:
        self.student = student
        self.calls = self.tokens = 0
        self._lock = threading.Lock()  # Combee calls it from many threads

    def __call__(self, prompt: Any) -> str:
        """Return the student's reply."""
        text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        reply = self.student(text)
        spent = count_tokens(text) + count_tokens(reply)
        with self._lock:
            self.calls += 1
            self.tokens += spent
        return reply


class Quiet:
    """A logger that says nothing."""

    def log(self, message: str) -> None:
        """Drop the message."""


class Curve:
    """A gepa callback: the best candidate's accuracy on the test tasks after each validation, and what it took."""

    def __init__(self, lm: Counting, accuracy: Callable[[dict[str, str]], float]) -> None:
        self.points: list[tuple[float, float, float, float, float]] = []
        self.latencies = 0
        self.iterations = 0
        self._lm, self._accuracy = lm, accuracy
        self._used = 0
        self._best = -1.0
        self._shown = 0.0

    def on_budget_updated(self, event: dict[str, Any]) -> None:
        """Metric calls were made: one latency, since rollouts of one batch run at the same time."""
        self._used = event["metric_calls_used"]
        self.latencies += 1

    def on_valset_evaluated(self, event: dict[str, Any]) -> None:
        """A candidate was accepted."""
        if event["average_score"] > self._best:
            self._best = event["average_score"]
            self._shown = self._accuracy(event["candidate"])
        self.point()

    def on_iteration_end(self, event: dict[str, Any]) -> None:
        """Count."""
        self.iterations += 1

    @property
    def calls(self) -> int:
        """Calls of the reflection so far."""
        return self._lm.calls

    def levels(self, count: int) -> None:
        """Count the calls that a reflection made after each other."""
        self.latencies += count

    def point(self) -> None:
        """Add a point."""
        self.points.append((self._used, self._shown, self._lm.calls, self._lm.tokens, self.latencies))


class Watched:
    """A reflection, with the levels of each proposal told to the curve."""

    def __init__(self, inner: Any, curve: Curve) -> None:
        self.inner = inner
        self._curve = curve

    def reflect(self, *job: Any) -> Any:
        """Return a proposal; see gepa."""
        return self.reflect_many([job])[0]

    def reflect_many(self, jobs: Any) -> Any:
        """Return proposals; see gepa."""
        before = self._curve.calls
        found = [self.inner.reflect(*job) for job in jobs]
        figures = [v for v in found[0][0].metadata.values() if isinstance(v, dict) and "levels" in v]
        # gepa's own makes all calls of one proposal after each other.
        self._curve.levels(max((one["levels"] for one in figures), default=self._curve.calls - before))
        return [(proposal, self) for proposal, _ in found]
