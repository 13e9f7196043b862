"""Where the load goes: through the root of a tree, or to whoever knows; and what a hot expert does to a mesh."""

from __future__ import annotations

import asyncio
import itertools
import random
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.swarm_lab.lab import WINDOW, cost, handled, lab
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, constructed, judge
from benchmarks.swarm_lab.spread import above, against, below, each, mean_of
from combee.swarm.agents import View
from combee.swarm.knowledge import credit, who_knows
from combee.swarm.structure import tree
from combee.swarm.swarm import Swarm

__all__ = ["Demand", "Load", "loads", "run_load"]

_QUESTION = "What is known of this? " + "q" * 97  # 30 tokens
_ANSWER = "This is known: " + "a" * 225  # 60 tokens
TREE, STRAIGHT, BLIND = "tree", "directory", "no directory"


@dataclass(frozen=True, slots=True)
class Demand:
    """How many agents ask each other how many questions; by Zipf's law (exponent 1) or uniform.

    `replicas`: agents that know each topic. `cached`: who was answered knows the topic from then on.
    """

    agents: int
    questions: int
    zipf: bool = False
    replicas: int = 1
    cached: bool = False

    def topics(self, rng: random.Random) -> Callable[[], int]:
        """Return a source of topics."""
        if not self.zipf:
            return lambda: rng.randrange(self.agents)
        sums = list(itertools.accumulate(1 / (rank + 1) for rank in range(self.agents)))
        order = list(range(self.agents))
        rng.shuffle(order)
        return lambda: order[min(bisect(sums, rng.random() * sums[-1]), self.agents - 1)]


@dataclass(frozen=True, slots=True)
class Load:
    """Per question: messages, those that the busiest agent took, what they put into its context; its compactions.

    `root`: what the first agent took; `routed`: what it takes when each message goes the only way that a tree has,
    counted without a run.
    """

    answered: int
    messages: float
    busiest: float
    tokens: float
    compactions: int
    name: str
    root: float
    routed: float


def _subject(number: int) -> str:
    return f"topic-{number:05d}"


def run_load(way: str, demand: Demand, seed: int = 0) -> Load:
    """Send questions between agents that each know a topic, and see who carried what.

    Args:
        way: "tree" (ten children each; the way leads over the common ancestor), "directory" (straight to one who
            knows), or "no directory" (peers are asked in random order until one knows).
        demand: Who asks for what.
        seed: Same seed, same questions.
    """
    rng = random.Random(f"load {seed} {demand.agents}")
    names = [f"a{number:05d}" for number in range(demand.agents)]

    def policy(view: View) -> str:
        if view.mail.kind == "answer":
            return view.mail.body
        name = view.agent.origin
        knows = swarm.world.one("SELECT 1 FROM reads WHERE agent = ? AND subject = ?", name, view.mail.subject)
        return _ANSWER if knows else "unknown"

    with lab(policy, hop_limit=64) as swarm:
        with swarm.world.step():
            for number, name in enumerate(names):
                swarm.world.spawn(name, window=WINDOW, returns="none")
                for more in range(demand.replicas):
                    credit(swarm.world, names[(number + more * 7) % len(names)], 1, _subject(number), "1")
        if way == TREE:
            swarm.structure = tree(names, 10)
        draw, answered, routed = demand.topics(rng), 0, 0
        for start in range(0, demand.questions, 50):
            pairs = [
                (names[rng.randrange(len(names))], _subject(draw())) for _ in range(min(50, demand.questions - start))
            ]
            routed += sum(_through_root(int(a[1:]), int(subject[6:])) for a, subject in pairs if way == TREE)
            answered += _round(swarm, way, names, pairs, rng)
            if demand.cached:
                with swarm.world.step():
                    for asker, subject in pairs:
                        credit(swarm.world, asker, 1, subject, "1")
        return _measured(swarm, demand.questions, answered, routed)


def _through_root(asker: int, expert: int) -> int:
    """Return how many messages of a question and its answer the root of a tree of ten children takes."""
    if asker == expert:
        return 0  # nobody asks itself
    if not asker or not expert:
        return 1  # the answer comes to it, or the question
    while max(asker, expert) > 10:  # up to the children of the root
        if asker > 10:
            asker = (asker - 1) // 10
        if expert > 10:
            expert = (expert - 1) // 10
        if asker == expert:
            return 0
    return 2 if asker != expert else 0


def _round(swarm: Swarm, way: str, names: list[str], pairs: list[tuple[str, str]], rng: random.Random) -> int:
    """Ask at once; without a directory go on asking others until each question is answered. Return the answered."""
    left = [(pair, rng.sample(names, len(names)) if way == BLIND else []) for pair in pairs]
    good = 0
    while left:
        sent = []
        for (asker, subject), others in left:
            if way == BLIND:
                to = others.pop()
            else:
                known = [one.agent for one in who_knows(swarm.world, subject, exclude=(asker,), limit=64)]
                to = rng.choice(known) if known else ""
            sent.append(swarm.ask(asker, _QUESTION, to=to, subject=subject) if to and to != asker else 0)
        asyncio.run(swarm.run())
        answers = [swarm.answer(number) if number else None for number in sent]
        right = [mail is not None and mail.body == _ANSWER for mail in answers]
        good += sum(right)
        left = [one for one, done in zip(left, right, strict=True) if not done and one[1]]
    return good


def _measured(swarm: Swarm, questions: int, answered: int, routed: int) -> Load:
    load = handled(swarm)
    name = max(load, key=lambda one: (load[one], one))
    tokens = swarm.world.rows("SELECT sum(tokens) FROM mail WHERE recipient = ?", name)[0][0]
    fired = sum(event.agent == name for event in swarm.world.events("compacted"))
    return Load(
        answered, cost(swarm).messages / questions, load[name] / questions, tokens / questions, fired, name,
        load["a00000"] / questions, routed / questions,
    )  # fmt: skip


def loads(setting: Setting) -> Experiment:
    """Tree against mesh."""
    sizes = setting.pick((10, 30), (10, 100, 1000, 10_000))
    questions, few = setting.pick((30, 10), (300, 60))
    hot = setting.pick(30, 1000)  # the size at which cures for a hot expert are tried

    def run(way: str, demand: Demand) -> list[Load]:
        return setting.over(run_load, way, demand)

    cells: _Cells = {
        (f"{way}, {'Zipf' if zipf else 'uniform'}", size): run(way, Demand(size, questions, zipf))
        for size in sizes
        for zipf in (False, True)
        for way in (TREE, STRAIGHT)
    }
    cells |= {(f"{BLIND}, uniform", size): run(BLIND, Demand(size, few)) for size in sizes[:2]}
    cells[f"{STRAIGHT}, 8 replicas, Zipf", hot] = run(STRAIGHT, Demand(hot, questions, zipf=True, replicas=8))
    kept = Demand(hot, questions, zipf=True, cached=True)
    cells[f"{STRAIGHT}, answers kept by who asked, Zipf", hot] = run(STRAIGHT, kept)
    rows = tuple(
        (name, f"{size:,}", f"{each(found, 'messages'):.2f}", f"{each(found, 'busiest'):.3f}",
         f"{each(found, 'tokens'):.1f}", f"{each(found, 'compactions'):.1f}",
         f"{sum(one.name == 'a00000' for one in found)} of {len(found)}" if name.startswith(TREE) else "")
        for (name, size), found in cells.items()
    )  # fmt: skip
    lines = {"root of a tree": f"{TREE}, uniform", "busiest peer, uniform": f"{STRAIGHT}, uniform",
             "busiest peer, Zipf": f"{STRAIGHT}, Zipf"}  # fmt: skip
    series = {
        name: [(size, each(cells[line, size], "busiest").value) for size in sizes] for name, line in lines.items()
    }
    columns = ("way", "agents", "messages a question", "through the busiest", "its tokens a question",
               "its compactions", "that is the root")  # fmt: skip
    return Experiment(
        "load",
        f"{questions} questions between random agents; question 30 tokens, answer 60; ten children a node in the tree. "
        f"Without a directory peers are asked in random order ({few} questions, up to {sizes[1]} agents).",
        (Table("Load", columns, rows),),
        (Curve("load", "Messages through the busiest agent", "agents", "messages a question", series),),
        _claims(cells, sizes, hot),
    )


_Cells = dict[tuple[str, int], list[Load]]


def _claims(cells: _Cells, sizes: tuple[int, ...], hot: int) -> tuple[Claim, ...]:
    first, second, top = sizes[0], sizes[1], sizes[-1]
    roots = {size: cells[f"{TREE}, uniform", size] for size in sizes}
    worse = mean_of(b.busiest * top - 2 * a.busiest * first for a, b in zip(roots[first], roots[top], strict=True))
    plain = cells[f"{STRAIGHT}, uniform", hot]
    peers = {name: found for (name, size), found in cells.items() if size == hot and name.startswith(STRAIGHT)}
    spared = {name: against(found, "busiest", plain, 2) for name, found in peers.items() if "uniform" not in name}
    found = {name: each(cells[f"{name}, uniform", second], "messages") for name in (BLIND, STRAIGHT)}
    return (
        constructed(
            "A tree sends every conversation between branches through its root.",
            f"{each(roots[top], 'routed'):.2f} messages a question through the root of {top:,} agents, "
            f"{each(cells[f'{STRAIGHT}, uniform', top], 'busiest'):.3f} through the busiest peer of a mesh; the root "
            f"compacted {each(roots[top], 'compactions'):.1f} times: there is no other way",
            [(one.root, one.routed) for size in sizes[1:] for one in roots[size]],
        ),
        judge(
            "The more agents, the worse for the tree: if every agent asks once, more than twice as much passes the "
            "root.",
            ", ".join(f"{mean_of(one.busiest * size for one in found):,.0f} messages of {size:,} agents, "
                      f"{each(found, 'messages'):.1f} a question" for size, found in roots.items()),
            [above(worse, 0)],
        ),
        judge(
            "In a mesh no agent is a bottleneck (takes twice what the busiest takes where demand is uniform).",
            f"of {hot:,} agents the busiest takes, in messages a question: "
            + "; ".join(f"{name}: {each(one, 'busiest'):.3f}" for name, one in peers.items()),
            (below(one, 0) for one in spared.values()),
        ),
        judge(
            "Peers find each other and need no centre (fewer than four messages a question).",
            f"among {second} peers {found[BLIND]:.0f} messages a question without a directory, "
            f"{found[STRAIGHT]:.1f} with one, which is shared",
            (below(one, 4) for one in found.values()),
        ),
    )  # fmt: skip
