"""How much a task may hold: windows of text at which 95 % of the answers are still right, by way of keeping context.

A window is 100 documents; a summary is 1.6 % of it (1M to 16k). Facts take a tenth of a document when noted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from combee.swarm.brain import Policy, Thought, View, use
from combee.swarm.ledger import totals
from combee.swarm.measure.lab import (
    BATCH,
    DOCUMENT,
    SUMMARY,
    WINDOW,
    Facts,
    ask_all,
    facts_in,
    lab,
    path_of,
    reading,
)
from combee.swarm.memory import note
from combee.swarm.swarm import Swarm
from combee.swarm.window import Compaction, Entry, Refuse, Summarise, ToDisk

__all__ = ["Outcome", "chain", "disk", "fresh", "hire", "largest", "mesh", "persistent", "read_told"]

_PER_WINDOW = WINDOW // DOCUMENT
QUESTIONS = 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one size gave: share of right answers, tokens of thought a question, and how often compaction fired."""

    right: float
    tokens: float
    compactions: int


def largest(run: Callable[[int, int], Outcome], limit: float, seeds: Sequence[int]) -> tuple[float, Outcome, bool]:
    """Return the largest size, in windows, that is right to 95 %; what it gave; and whether the limit stopped us."""

    def good(size: float) -> Outcome | None:
        outcomes = [run(max(BATCH, round(size * _PER_WINDOW)), seed) for seed in seeds]
        mean = Outcome(
            sum(one.right for one in outcomes) / len(outcomes),
            sum(one.tokens for one in outcomes) / len(outcomes),
            round(sum(one.compactions for one in outcomes) / len(outcomes)),
        )
        return mean if mean.right >= 0.95 else None

    size, best = 0.25, good(0.25)
    if best is None:
        return 0.0, Outcome(0, 0, 0), False
    while size < limit and (found := good(min(size * 2, limit))) is not None:
        size, best = min(size * 2, limit), found
    if size >= limit:
        return size, best, True
    low, high = size, size * 2
    for _ in range(5):
        middle = (low + high) / 2
        found = good(middle)
        low, high, best = (middle, high, found) if found is not None else (low, middle, best)
    return low, best, False


def read_told(view: View) -> Thought | str:
    """Read the documents whose path was told."""
    return "ok" if view.results() else Thought(calls=(use("read", path=view.mail.body),))


def _know(view: View, key: str) -> str:
    found = facts_in(view.text()).get(key)
    return found[0] if found else "unknown"


def _reader(view: View) -> Thought | str:
    return read_told(view) if view.mail.kind == "tell" else _know(view, view.mail.body)


def _one(
    facts: Facts,
    seed: int,
    policy: Policy,
    compaction: Callable[[Swarm], Compaction] | None,
    question: Callable[[int], str],
) -> Outcome:
    """One agent reads everything in order, then is asked."""
    with lab(policy, facts) as swarm:
        if compaction is not None:
            swarm.compactions[""] = compaction(swarm)
        swarm.world.spawn("ann", window=WINDOW, returns="none")
        for path in reading(0, len(facts.values)):
            swarm.tell("ann", path)
        asyncio.run(swarm.run())
        before = totals(swarm.world)
        asked = facts.questions(QUESTIONS, seed)
        right = ask_all(swarm, [("ann", question(n), "", facts.values[n]) for n in asked])
        after = totals(swarm.world)
        spent = after.prompt + after.completion - before.prompt - before.completion
        return Outcome(right / len(asked), spent / len(asked), before.compactions)


def chain(foreseen: float, share: float) -> Callable[[int, int], Outcome]:
    """One agent that sums up: first what was seen to matter, then whatever the dice say."""

    def run(count: int, seed: int) -> Outcome:
        facts = Facts.draw(count, seed, share=share, foreseen=foreseen)
        rng = random.Random(f"summary {seed}")

        async def write(entries: Sequence[Entry], tokens: int) -> str:
            known = facts_in("\n".join(entry.text for entry in entries))
            order = sorted(known, key=lambda key: (not known[key][1], rng.random()))
            return "\n".join(f"{'!' if known[key][1] else ''}{key}={known[key][0]}" for key in order)

        return _one(facts, seed, _reader, lambda _: Summarise(write, SUMMARY), lambda n: f"k{n:05d}")

    return run


def disk(*, addressable: bool) -> Callable[[int, int], Outcome]:
    """One agent that writes all it read to notes. Not addressable: the question names nothing that a search could find.

    Then it can only read notes back, those its pointers lead to, until its window is full.
    """

    def keep(swarm: Swarm) -> Compaction:
        def write(agent: str, entry: Entry) -> str:
            lines = [line for line in entry.text.split("\n") if "=" in line]
            pointers = [note(swarm.world, agent, line) for line in lines]
            return " ".join(pointers[:1])

        return ToDisk(write, SUMMARY)

    def policy(view: View) -> Thought | str:
        if view.mail.kind == "tell":
            return read_told(view)
        key = view.mail.body if addressable else f"k{view.mail.body[::-1]}"
        known = _know(view, key)
        if known != "unknown":
            return known
        if addressable:
            return known if view.results() else Thought(calls=(use("recall", query=key),))
        return _scan(view)

    def run(count: int, seed: int) -> Outcome:
        facts = Facts.draw(count, seed)
        return _one(facts, seed, policy, keep, lambda n: f"k{n:05d}" if addressable else f"{n:05d}"[::-1])

    return run


def _scan(view: View) -> Thought | str:
    """Read the next notes back: from each pointer in the summary the notes behind it, the newest pointers first."""
    starts = [
        int(word[5:])
        for entry in view.entries
        if entry.kind == "summary"
        for word in entry.text.split()
        if word[5:].isdecimal()
    ]
    tried = sum(
        len(entry.calls)
        for entry in view.entries
        if entry.kind == "thought" and entry.mail is None and any(call.name == "recall" for call in entry.calls)
    )
    wanted = [start + more for start in starts for more in range(BATCH)][tried : tried + BATCH]
    if not wanted or view.room < BATCH * (DOCUMENT + 10):
        return "unknown"
    return Thought(calls=tuple(use("recall", number, query=f"note:{one}") for number, one in enumerate(wanted)))


def fresh(count: int, seed: int) -> Outcome:
    """For each question fresh agents read everything, a window each, and are gone; who asks holds only the answers."""
    facts = Facts.draw(count, seed)
    part = _PER_WINDOW - 2 * BATCH

    def policy(view: View) -> Thought | str:
        mail = view.mail
        if view.agent.mode == "once":
            key, first, end = mail.body.split()
            read = sum(len(entry.calls) for entry in view.entries)
            paths = reading(int(first), int(end))
            return _know(view, key) if read >= len(paths) else Thought(calls=(use("read", read, path=paths[read]),))
        if mail.kind == "answer":
            found = [entry.text.split(": ", 1)[1] for entry in view.entries if entry.kind == "answer"]
            return next((value for value in found if value != "unknown"), "unknown")
        if view.results():
            return "waiting"
        return Thought(calls=tuple(
            use("delegate", number, task=f"{mail.body} {at} {min(at + part, count)}")
            for number, at in enumerate(range(0, count, part))
        ))  # fmt: skip

    with lab(policy, facts) as swarm:
        swarm.world.spawn("ann", window=WINDOW, returns="none")
        asked = facts.questions(6, seed)
        right = ask_all(swarm, [("ann", f"k{n:05d}", "", facts.values[n]) for n in asked])
        sums = totals(swarm.world)
        return Outcome(right / len(asked), (sums.prompt + sums.completion) / len(asked), sums.compactions)


def hire(swarm: Swarm, agents: int, count: int) -> None:
    """Let agents read equal parts of the documents."""
    for number in range(agents):
        swarm.world.spawn(f"a{number:02d}", window=WINDOW, returns="none")
        for path in reading(number * count // agents, (number + 1) * count // agents):
            swarm.tell(f"a{number:02d}", path)
    asyncio.run(swarm.run())


def persistent(agents: int, *, one_at_a_time: bool = False) -> Callable[[int, int], Outcome]:
    """Agents that read a part each and stay; the directory says whom to ask."""

    def run(count: int, seed: int) -> Outcome:
        facts = Facts.draw(count, seed)
        with lab(_reader, facts, compaction=Refuse()) as swarm:
            hire(swarm, agents, count)
            return _asked(swarm, facts, seed, "", one_at_a_time=one_at_a_time)

    return run


def _asked(swarm: Swarm, facts: Facts, seed: int, to: str, *, one_at_a_time: bool = False) -> Outcome:
    before = totals(swarm.world)
    asked = facts.questions(QUESTIONS, seed)
    asks = [(to, f"k{n:05d}", path_of(n), facts.values[n]) for n in asked]
    right = ask_all(swarm, asks, one_at_a_time=one_at_a_time)
    after = totals(swarm.world)
    spent = after.prompt + after.completion - before.prompt - before.completion
    return Outcome(right / len(asked), spent / len(asked), after.compactions)


def mesh(agents: int) -> Callable[[int, int], Outcome]:
    """The same, but the questions come up among the agents: one of them is asked what another knows."""

    def policy(view: View) -> Thought | str:
        mail = view.mail
        if mail.kind == "tell":
            return read_told(view)
        if mail.kind in {"answer", "report"}:
            return mail.body
        known = _know(view, mail.body)
        if known != "unknown" or mail.hops:
            return known
        return "waiting" if view.results() else Thought(calls=(use("ask", question=mail.body, subject=mail.subject),))

    def run(count: int, seed: int) -> Outcome:
        facts = Facts.draw(count, seed)
        with lab(policy, facts, compaction=Refuse()) as swarm:
            hire(swarm, agents, count)
            before = totals(swarm.world)
            rng = random.Random(f"peers {seed}")
            asked = facts.questions(QUESTIONS, seed)
            asks = [(f"a{rng.randrange(agents):02d}", f"k{n:05d}", path_of(n), facts.values[n]) for n in asked]
            right = ask_all(swarm, asks)
            after = totals(swarm.world)
            spent = after.prompt + after.completion - before.prompt - before.completion
            return Outcome(right / len(asked), spent / len(asked), after.compactions)

    return run
