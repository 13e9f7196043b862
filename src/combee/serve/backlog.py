"""What waits of a tenant: how fast it comes, how fast it is learned, and when all of it will be.

A generation takes some seconds however small it is, and some for each trace; both are taken from the last ones.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

__all__ = ["LAST", "Arrivals", "Backlog", "catch_up"]

LAST = 8
"""How many generations tell how long the next ones will take."""

_WINDOWS = (2.0, 10.0)  # seconds over which the rate of arrival is taken


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits of one tenant. Rates are traces a second; `catch_up` is in seconds, None where it does not shrink."""

    waiting: int
    learning: int
    oldest: float
    arrival: float
    consumption: float
    catch_up: float | None


@dataclass(slots=True)
class Arrivals:
    """When traces came, in the last ten seconds."""

    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, count: int) -> None:
        """Note that so many came."""
        now = time.monotonic()
        if self._recent and now - self._recent[-1][0] < 0.2:
            count += self._recent.pop()[1]
        self._recent.append((now, count))

    def rate(self) -> float:
        """Return the traces a second that come: the less of two windows, so that a burst is over when it ends."""
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - max(_WINDOWS):
            self._recent.popleft()
        return min(sum(count for at, count in self._recent if at >= now - window) / window for window in _WINDOWS)


def catch_up(
    waiting: int, running: tuple[int, float] | None, ended: Sequence[tuple[int, float]], size: int, arrival: float
) -> float | None:
    """Return the seconds until nothing waits, None where nobody can know it or it does not come.

    Args:
        waiting: Traces that no generation has taken.
        running: Traces of the generation that is learned now, and for how many seconds it has been.
        ended: Traces and seconds of the generations that ended last.
        size: Most traces of a generation.
        arrival: Traces a second that come meanwhile.
    """
    if not waiting and running is None:
        return 0.0
    if not ended:
        return None
    fixed, each = _seconds(ended)
    left = ceil(waiting / size) * fixed + waiting * each
    if running is not None:
        left += max(0.0, fixed + running[0] * each - running[1])
    share = 1 - arrival * (each + fixed / size)  # of the time that is not spent on what comes meanwhile
    return left / share if share > 0 else None


def _seconds(ended: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return what a generation takes however small, and for each trace: a line through those that ended.

    Large ones count by their size: what a small one took says little of what is to come.
    """
    whole = max(1, sum(count for count, _ in ended))
    size = sum(count * count for count, _ in ended) / whole
    took = sum(count * seconds for count, seconds in ended) / whole
    spread = sum(count * (count - size) ** 2 for count, _ in ended)
    slope = sum(count * (count - size) * (seconds - took) for count, seconds in ended) / spread if spread else 0.0
    fixed = took - slope * size
    return (fixed, slope) if slope > 0 and fixed > 0 else (0.0, sum(seconds for _, seconds in ended) / whole)
