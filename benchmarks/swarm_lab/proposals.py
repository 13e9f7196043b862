"""Edits of a swarm's structure that agents propose: one stays when it measures better, else it is undone.

An edit is data too: {"add": [[a, b], ...], "remove": [[a, b], ...], "roles": {agent: role}}.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from combee.errors import UsageError
from combee.swarm.structure import Structure, adopt
from combee.swarm.world import World

__all__ = ["Proposal", "edited", "latest", "proposals", "propose", "settle"]


def edited(structure: Structure, edit: str) -> Structure:
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
    return Structure((structure.edges - remove) | add, tuple(sorted({**dict(structure.roles), **roles}.items())))


def _edges(pairs: Iterable[Iterable[str]]) -> frozenset[tuple[str, str]]:
    made = set()
    for pair in pairs:
        a, b = (str(name) for name in pair)
        if a == b:
            raise ValueError("an edge is a pair of two names")
        made.add((min(a, b), max(a, b)))
    return frozenset(made)


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
        if latest(world) is None:  # without one it is a mesh, and the edit has to be better than that
            adopt(world, Structure(), author="world", why="the start")
        now = latest(world)
        made = edited(now.structure if now else Structure(), edit)
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


def latest(world: World) -> Proposal | None:
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
        now = latest(world)
        if now is not None and now.score is None:
            base = await measure(now.structure)
            with world.step():
                world.run("UPDATE structures SET score = ? WHERE version = ?", base, now.version)
            now = latest(world)
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
