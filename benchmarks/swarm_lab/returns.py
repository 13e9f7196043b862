"""How roles arise: what a copy that answered brings back to the agent it is a copy of."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial

from benchmarks.swarm_lab.lab import WINDOW, Ask, Facts, ask_all, averaged, cost, facts_in, key_of, lab
from benchmarks.swarm_lab.result import Experiment, Setting, Table, judge
from combee.swarm.agents import Reply, View, use
from combee.swarm.context import Newest
from combee.swarm.knowledge import publish, who_knows
from combee.swarm.swarm import USER
from combee.swarm.world import Returns

__all__ = ["Grown", "returns", "specialise"]

TOPICS, AGENTS, EACH = 6, 12, 20


@dataclass(frozen=True, slots=True)
class Grown:
    """`cold`: share of questions for which documents had to be read; `entropy`: of who answers a topic, 0 to 1."""

    right: float
    cold: float
    entropy: float
    tokens: float
    fresh: float
    compactions: float


def specialise(kind: Returns, questions: int, seed: int) -> Grown:
    """Ask about topics that nobody knows at first; whoever is asked first and cannot answer reads the topic."""
    facts = Facts.draw(TOPICS * EACH, seed)
    rng = random.Random(f"topics {seed}")

    def policy(view: View) -> Reply | str:
        key, topic = view.mail.body.split()
        known = facts_in(view.text()).get(key)
        if known or view.results():
            return known[0] if known else "unknown"
        return Reply(calls=(use("read", path=f"t{topic}/00000..{EACH - 1:05d}"),))

    with lab(policy, compaction=Newest(0.5), digest_tokens=40) as swarm:
        with swarm.world.step():
            for number in range(TOPICS * EACH):
                publish(swarm.world, f"t{number // EACH}/{number % EACH:05d}", facts.document(number), USER)
            for number in range(AGENTS):
                swarm.world.spawn(f"a{number:02d}", window=WINDOW // 2, returns=kind)
        right = 0
        who: dict[int, Counter[str]] = defaultdict(Counter)
        for _ in range(questions):
            number = rng.randrange(TOPICS * EACH)
            topic, subject = number // EACH, f"t{number // EACH}/{number % EACH:05d}"
            known = who_knows(swarm.world, subject, limit=1)
            to = known[0].agent if known else f"a{rng.randrange(AGENTS):02d}"
            who[topic][to] += 1
            right += ask_all(swarm, [Ask(to, f"{key_of(number)} {topic}", facts.values[number], subject)])
        spent = cost(swarm)
        cold = swarm.world.rows("SELECT count(*) FROM context WHERE kind = 'result' AND agent LIKE '%~%'")[0][0]
    spread = sum(_entropy(counts) for counts in who.values()) / len(who) / math.log(AGENTS)
    return Grown(
        right / questions, cold / questions, spread, spent.tokens / questions, spent.fresh / questions,
        spent.compactions,
    )  # fmt: skip


def _entropy(counts: Counter[str]) -> float:
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values())


def returns(setting: Setting) -> Experiment:
    """What copies bring back."""
    questions = setting.pick(40, 240)
    kinds: tuple[Returns, ...] = ("none", "digest", "full")
    grown = {kind: averaged(partial(specialise, kind, questions), setting.seeds) for kind in kinds}
    rows = tuple(
        (kind, f"{one.right:.1%}", f"{one.cold:.1%}", f"{one.entropy:.2f}", f"{one.tokens:,.0f}", f"{one.fresh:,.0f}",
         f"{one.compactions:.1f}")
        for kind, one in grown.items()
    )  # fmt: skip
    none, digest, full = (grown[kind] for kind in kinds)
    claims = (
        judge(
            "Roles arise by themselves: who happened to look first is asked again.",
            "something of an answer comes back to the agent, so that the directory knows of it: entropy of who answers "
            f"a topic {none.entropy:.2f} with nothing, {digest.entropy:.2f} with a digest, {full.entropy:.2f} in full",
            held=none.entropy < 0.3, partly=digest.entropy < 0.3,
        ),
        judge(
            "Every answer makes an expert better at its field.",
            f"what a copy read comes back in full: documents had to be read for {full.cold:.0%} of the questions, with "
            f"a digest for {digest.cold:.0%}, with nothing for {none.cold:.0%}",
            held=digest.cold < 0.5 * none.cold, partly=full.cold < 0.5 * none.cold,
        ),
    )  # fmt: skip
    columns = ("return", "right", "cold starts", "entropy of roles", "tokens a question", "fresh tokens", "compactions")
    setup = f"12 agents, 6 topics of 20 documents, nobody knows anything at first; {questions} questions, "
    return Experiment("returns", f"{setup}seeds: {len(setting.seeds)}.", (Table("Return", columns, rows),), (), claims)
