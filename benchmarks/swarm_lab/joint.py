"""Questions about everything at once: where the parts of a task compress to one number, and where they do not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.swarm_lab.capacity import largest, outcome
from benchmarks.swarm_lab.lab import WINDOW, Ask, Facts, facts_in, hire, key_of, lab, read_told
from benchmarks.swarm_lab.result import Curve, Experiment, Setting, Table, judge
from benchmarks.swarm_lab.ways import Way
from combee.swarm.agents import Reply, View, use
from combee.swarm.context import Refuse
from combee.swarm.swarm import Swarm

__all__ = ["joint", "joints"]


def joint(agents: int, *, compresses: bool) -> Way:
    """A question about all documents at once: the greatest key (parts give one fact), or which two values are equal.

    For the second every part has to send all its facts, for no part knows which of them matter.
    """

    def policy(view: View) -> Reply | str:
        mail = view.mail
        if mail.kind == "tell":
            return read_told(view)
        if view.agent.role == "lead":
            if mail.kind == "ask":
                calls = [use("ask", n, to=f"a{n:02d}", question="part") for n in range(agents)]
                return "waiting" if view.results() else Reply(calls=tuple(calls))
            return _together(view.text(), compresses=compresses)
        facts = [f"{key}={value}" for key, (value, _) in sorted(facts_in(view.text()).items())]
        return max(facts, default="") if compresses else " ".join(facts)

    @contextmanager
    def way(count: int, seed: int) -> Iterator[tuple[Swarm, list[Ask]]]:
        rng = random.Random(f"joint {seed}")
        values = [f"v{n:05d}" for n in rng.sample(range(100_000), count)]
        first, second = sorted(rng.sample(range(count), 2))
        values[second] = values[first]
        with lab(policy, Facts(tuple(values)), compaction=Refuse()) as swarm:
            hire(swarm, agents, count)
            swarm.world.spawn("lead", role="lead", mode="serial", window=WINDOW)
            yield swarm, [Ask("lead", "all", key_of(count - 1) if compresses else f"{key_of(first)} {key_of(second)}")]

    return way


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


def joints(setting: Setting) -> Experiment:
    """Questions about everything at once."""
    counts, steps = setting.pick(((24,), 2), ((2, 4, 8, 16, 32), 4))
    names = {"one number a part": True, "every fact of a part": False}
    found = {
        (name, n): largest(
            partial(outcome, joint(n, compresses=compresses)), 2 * n, (0,), start=n / 2, steps=steps
        ).size
        for name, compresses in names.items()
        for n in counts
    }
    small, large = ({n: found[name, n] for n in counts} for name in names)
    last = counts[-1]
    per_agent = small[last] / last, large[last] / last
    claim = judge(
        "Where the parts of a task do not compress, splitting it does not help.",
        f"what the parts must send no longer fits one window: {max(large.values()):.2f} windows at most however many "
        f"agents, against {small[last]:.2f} where each part is one number; below that size splitting helped",
        held=per_agent[1] < 0.5 and per_agent[0] > 0.8, partly=per_agent[1] < per_agent[0],
    )  # fmt: skip
    return Experiment(
        "joint",
        "A lead asks all agents. The last key (each part answers with one fact), or the two documents with equal "
        "values.",
        (
            Table(
                "Capacity in windows", ("agents", *names),
                tuple((str(n), f"{small[n]:.2f}", f"{large[n]:.2f}") for n in counts),
            ),
        ),
        (
            Curve(
                "joint", "Tasks about everything at once", "agents", "windows at 95 % right",
                {name: [(n, found[name, n]) for n in counts] for name in names},
            ),
        ),
        (claim,),
    )  # fmt: skip
