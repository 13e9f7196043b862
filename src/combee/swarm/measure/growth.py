"""How agents become what they are: roles by what copies bring back, notes that go stale, edges that agents propose."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass

from combee.swarm.brain import Thought, View, use
from combee.swarm.directory import publish, who_knows
from combee.swarm.ledger import totals
from combee.swarm.measure.lab import DOCUMENT, WINDOW, Facts, ask_all, facts_in, lab, path_of, reading
from combee.swarm.structure import Structure, adopt, current, propose, settle, tree
from combee.swarm.swarm import USER
from combee.swarm.window import Newest
from combee.swarm.world import Returns, World

__all__ = ["Grown", "edits", "specialise", "stale"]

TOPICS, AGENTS, EACH = 6, 12, 20


@dataclass(frozen=True, slots=True)
class Grown:
    """`cold`: share of questions for which documents had to be read; `entropy`: of who answers a topic, 0 to 1."""

    right: float
    cold: float
    entropy: float
    tokens: float
    fresh: float
    compactions: int


def specialise(returns: Returns, questions: int, seed: int) -> Grown:
    """Ask about topics that nobody knows at first; whoever is asked first and cannot answer reads the topic."""
    facts = Facts.draw(TOPICS * EACH, seed)
    rng = random.Random(f"topics {seed}")

    def policy(view: View) -> Thought | str:
        key, topic = view.mail.body.split()
        known = facts_in(view.text()).get(key)
        if known or view.results():
            return known[0] if known else "unknown"
        return Thought(calls=(use("read", path=f"t{topic}/00000..{EACH - 1:05d}"),))

    with lab(policy, facts, compaction=Newest(0.5), digest_tokens=40) as swarm:
        with swarm.world.step():
            for number in range(TOPICS * EACH):
                publish(swarm.world, f"t{number // EACH}/{number % EACH:05d}", facts.document(number), USER)
            for number in range(AGENTS):
                swarm.world.spawn(f"a{number:02d}", window=WINDOW // 2, returns=returns)
        right = 0
        who: dict[int, Counter[str]] = defaultdict(Counter)
        for _ in range(questions):
            number = rng.randrange(TOPICS * EACH)
            subject = f"t{number // EACH}/{number % EACH:05d}"
            known = who_knows(swarm.world, subject, limit=1)
            to = known[0].agent if known else f"a{rng.randrange(AGENTS):02d}"
            who[number // EACH][to] += 1
            right += ask_all(swarm, [(to, f"k{number:05d} {number // EACH}", subject, facts.values[number])])
        sums = totals(swarm.world)
        cold = swarm.world.rows("SELECT count(*) FROM context WHERE kind = 'result' AND agent LIKE '%~%'")[0][0]
    spread = [_entropy(counts) / math.log(AGENTS) for counts in who.values()]
    return Grown(
        right / questions, cold / questions, sum(spread) / len(spread), (sums.prompt + sums.completion) / questions,
        sums.fresh / questions, sums.compactions,
    )  # fmt: skip


def _entropy(counts: Counter[str]) -> float:
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values())


def stale(changed: float, seed: int, *, stamps: bool) -> tuple[float, float]:
    """Return the share of right answers from notes, and tokens a question, when documents changed after the notes."""
    count = 60
    facts = Facts.draw(count, seed)
    rng = random.Random(f"stale {seed} {changed}")

    def policy(view: View) -> Thought | str:
        results = view.results()
        if view.mail.kind == "tell":
            if not results:
                return Thought(calls=(use("read", path=view.mail.body),))
            lines = results[0].text.split("\n")
            if not facts_in(lines[0]):
                return "noted"
            pairs = [(line, path_of(int(next(iter(facts_in(line)))[1:]))) for line in lines]
            return Thought(
                calls=tuple(use("remember", n, text=line[:20], path=path) for n, (line, path) in enumerate(pairs))
            )
        key = view.mail.body
        if not results:
            return Thought(calls=(use("recall", query=key),))
        if stamps and "(stale" in results[-1].text:
            return Thought(calls=(use("read", path=path_of(int(key[1:]))),))
        found = facts_in(results[-1].text).get(key)
        return found[0] if found else "unknown"

    with lab(policy, facts, compaction=Newest(0.2)) as swarm:
        swarm.world.spawn("ann", window=WINDOW // 2, returns="none")
        for path in reading(0, count):
            swarm.tell("ann", path)
        asyncio.run(swarm.run())
        now = list(facts.values)
        for number in rng.sample(range(count), round(count * changed)):
            now[number] = f"v{rng.randrange(100_000):05d}"
            text = f"k{number:05d}={now[number]} "
            publish(swarm.world, path_of(number), text + "x" * (4 * DOCUMENT - 1 - len(text)), USER)
        before = totals(swarm.world)
        right = ask_all(swarm, [("ann", f"k{n:05d}", "", now[n]) for n in range(count)])
        after = totals(swarm.world)
    return right / count, (after.fresh + after.completion - before.fresh - before.completion) / count


def edits(who: str, seed: int, *, agents: int = 30, budget: int = 8) -> tuple[float, int]:
    """Return messages a question on fresh demand after a budget of proposed edges, and how many edits were kept.

    Args:
        who: "agents" (each proposes the edge it would have used most, from its own mail), "random", or "fixed".
        seed: Same seed, same demand.
        agents: In a tree of two children each at first.
        budget: Proposals that may be measured.
    """
    names = [f"a{number:02d}" for number in range(agents)]
    rng = random.Random(f"edits {seed}")

    def two(source: random.Random) -> tuple[str, str]:
        a, b = source.sample(names, 2)
        return a, b

    # A few pairs talk most of the time, as teams do; the rest is noise.
    hot = [two(rng) for _ in range(10)]
    draw = random.Random(f"demand {seed}")

    def pairs(source: random.Random, count: int) -> list[tuple[str, str]]:
        return [source.choice(hot) if source.random() < 0.7 else two(source) for _ in range(count)]

    with lab(lambda view: view.mail.body, Facts((), (), frozenset()), hop_limit=64, max_asks=10**6) as swarm:
        with swarm.world.step():
            for name in names:
                swarm.world.spawn(name, window=10 * WINDOW, returns="none")
        adopt(swarm.world, tree(names, 2), author="person", why="start")
        log: Counter[tuple[str, str]] = Counter()

        async def spent(structure: Structure, asked: list[tuple[str, str]]) -> float:
            swarm.structure = structure
            before = totals(swarm.world).messages
            for a, b in asked:
                swarm.ask(a, "?", to=b)
                log[a, b] += not structure.allows(a, b)
            await swarm.run()
            return (totals(swarm.world).messages - before) / len(asked)

        async def score(structure: Structure) -> float:
            # Every edge has a price too: who has one must know that it is there.
            return -(await spent(structure, pairs(draw, 80)) + 0.02 * len(structure.edges))

        async def grow() -> float:
            await score(tree(names, 2))
            for _ in range(budget if who != "fixed" else 0):
                choice = [pair for pair, _ in log.most_common() if not swarm.structure.allows(*pair)]
                pair = two(rng) if who == "random" or not choice else choice[0]
                log.pop(pair, None)
                propose(swarm.world, json.dumps({"add": [list(pair)]}), author=pair[0], why="it is asked for often")
                await settle(swarm.world, score)
                swarm.structure = _now(swarm.world)
            return await spent(_now(swarm.world), pairs(random.Random(f"held out {seed}"), 200))

        cost = asyncio.run(grow())
        return cost, len(_now(swarm.world).edges) - agents + 1


def _now(world: World) -> Structure:
    found = current(world)
    return found.structure if found else Structure()
