"""Edits of a swarm's structure that agents propose: one stays when it measures better, else it is undone.

An edit is data: {"add": [[a, b], ...], "remove": [[a, b], ...], "roles": {agent: role}}. Measured: edges that agents
propose from the mail they sent themselves, against random ones, none, and those of somebody who sees all mail.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from benchmarks.swarm_lab.lab import WINDOW, cost, lab
from benchmarks.swarm_lab.result import Experiment, Setting, Table, judge
from benchmarks.swarm_lab.spread import above, mean_of
from combee.errors import UsageError
from combee.swarm.structure import Structure, adopt, current, tree
from combee.swarm.swarm import Swarm
from combee.swarm.world import World

__all__ = ["Proposal", "edited", "edits", "latest", "proposals", "propose", "settle", "structure"]


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
    ordered = [sorted(map(str, pair)) for pair in pairs]
    if any(len(pair) != 2 or pair[0] == pair[1] for pair in ordered):
        raise ValueError("an edge is a pair of two names")
    return frozenset((a, b) for a, b in ordered)


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


def propose(world: World, edit: str, *, author: str, why: str) -> int:
    """Put an edit of the present structure forward; it takes effect only when `settle` finds it better."""
    with world.step():
        if latest(world) is None:  # without one it is a mesh, and the edit has to be better than that
            adopt(world, Structure(), author="world", why="the start")
        now = latest(world)
        made = edited(now.structure if now else Structure(), edit)
        sql = "INSERT INTO structures (parent, data, author, why, state, at) VALUES (?, ?, ?, ?, 'proposed', ?)"
        values = (now.version if now else None, made.to_json(), author, why, time.time())
        return int(world.run(sql, *values).lastrowid or 0)


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
                for name, role in proposal.structure.roles:
                    world.run("UPDATE agents SET role = ? WHERE name = ?", role, name)
        settled.append(next(one for one in proposals(world) if one.version == proposal.version))
    return settled


Pair = tuple[str, str]


class _Demand:
    """Who asks whom: a few pairs make 70 % of it, as teams do; the rest is noise."""

    def __init__(self, names: list[str], rng: random.Random) -> None:
        self.names = names
        self.hot = [self.any(rng) for _ in range(10)]

    def any(self, rng: random.Random) -> Pair:
        """Return two different agents."""
        a, b = rng.sample(self.names, 2)
        return a, b

    def draw(self, rng: random.Random, count: int) -> list[Pair]:
        """Return so many questions."""
        return [rng.choice(self.hot) if rng.random() < 0.7 else self.any(rng) for _ in range(count)]


def edits(who: str, seed: int, *, agents: int = 30, budget: int = 8, sample: int = 30) -> tuple[float, int]:
    """Return messages a question on fresh demand after a budget of proposed edges, and how many edits were kept.

    Args:
        who: "agents" (one whom the dice name proposes the edge that its own questions would have used most), "all
            mail" (the edge that anybody's would), "random", or "fixed".
        seed: Same seed, same demand.
        agents: In a tree of two children each at first.
        budget: Proposals that may be measured.
        sample: Questions by which a structure is measured; three times as many in the end.
    """
    names = [f"a{number:02d}" for number in range(agents)]
    rng, drawn = random.Random(f"edits {seed}"), random.Random(f"demand {seed}")
    demand = _Demand(names, rng)
    log: Counter[Pair] = Counter()

    async def spent(swarm: Swarm, structure: Structure, asked: list[Pair]) -> float:
        swarm.structure = structure
        before = cost(swarm)
        for a, b in asked:
            swarm.ask(a, "?", to=b)
            log[a, b] += not structure.allows(a, b)
        await swarm.run()
        return (cost(swarm) - before).messages / len(asked)

    async def grow(swarm: Swarm) -> float:
        async def score(made: Structure) -> float:
            # Every edge has a price too: who has one must know that it is there.
            return -(await spent(swarm, made, demand.draw(drawn, sample)) + 0.02 * len(made.edges))

        for _ in range(budget if who != "fixed" else 0):
            if not log:
                await score(_now(swarm.world))
            choice = [pair for pair, _ in log.most_common() if not _now(swarm.world).allows(*pair)]
            if who == "agents" and choice:  # it knows of its own questions, and of nobody else's
                author = rng.choice(sorted({sender for sender, _ in choice}))
                choice = [pair for pair in choice if pair[0] == author]
            pair = demand.any(rng) if who == "random" or not choice else choice[0]
            log.pop(pair, None)
            propose(swarm.world, json.dumps({"add": [list(pair)]}), author=pair[0], why="it is asked for often")
            await settle(swarm.world, score)
        return await spent(swarm, _now(swarm.world), demand.draw(random.Random(f"held out {seed}"), 3 * sample))

    with lab(lambda view: view.mail.body, hop_limit=64, max_asks=10**6) as swarm:
        with swarm.world.step():
            for name in names:
                swarm.world.spawn(name, window=10 * WINDOW, returns="none")
        adopt(swarm.world, tree(names, 2), author="person", why="start")
        return asyncio.run(grow(swarm)), len(_now(swarm.world).edges) - agents + 1


def _now(world: World) -> Structure:
    return current(world) or Structure()


def structure(setting: Setting) -> Experiment:
    """Edges that agents propose."""
    kinds = ("fixed", "random", "agents", "all mail")
    budget, sample = setting.pick((4, 10), (8, 30))
    found = {who: setting.over(edits, who, budget=budget, sample=sample) for who in kinds}
    spent = {who: mean_of(one[0] for one in found[who]) for who in kinds}
    rows = tuple((who, f"{spent[who]:.2f}", f"{mean_of(one[1] for one in found[who]):.1f}") for who in kinds)
    saved = {
        who: mean_of(a[0] - b[0] for a, b in zip(found[who], found["agents"], strict=True))
        for who in ("fixed", "random")
    }
    claim = judge(
        "Agents can improve the structure they were given, from what each of them saw itself.",
        f"{spent['fixed']:.2f} messages a question in the tree they began with, {spent['random']:.2f} after random "
        f"edits, {spent['agents']:.2f} after their own at equal budget (with {spent['all mail']:.2f} where somebody "
        f"sees all mail): {saved['fixed']:.2f} fewer than in the tree, {saved['random']:.2f} fewer than random",
        (above(one, 0) for one in saved.values()),
    )
    columns = ("edits by", "messages a question", "edits kept")
    setup = (
        f"30 agents in a tree of two; ten pairs make 70 % of the demand; {budget} proposals, each measured by {sample} "
        "questions; the demand at the end is held out."
    )
    return Experiment("structure", setup, (Table("Structure", columns, rows),), (), (claim,))
