"""Where the load goes: through the root of a tree, or to whoever knows; and what a hot expert does to a mesh."""

from __future__ import annotations

import asyncio
import itertools
import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from combee.swarm.brain import View
from combee.swarm.directory import credit, who_knows
from combee.swarm.measure.lab import WINDOW, Facts, lab
from combee.swarm.structure import tree
from combee.swarm.swarm import Swarm

__all__ = ["Load", "demand", "run_load"]

_QUESTION = "What is known of this? " + "q" * 97  # 30 tokens
_ANSWER = "This is known: " + "a" * 225  # 60 tokens


@dataclass(frozen=True, slots=True)
class Load:
    """For one way and size: all per question but `compactions` (of the busiest agent).

    `busiest` are messages that the busiest agent took or sent on, `tokens` what they put into its context.
    """

    agents: int
    questions: int
    answered: int
    messages: float
    busiest: float
    tokens: float
    compactions: int
    busiest_name: str


def _subject(number: int) -> str:
    return f"topic-{number:05d}"


def demand(agents: int, rng: random.Random, *, zipf: bool) -> Callable[[], int]:
    """Return a source of topics, uniform or by Zipf's law (exponent 1)."""
    if not zipf:
        return lambda: rng.randrange(agents)
    sums = list(itertools.accumulate(1 / (rank + 1) for rank in range(agents)))
    order = list(range(agents))
    rng.shuffle(order)
    return lambda: order[min(bisect(sums, rng.random() * sums[-1]), agents - 1)]


def run_load(
    way: str, agents: int, questions: int, seed: int, *, zipf: bool = False, replicas: int = 1, cached: bool = False
) -> Load:
    """Send questions between agents that each know a topic, and see who carried what.

    Args:
        way: "tree" (ten children each; the way leads over the common ancestor), "directory" (straight to one who
            knows), or "no directory" (peers are asked in random order until one knows).
        agents: How many.
        questions: How many.
        seed: Same seed, same questions.
        zipf: Demand by Zipf's law.
        replicas: Agents that know each topic.
        cached: Who was answered knows the topic from then on, and can be asked.
    """
    rng = random.Random(f"load {seed} {agents}")

    def policy(view: View) -> str:
        if view.mail.kind == "answer":
            return view.mail.body
        knows = swarm.world.one(
            "SELECT 1 FROM reads WHERE agent = ? AND subject = ?",
            view.agent.fork_of or view.agent.name,
            view.mail.subject,
        )
        return _ANSWER if knows else "unknown"

    names = [f"a{number:05d}" for number in range(agents)]
    with lab(policy, Facts((), (), frozenset()), hop_limit=64) as swarm:
        with swarm.world.step():
            for number, name in enumerate(names):
                swarm.world.spawn(name, window=WINDOW, returns="none")
                for more in range(replicas):
                    credit(swarm.world, names[(number + more * 7) % agents], 1, _subject(number), "1")
        if way == "tree":
            swarm.structure = tree(names, 10)
        draw = demand(agents, rng, zipf=zipf)
        answered = 0
        for start in range(0, questions, 50):
            pairs = [(rng.randrange(agents), draw()) for _ in range(min(50, questions - start))]
            answered += _round(swarm, way, names, pairs, rng)
            if cached:
                with swarm.world.step():
                    for asker, topic in pairs:
                        credit(swarm.world, names[asker], 1, _subject(topic), "1")
        return _measured(swarm, agents, questions, answered)


def _round(swarm: Swarm, way: str, names: list[str], pairs: list[tuple[int, int]], rng: random.Random) -> int:
    open_pairs = [(names[asker], _subject(topic)) for asker, topic in pairs]
    tried: list[list[str]] = [rng.sample(names, len(names)) if way == "no directory" else [] for _ in pairs]
    good = 0
    while open_pairs:
        sent = []
        for at, (asker, subject) in enumerate(open_pairs):
            if way == "no directory":
                to = tried[at].pop()
            else:
                known = [one.agent for one in who_knows(swarm.world, subject, exclude=(asker,), limit=64)]
                to = rng.choice(known) if known else ""
            sent.append(swarm.ask(asker, _QUESTION, to=to, subject=subject) if to and to != asker else 0)
        asyncio.run(swarm.run())
        answers = [swarm.answer(number) if number else None for number in sent]
        right = [mail is not None and mail.body == _ANSWER for mail in answers]
        good += sum(right)
        left = [at for at, done in enumerate(right) if not done and tried[at]]
        open_pairs, tried = [open_pairs[at] for at in left], [tried[at] for at in left]
    return good


def _measured(swarm: Swarm, agents: int, questions: int, answered: int) -> Load:
    real = dict(swarm.world.rows("SELECT name, coalesce(fork_of, name) FROM agents"))
    load: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    total = 0
    for kind, recipient, size in swarm.world.rows("SELECT kind, recipient, tokens FROM mail"):
        total += 1
        if kind == "ask" or recipient == real[recipient]:
            load[real[recipient]] += 1
            tokens[real[recipient]] += size
    name, most = max(load.items(), key=lambda item: (item[1], item[0]))
    fired = sum(event.agent == name for event in swarm.world.events("compacted"))
    return Load(agents, questions, answered, total / questions, most / questions, tokens[name] / questions, fired, name)
