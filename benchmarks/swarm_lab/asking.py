"""A reducer that may ask the agent that made a trace, against one that has its reflection only.

Each agent has a trace of 20 facts in its window and writes a reflection with room for 5, before anyone knows which
facts the lessons need. Merging reflections is code and loses nothing more; what a reflection left out is lost, unless
the agent that made the trace can be asked.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from functools import partial

from benchmarks.swarm_lab.lab import Facts, averaged, cost, facts_in, hire, key_of, know, lab, path_of, read_told
from benchmarks.swarm_lab.result import Experiment, Setting, Table, judge
from combee.swarm.agents import Reply, View
from combee.swarm.context import Newest
from combee.swarm.swarm import Swarm

__all__ = ["Reduced", "asking", "reduce_traces"]

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

    def policy(view: View) -> Reply | str:
        if view.mail.kind == "tell":
            return read_told(view)
        key = view.mail.body
        return " ".join(facts.summary(view.text(), rng)[:ROOM]) if key == "reflect" else f"{key}={know(view, key)}"

    with lab(policy, facts, compaction=Newest()) as swarm:
        swarm.world.spawn("reducer", mode="outside", window=0)
        hire(swarm, agents, agents * FACTS)
        before = cost(swarm)
        book = _merged(swarm, [swarm.ask("reducer", "reflect", to=f"a{number:02d}") for number in range(agents)])
        if asks:
            lacking = [n for n in facts.needed if key_of(n) not in book]
            book |= _merged(swarm, [swarm.ask("reducer", key_of(n), subject=path_of(n)) for n in lacking])
        spent = cost(swarm) - before
    right = sum(book.get(key_of(n)) == facts.values[n] for n in facts.needed)
    return Reduced(right / len(facts.needed), spent.tokens / len(facts.needed))


def _merged(swarm: Swarm, sent: list[int]) -> dict[str, str]:
    """Return the facts that the answers hold."""
    asyncio.run(swarm.run())
    replies = [mail.body for number in sent if (mail := swarm.answer(number))]
    return {key: value for key, (value, _) in facts_in("\n".join(replies)).items()}


def asking(setting: Setting) -> Experiment:
    """A reducer that may ask the agent that made a trace."""
    sizes, shares = setting.pick((10,), (10, 100)), (0.0, 0.5, 1.0)
    cells = {
        (size, share, asks): averaged(partial(reduce_traces, size, share, asks=asks), setting.seeds)
        for size in sizes
        for share in shares
        for asks in (False, True)
    }
    rows = tuple(
        (str(size), f"{share:.0%}", "yes" if asks else "no", f"{found.kept:.1%}", f"{found.tokens:,.0f}")
        for (size, share, asks), found in cells.items()
    )
    pairs = {share: [cells[sizes[-1], share, asks].kept for asks in (False, True)] for share in shares}
    claim = judge(
        "Asking the agent that made a trace keeps what its summary left out.",
        "what the lessons need could not be foreseen: "
        + ", ".join(
            f"{told:.0%} kept without asking and {asked:.0%} with, at {share:.0%} foreseen"
            for share, (told, asked) in pairs.items()
        ),
        held=all(asked > told + 0.05 for told, asked in pairs.values()), partly=pairs[0.0][1] > pairs[0.0][0] + 0.05,
    )  # fmt: skip
    columns = ("agents", "foreseeable", "may ask", "needed facts kept", "tokens for each")
    setup = "Traces of 20 facts, reflections with room for 5, a tenth of the facts needed in the end; "
    return Experiment("asking", f"{setup}seeds: {len(setting.seeds)}.", (Table("Reduce", columns, rows),), (), (claim,))
