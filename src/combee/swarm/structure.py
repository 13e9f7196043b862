"""Who may ask whom, as versioned data: roles by agent, and undirected edges.

A structure without edges is a mesh: anyone asks anyone. The roles of a structure that is adopted are those of its
agents from then on.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from combee.kernel.journal import canonical_json
from combee.swarm.world import World

__all__ = ["Structure", "adopt", "current", "tree"]

Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Structure:
    """Roles by agent and undirected edges. `next_hop` gives the way when two agents share no edge."""

    edges: frozenset[Edge] = frozenset()
    roles: tuple[tuple[str, str], ...] = ()
    _near: dict[str, set[str]] = field(default_factory=dict, compare=False, repr=False)
    _ways: dict[str, dict[str, str]] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for a, b in self.edges:
            self._near.setdefault(a, set()).add(b)
            self._near.setdefault(b, set()).add(a)

    def allows(self, sender: str, recipient: str) -> bool:
        """Return whether a message may go straight; agents that the structure does not name are free."""
        near = self._near.get(sender)
        return near is None or recipient not in self._near or recipient in near

    def next_hop(self, sender: str, recipient: str) -> str | None:
        """Return whom to hand a message to on the shortest way, or None when there is none."""
        if self.allows(sender, recipient):
            return recipient
        if recipient not in self._ways:
            self._ways[recipient] = self._towards(recipient)
        return self._ways[recipient].get(sender)

    def _towards(self, goal: str) -> dict[str, str]:
        way: dict[str, str] = {goal: goal}
        queue = deque([goal])
        while queue:
            at = queue.popleft()
            for near in sorted(self._near.get(at, ())):
                if near not in way:
                    way[near] = at
                    queue.append(near)
        return way

    def to_json(self) -> str:
        """Return its one text."""
        return canonical_json({"edges": [list(edge) for edge in sorted(self.edges)], "roles": dict(self.roles)})

    @classmethod
    def from_json(cls, text: str) -> Structure:
        """Return the structure of a text that `to_json` wrote."""
        data = json.loads(text)
        return cls(frozenset((a, b) for a, b in data["edges"]), tuple(sorted(data["roles"].items())))


def _edges(pairs: Iterable[Iterable[str]]) -> frozenset[Edge]:
    made = set()
    for pair in pairs:
        a, b = (str(name) for name in pair)
        if a == b:
            raise ValueError("an edge is a pair of two names")
        made.add((min(a, b), max(a, b)))
    return frozenset(made)


def tree(names: Iterable[str], fan_out: int) -> Structure:
    """Return the tree in which the first name is the root and each has `fan_out` children, in order."""
    order = list(names)
    pairs = [(order[(number - 1) // fan_out], order[number]) for number in range(1, len(order))]
    return Structure(_edges(pairs))


def adopt(world: World, structure: Structure, *, author: str, why: str, score: float | None = None) -> int:
    """Make a structure the present one; returns its version."""
    sql = (
        "INSERT INTO structures (parent, data, author, why, state, score, at) VALUES ((SELECT max(version)"
        " FROM structures WHERE state = 'kept'), ?, ?, ?, 'kept', ?, ?)"
    )
    with world.step():
        for name, role in structure.roles:
            world.run("UPDATE agents SET role = ? WHERE name = ?", role, name)
        return int(world.run(sql, structure.to_json(), author, why, score, time.time()).lastrowid or 0)


def current(world: World) -> Structure | None:
    """Return the structure that holds now: the one adopted last."""
    kept = world.value("SELECT data FROM structures WHERE state = 'kept' ORDER BY version DESC LIMIT 1")
    return None if kept is None else Structure.from_json(kept)
