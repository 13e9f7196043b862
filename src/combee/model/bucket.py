"""The token bucket for a limit that is known: requests or tokens a minute."""

from __future__ import annotations


class Bucket:
    """A token bucket that may go into debt for one request larger than itself."""

    __slots__ = ("_at", "_level", "capacity", "rate")

    def __init__(self, per_minute: float, burst: float | None) -> None:
        self.rate = per_minute / 60
        self.capacity = max(1.0, self.rate if burst is None else burst)
        self._level = self.capacity
        self._at: float | None = None

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until `amount` may be taken."""
        if self._at is not None:
            self._level = min(self.capacity, self._level + (now - self._at) * self.rate)
        self._at = now
        missing = min(amount, self.capacity) - self._level
        return missing / self.rate if missing > 1e-9 else 0.0

    def take(self, amount: float) -> None:
        """Take `amount` now (or give back, where it is negative)."""
        self._level -= amount
