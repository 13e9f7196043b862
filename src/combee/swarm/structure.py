"""Who may ask whom, as versioned data. Agents propose edits; an edit stays when it measures better, else it is undone.

An edit is data too: {"add": [[a, b], ...], "remove": [[a, b], ...], "roles": {agent: role}}. A structure without edges
is a mesh: anyone asks anyone. The roles of a structure that is kept are those of its agents from then on.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from combee.errors import UsageError
from combee.kernel.journal import canonical_json
from combee.swarm.world import World

__all__ = ["Proposal", "Structure", "adopt", "current", "proposals", "propose", "settle", "tree"]

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

    def edited(self, edit: str) -> Structure:
        """Return the structure after an edit.

        Raises:
            UsageError: The text is not an edit.
        """
        try:
            data = json.loads(edit)
            add = _edges(data.get("add", ()))
            remove = _edges(data.get("remove", ()))
            roles = {str(name): str(role) for name, role in dict(data.get("roles", {})).items()}
            unknown = set(data) - {"add", "remove", "roles"}
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"this is not an edit: {error}", hint='Like {"add": [["ann", "bob"]]}.') from error
        if unknown:
            raise UsageError(f"an edit has no {', '.join(sorted(unknown))}", hint="It has add, remove and roles.")
        return Structure((self.edges - remove) | add, tuple(sorted({**dict(self.roles), **roles}.items())))


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


@dataclass(frozen=True, slots=True)
class Proposal:
    """A version of the structure; `state` is proposed, kept or undone; `score` what was measured with it."""

    version: int
    parent: int | None
    structure: Structure
    author: str
    why: str
    state: str
    score: float | None


def adopt(world: World, structure: Structure, *, author: str, why: str, score: float | None = None) -> int:
    """Make a structure the present one; returns its version."""
    with world.step():
        _assign(world, structure)
        return _add(world, current(world), structure, author=author, why=why, state="kept", score=score)


def _assign(world: World, structure: Structure) -> None:
    for name, role in structure.roles:
        world.run("UPDATE agents SET role = ? WHERE name = ?", role, name)


def _add(
    world: World,
    parent: Proposal | None,
    made: Structure,
    *,
    author: str,
    why: str,
    state: str,
    score: float | None = None,
) -> int:
    sql = "INSERT INTO structures (parent, data, author, why, state, score, at) VALUES (?, ?, ?, ?, ?, ?, ?)"
    values = (parent.version if parent else None, made.to_json(), author, why, state, score, time.time())
    return int(world.run(sql, *values).lastrowid or 0)


def propose(world: World, edit: str, *, author: str, why: str) -> int:
    """Put an edit of the present structure forward; it takes effect only when `settle` finds it better."""
    with world.step():
        if current(world) is None:  # without one it is a mesh, and the edit has to be better than that
            adopt(world, Structure(), author="world", why="the start")
        now = current(world)
        made = (now.structure if now else Structure()).edited(edit)
        return _add(world, now, made, author=author, why=why, state="proposed")


def proposals(world: World, state: str | None = None) -> list[Proposal]:
    """Return all versions in order."""
    sql = (
        "SELECT version, parent, data, author, why, state, score FROM structures WHERE ?1 IS NULL OR state = ?1"
        " ORDER BY version"
    )
    return [
        Proposal(version, parent, Structure.from_json(data), author, why, stands, score)
        for version, parent, data, author, why, stands, score in world.rows(sql, state)
    ]


def current(world: World) -> Proposal | None:
    """Return the structure that holds now: the last one kept."""
    kept = world.one("SELECT max(version) FROM structures WHERE state = 'kept'")
    if not kept or kept[0] is None:
        return None
    return next(one for one in proposals(world, "kept") if one.version == kept[0])


async def settle(world: World, measure: Callable[[Structure], Awaitable[float]]) -> list[Proposal]:
    """Measure every open proposal against what holds then; higher is better and stays, the others are undone.

    A proposal made from a structure that has meanwhile been replaced is undone unmeasured: it was an edit of another.
    """
    settled = []
    for proposal in proposals(world, "proposed"):
        now = current(world)
        if now is not None and now.score is None:
            base = await measure(now.structure)
            with world.step():
                world.run("UPDATE structures SET score = ? WHERE version = ?", base, now.version)
            now = current(world)
        stale = (now.version if now else None) != proposal.parent
        score = None if stale else await measure(proposal.structure)
        better = score is not None and (now is None or now.score is None or score > now.score)
        with world.step():
            sql = "UPDATE structures SET state = ?, score = ? WHERE version = ?"
            world.run(sql, "kept" if better else "undone", score, proposal.version)
            if better:
                _assign(world, proposal.structure)
        settled.append(next(one for one in proposals(world) if one.version == proposal.version))
    return settled
