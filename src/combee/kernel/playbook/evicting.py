"""Which bullets leave a full playbook.

First those with harmful ≥ helpful (the most harmful of them first), then those never used, then the oldest.

Bullets that this step added, confirmed or rewrote leave last. Texts are never cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import islice

from combee.kernel.playbook.ids import number_of
from combee.kernel.playbook.layout import Draft
from combee.kernel.playbook.model import Bullet

__all__ = ["Evictor", "eviction_key"]


def eviction_key(bullet: Bullet) -> tuple[int, int, int, int, str]:
    """Return the place of a bullet in the queue to leave; the smallest leaves first."""
    if bullet.harmful and bullet.harmful >= bullet.helpful:
        rank, net = 0, bullet.helpful - bullet.harmful
    else:
        rank, net = (1 if bullet.last_used is None and not bullet.helpful else 2), 0
    return (rank, net, bullet.created, number_of(bullet.id), bullet.id)


class Evictor:
    """Keeps a draft within its budget. Without a budget it does nothing."""

    def __init__(self, draft: Draft, budget: int | None) -> None:
        self._draft = draft
        self._budget = budget
        self._protected: set[str] = set()
        self._queue: deque[str] | None = None
        self.evicted: list[str] = []

    def protect(self, bullet_id: str) -> None:
        """Let this bullet leave only when no other can."""
        self._protected.add(bullet_id)

    def trim(self) -> None:
        """Evict until the book is within its budget."""
        if self._budget is None or self._draft.tokens_after() <= self._budget:
            return
        queue = sorted(
            self._draft.bullets.values(), key=lambda bullet: (bullet.id in self._protected, eviction_key(bullet))
        )
        for bullet in queue:
            self._draft.drop(bullet.id)
            self.evicted.append(bullet.id)
            if self._draft.tokens_after() <= self._budget:
                return

    def make_room(self, bullet: Bullet) -> bool:
        """Evict the fewest bullets, in the order of the policy, that let `bullet` in.

        When even all do not help, evict none and return False.
        """
        if self._budget is None or self._draft.tokens_of(bullet) > self._budget:
            return False
        waiting = self._waiting()
        gone: list[Bullet] = []
        while not self._fits(bullet, gone):
            more = list(islice(waiting, max(1, len(gone))))
            if not more:
                return False
            gone += more
        fewest = bisect_left(range(len(gone)), True, key=lambda count: self._fits(bullet, gone[:count]))
        for each in gone[:fewest]:
            self._draft.drop(each.id)
            self.evicted.append(each.id)
        return True

    def _fits(self, bullet: Bullet, gone: list[Bullet]) -> bool:
        return self._budget is not None and self._draft.tokens_after(gone, [bullet]) <= self._budget

    def _waiting(self) -> Iterator[Bullet]:
        """Yield the bullets that may leave now, in the order of the policy."""
        if self._queue is None:
            self._queue = deque(bullet.id for bullet in sorted(self._draft.bullets.values(), key=eviction_key))
        while self._queue and self._stays(self._queue[0]):
            self._queue.popleft()
        return (self._draft.bullets[bullet_id] for bullet_id in self._queue if not self._stays(bullet_id))

    def _stays(self, bullet_id: str) -> bool:
        return bullet_id in self._protected or bullet_id not in self._draft.bullets
