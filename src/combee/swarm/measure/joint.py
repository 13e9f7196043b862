"""Questions about everything at once: where the parts of a task compress to one number, and where they do not."""

from __future__ import annotations

import random
from collections.abc import Callable

from combee.swarm.brain import Thought, View, use
from combee.swarm.ledger import totals
from combee.swarm.measure.capacity import Outcome, hire, read_told
from combee.swarm.measure.lab import WINDOW, Facts, ask_all, facts_in, lab
from combee.swarm.window import Refuse

__all__ = ["joint"]


def joint(agents: int, *, compresses: bool) -> Callable[[int, int], Outcome]:
    """A question about all documents at once: the greatest value (parts give one number), or which two are equal.

    For the second every part has to send all its facts, for no part knows which of them matter.
    """

    def policy(view: View) -> Thought | str:
        mail = view.mail
        if mail.kind == "tell":
            return read_told(view)
        if view.agent.role == "lead":
            if mail.kind == "ask":
                calls = [use("ask", n, to=f"a{n:02d}", question="part") for n in range(agents)]
                return "waiting" if view.results() else Thought(calls=tuple(calls))
            return _together(view.text(), compresses=compresses)
        known = facts_in(view.text())
        if compresses:
            return max((f"{key}={value[0]}" for key, value in known.items()), default="")
        return " ".join(f"{key}={value[0]}" for key, value in sorted(known.items()))

    def run(count: int, seed: int) -> Outcome:
        drawn = Facts.draw(count, seed)
        rng = random.Random(f"joint {seed}")
        values = [f"v{n:05d}" for n in rng.sample(range(100_000), count)]
        first, second = rng.sample(range(count), 2)
        values[second] = values[first]
        facts = Facts(tuple(values), drawn.needed, frozenset())
        with lab(policy, facts, compaction=Refuse()) as swarm:
            hire(swarm, agents, count)
            swarm.world.spawn("lead", role="lead", mode="serial", window=WINDOW)
            before = totals(swarm.world)
            right = f"k{count - 1:05d}" if compresses else f"k{min(first, second):05d} k{max(first, second):05d}"
            found = ask_all(swarm, [("lead", "all", "", right)])
            after = totals(swarm.world)
            return Outcome(found, after.prompt + after.completion - before.prompt - before.completion, 0)

    return run


def _together(text: str, *, compresses: bool) -> str:
    known = facts_in(text)
    if compresses:
        return max(known, default="")
    seen: dict[str, str] = {}
    for key in sorted(known):
        other = seen.setdefault(known[key][0], key)
        if other != key:
            return f"{other} {key}"
    return "none"
