"""Where the load goes: through the root of a tree, or to whoever knows; and what a hot expert does to a mesh."""

from __future__ import annotations

import asyncio
import itertools
import random
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.swarm_lab.lab import WINDOW, cost, handled, lab
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, judge
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
    """Per question: messages, those that the busiest agent took, what they put into its context; its compactions."""

    answered: int
    messages: float
    busiest: float
    tokens: float
    compactions: int
    name: str


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
        draw, answered = demand.topics(rng), 0
        for start in range(0, demand.questions, 50):
            pairs = [
                (names[rng.randrange(len(names))], _subject(draw())) for _ in range(min(50, demand.questions - start))
            ]
            answered += _round(swarm, way, names, pairs, rng)
            if demand.cached:
                with swarm.world.step():
                    for asker, subject in pairs:
                        credit(swarm.world, asker, 1, subject, "1")
        return _measured(swarm, demand.questions, answered)


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


def _measured(swarm: Swarm, questions: int, answered: int) -> Load:
    load = handled(swarm)
    name = max(load, key=lambda one: (load[one], one))
    tokens = swarm.world.rows("SELECT sum(tokens) FROM mail WHERE recipient = ?", name)[0][0]
    fired = sum(event.agent == name for event in swarm.world.events("compacted"))
    return Load(
        answered, cost(swarm).messages / questions, load[name] / questions, tokens / questions, fired, name
    )  # fmt: skip


def loads(setting: Setting) -> Experiment:
    """Tree against mesh."""
    sizes = setting.pick((10, 30), (10, 100, 1000, 10_000))
    questions, few = setting.pick((30, 10), (300, 60))
    cells = {
        (way, zipf, size): run_load(way, Demand(size, questions, zipf))
        for size in sizes
        for zipf in (False, True)
        for way in (TREE, STRAIGHT)
    }
    cells |= {(BLIND, False, size): run_load(BLIND, Demand(size, few)) for size in sizes[:2]}
    hot = setting.pick(30, 1000)  # the size at which cures for a hot expert are tried
    cures = {
        "8 replicas": run_load(STRAIGHT, Demand(hot, questions, zipf=True, replicas=8)),
        "answers kept by who asked": run_load(STRAIGHT, Demand(hot, questions, zipf=True, cached=True)),
    }
    named = [(f"{way}, {'Zipf' if zipf else 'uniform'}", size, load) for (way, zipf, size), load in cells.items()]
    named += [(f"{STRAIGHT}, {cure}, Zipf", hot, load) for cure, load in cures.items()]
    rows = tuple(
        (name, f"{size:,}", f"{load.messages:.2f}", f"{load.busiest:.3f}", f"{load.tokens:.1f}", f"{load.compactions}",
         "root" if name.startswith(TREE) and load.name == "a00000" else load.name)
        for name, size, load in named
    )  # fmt: skip
    lines = {"root of a tree": (TREE, False), "busiest peer, uniform": (STRAIGHT, False),
             "busiest peer, Zipf": (STRAIGHT, True)}  # fmt: skip
    series = {name: [(size, cells[*line, size].busiest) for size in sizes] for name, line in lines.items()}
    columns = ("way", "agents", "messages a question", "through the busiest", "its tokens a question",
               "its compactions", "busiest")  # fmt: skip
    return Experiment(
        "load",
        f"{questions} questions between random agents; question 30 tokens, answer 60; ten children a node in the tree. "
        f"Without a directory peers are asked in random order ({few} questions, up to {sizes[1]} agents).",
        (Table("Load", columns, rows),),
        (Curve("load", "Messages through the busiest agent", "agents", "messages a question", series),),
        _claims(cells, cures, (sizes[0], sizes[1], hot, sizes[-1]), questions),
    )


def _claims(
    cells: dict[tuple[str, bool, int], Load], cures: dict[str, Load], sizes: tuple[int, ...], questions: int
) -> tuple[Claim, ...]:
    first, second, third, top = sizes
    small, root = cells[TREE, False, first], cells[TREE, False, top]
    straight = cells[STRAIGHT, False, top]
    plain, hot = cells[STRAIGHT, False, third], cells[STRAIGHT, True, third]
    blind = cells[BLIND, False, second].messages
    cured = ", ".join(f"{name} {load.busiest:.3f}" for name, load in cures.items())
    return (
        judge(
            "A tree sends every conversation between branches through its root.",
            f"{root.busiest:.2f} messages a question through the root of {top:,} agents, {straight.busiest:.3f} "
            f"through the busiest peer of a mesh; the root compacted {root.compactions} times in {questions} questions",
            held=root.busiest > 1 and root.name == "a00000", partly=root.busiest > 10 * straight.busiest,
        ),
        judge(
            "The more agents, the worse for the tree.",
            f"if every agent asks once, {small.busiest * first:,.0f} messages pass the root of {first} agents and "
            f"{root.busiest * top:,.0f} that of {top:,}; a question takes {small.messages:.1f} and {root.messages:.1f} "
            "messages",
            held=root.busiest * top > 2 * small.busiest * first, partly=root.messages > 1.5 * small.messages,
        ),
        judge(
            "In a mesh no agent is a bottleneck.",
            f"demand is spread or the hot knowledge is: by Zipf's law the hot expert takes {hot.busiest:.3f} messages "
            f"a question of {third:,} agents (uniform {plain.busiest:.3f}); {cured}",
            held=hot.busiest < 2 * plain.busiest,
            partly=min(one.busiest for one in cures.values()) < hot.busiest / 2,
        ),
        judge(
            "Peers find each other and need no centre.",
            f"there is a directory, which is shared: {blind:.0f} messages a question among {second} peers without one, "
            f"{cells[STRAIGHT, False, second].messages:.1f} with it",
            held=blind < 4, partly=straight.messages < 4,
        ),
    )  # fmt: skip
