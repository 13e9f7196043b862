"""Edges that agents propose from what they see in their mail, against random ones and none, at equal budget."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from statistics import mean

from benchmarks.swarm_lab.lab import WINDOW, cost, lab
from benchmarks.swarm_lab.proposals import propose, settle
from benchmarks.swarm_lab.result import Experiment, Setting, Table, judge
from combee.swarm.structure import Structure, adopt, current, tree
from combee.swarm.swarm import Swarm
from combee.swarm.world import World

__all__ = ["edits", "structure"]

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
        who: "agents" (each proposes the edge it would have used most, from its own mail), "random", or "fixed".
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
    kinds = ("fixed", "random", "agents")
    seeds = setting.pick((0,), tuple(range(6)))
    budget, sample = setting.pick((4, 10), (8, 30))
    found = {kind: [edits(kind, seed, budget=budget, sample=sample) for seed in seeds] for kind in kinds}
    cost_of = {kind: [one[0] for one in found[kind]] for kind in kinds}
    fixed, chance, own = (mean(cost_of[kind]) for kind in kinds)
    wins = sum(a < r for a, r in zip(cost_of["agents"], cost_of["random"], strict=True))
    rows = tuple(
        (kind, f"{mean(costs):.2f}", f"{min(costs):.2f} to {max(costs):.2f}",
         f"{mean(one[1] for one in found[kind]):.1f}")
        for kind, costs in cost_of.items()
    )  # fmt: skip
    claim = judge(
        "Agents can improve the structure they were given.",
        f"{fixed:.2f} messages a question in the tree they began with, {chance:.2f} after random edits, {own:.2f} "
        f"after their own, better than random in {wins} of {len(seeds)} seeds at equal budget",
        held=wins > 0.75 * len(seeds) and own < fixed, partly=own < fixed,
    )  # fmt: skip
    columns = ("edits by", "messages a question", "range", "edits kept")
    setup = (
        f"30 agents in a tree of two; ten pairs make 70 % of the demand; {budget} proposals, each measured by {sample} "
        f"questions; seeds: {len(seeds)}; the demand at the end is held out."
    )
    return Experiment("structure", setup, (Table("Structure", columns, rows),), (), (claim,))
