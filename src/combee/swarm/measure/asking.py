"""A reducer that may ask the agent that made a trace, against one that has its reflection only.

Each agent has a trace of 20 facts in its window and writes a reflection with room for 5, before anyone knows which
facts the lessons need. Merging reflections is code and loses nothing more; what a reflection left out is lost, unless
the agent that made the trace can be asked.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass

from combee.swarm.brain import Thought, View, use
from combee.swarm.ledger import totals
from combee.swarm.mail import Mail
from combee.swarm.measure.lab import WINDOW, Facts, facts_in, lab, path_of, reading
from combee.swarm.window import Newest

__all__ = ["Reduced", "reduce_traces"]

FACTS, ROOM = 20, 5


@dataclass(frozen=True, slots=True)
class Reduced:
    """Share of the needed facts that the reducer has in the end, and prompt and reply tokens for each."""

    kept: float
    tokens: float


def reduce_traces(agents: int, foreseen: float, seed: int, *, asks: bool) -> Reduced:
    """Let agents work, reflect, and reduce; then let the reducer fetch what a tenth of the facts are needed for."""
    facts = Facts.draw(agents * FACTS, seed, share=0.1, foreseen=foreseen)
    rng = random.Random(f"reflection {seed}")

    def policy(view: View) -> Thought | str:
        if view.mail.kind == "tell":
            return "done" if view.results() else Thought(calls=(use("read", path=view.mail.body),))
        known = facts_in(view.text())
        if view.mail.body != "reflect":
            found = known.get(view.mail.body)
            return f"{view.mail.body}={found[0]}" if found else "unknown"
        order = sorted(known, key=lambda key: (not known[key][1], rng.random()))
        return " ".join(f"{key}={known[key][0]}" for key in order[:ROOM])

    with lab(policy, facts, compaction=Newest()) as swarm:
        swarm.world.spawn("reducer", mode="outside", window=0)
        for number in range(agents):
            swarm.world.spawn(f"a{number:03d}", window=WINDOW, returns="none")
            for path in reading(number * FACTS, (number + 1) * FACTS):
                swarm.tell(f"a{number:03d}", path)
        asyncio.run(swarm.run())
        before = totals(swarm.world)
        sent = [swarm.ask("reducer", "reflect", to=f"a{number:03d}") for number in range(agents)]
        asyncio.run(swarm.run())
        book = _merged(swarm.answer(number) for number in sent)
        if asks:
            lacking = [n for n in facts.needed if f"k{n:05d}" not in book]
            sent = [swarm.ask("reducer", f"k{n:05d}", subject=path_of(n)) for n in lacking]
            asyncio.run(swarm.run())
            book |= _merged(swarm.answer(number) for number in sent)
        after = totals(swarm.world)
    right = sum(book.get(f"k{n:05d}") == facts.values[n] for n in facts.needed)
    spent = after.prompt + after.completion - before.prompt - before.completion
    return Reduced(right / len(facts.needed), spent / len(facts.needed))


def _merged(replies: Iterable[Mail | None]) -> dict[str, str]:
    return {key: value for mail in replies if mail for key, (value, _) in facts_in(mail.body).items()}
