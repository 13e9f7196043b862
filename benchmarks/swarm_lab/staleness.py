"""Notes that rest on documents which have changed since, with and without stamps of the version read."""

from __future__ import annotations

import asyncio
import random

from benchmarks.swarm_lab.lab import WINDOW, Ask, Facts, ask_all, cost, facts_in, key_of, lab, path_of, reading
from benchmarks.swarm_lab.result import Experiment, Setting, Table, judge
from combee.swarm.agents import Reply, View, use
from combee.swarm.context import Newest
from combee.swarm.knowledge import publish
from combee.swarm.swarm import USER

__all__ = ["stale", "staleness"]

NOTES = 60


def _note_down(view: View) -> Reply | str:
    """Read the documents that were told, and remember each with its source."""
    results = view.results()
    if not results:
        return Reply(calls=(use("read", path=view.mail.body),))
    lines = results[0].text.split("\n")
    if not facts_in(lines[0]):
        return "noted"
    pairs = [(line, path_of(int(next(iter(facts_in(line)))[1:]))) for line in lines]
    return Reply(calls=tuple(use("remember", n, text=line[:20], path=path) for n, (line, path) in enumerate(pairs)))


def stale(changed: float, seed: int, *, stamps: bool) -> tuple[float, float]:
    """Return the share of right answers from notes, and tokens a question, when documents changed after the notes."""
    facts = Facts.draw(NOTES, seed)
    rng = random.Random(f"stale {seed} {changed}")

    def policy(view: View) -> Reply | str:
        if view.mail.kind == "tell":
            return _note_down(view)
        key, results = view.mail.body, view.results()
        if not results:
            return Reply(calls=(use("recall", query=key),))
        if stamps and "(stale" in results[-1].text:
            return Reply(calls=(use("read", path=path_of(int(key[1:]))),))
        found = facts_in(results[-1].text).get(key)
        return found[0] if found else "unknown"

    with lab(policy, facts, compaction=Newest(0.2)) as swarm:
        swarm.world.spawn("ann", window=WINDOW // 2, returns="none")
        for path in reading(0, NOTES):
            swarm.tell("ann", path)
        asyncio.run(swarm.run())
        now = list(facts.values)
        for number in rng.sample(range(NOTES), round(NOTES * changed)):
            now[number] = f"v{rng.randrange(100_000):05d}"
            publish(swarm.world, path_of(number), facts.document(number, now[number]), USER)
        before = cost(swarm)
        right = ask_all(swarm, [Ask("ann", key_of(n), now[n]) for n in range(NOTES)])
        return right / NOTES, (cost(swarm) - before).fresh / NOTES


def staleness(setting: Setting) -> Experiment:
    """Notes that rest on what has changed."""
    shares = setting.pick((0.3,), (0.0, 0.1, 0.3, 0.5))
    cells = {share: (stale(share, 0, stamps=False), stale(share, 0, stamps=True)) for share in shares}
    rows = tuple(
        (f"{share:.0%}", f"{without[0]:.1%}", f"{stamped[0]:.1%}", f"{without[1]:.0f}", f"{stamped[1]:.0f}")
        for share, (without, stamped) in cells.items()
    )
    worst = shares[-1]
    without, stamped = cells[worst]
    claim = judge(
        "Files on disk go stale unnoticed.",
        f"notes carry no stamp of the version read: {without[0]:.0%} right when {worst:.0%} has changed, "
        f"{stamped[0]:.0%} with stamps, for {stamped[1] - without[1]:.0f} more fresh tokens a question",
        held=without[0] < 0.99 and stamped[0] < 0.99, partly=without[0] < 0.99,
    )  # fmt: skip
    columns = ("changed", "right without stamps", "right with stamps", "fresh tokens without", "fresh tokens with")
    setup = f"{NOTES} notes; then documents change; each is asked for."
    return Experiment("staleness", setup, (Table("Stale notes", columns, rows),), (), (claim,))
