"""Ways of keeping context: each makes agents that have read the documents, and the questions that they can be asked.

A window is 100 documents; a summary is 1.6 % of it (1M to 16k) unless said otherwise. Facts take a tenth of a document
when noted. A way is used as `with way(documents, seed) as (swarm, asks)`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

from benchmarks.swarm_lab.drivers import ToDisk
from benchmarks.swarm_lab.lab import (
    BATCH,
    DOCUMENT,
    SUMMARY,
    WINDOW,
    Ask,
    Facts,
    hire,
    key_of,
    know,
    lab,
    path_of,
    read_told,
    reading,
)
from combee.swarm.agents import Policy, Reply, View, use
from combee.swarm.context import Compaction, Entry, Newest, Refuse, Summarise, whole_lines
from combee.swarm.knowledge import note
from combee.swarm.swarm import Swarm

__all__ = ["FRESH", "PER_WINDOW", "QUESTIONS", "Way", "chain", "disk", "fresh", "mesh", "persistent", "reports"]

PER_WINDOW = WINDOW // DOCUMENT
QUESTIONS = 40

Way = Callable[[int, int], AbstractContextManager[tuple[Swarm, list[Ask]]]]
Told = Literal["nothing", "part", "document"]


def _reader(view: View) -> Reply | str:
    return read_told(view) if view.mail.kind == "tell" else know(view, view.mail.body)


def _asks(facts: Facts, seed: int, to: Callable[[int], str], form: Callable[[int], str] = key_of) -> list[Ask]:
    return [Ask(to(n), form(n), facts.values[n], path_of(n)) for n in facts.questions(QUESTIONS, seed)]


def chain(foreseen: float, share: float, summary: int = SUMMARY) -> Way:
    """One agent that sums up: first what was seen to matter, then whatever the dice say."""

    @contextmanager
    def way(count: int, seed: int) -> Iterator[tuple[Swarm, list[Ask]]]:
        facts = Facts.draw(count, seed, share=share, foreseen=foreseen)
        rng = random.Random(f"summary {seed}")

        async def write(entries: Sequence[Entry], tokens: int) -> str:
            return "\n".join(facts.summary("\n".join(entry.text for entry in entries), rng))

        with lab(_reader, facts, compaction=Summarise(write, summary)) as swarm:
            hire(swarm, 1, count)
            yield swarm, _asks(facts, seed, lambda _: "a00")

    return way


def disk(*, addressable: bool) -> Way:
    """One agent that writes all it read to notes. Not addressable: the question names nothing that a search could find.

    Then it can only read notes back, those its pointers lead to, until its window is full.
    """

    def policy(view: View) -> Reply | str:
        if view.mail.kind == "tell":
            return read_told(view)
        key = view.mail.body if addressable else f"k{view.mail.body[::-1]}"
        known = know(view, key)
        if known != "unknown":
            return known
        if addressable:
            return known if view.results() else Reply(calls=(use("recall", query=key),))
        return _scan(view)

    @contextmanager
    def way(count: int, seed: int) -> Iterator[tuple[Swarm, list[Ask]]]:
        facts = Facts.draw(count, seed)
        with lab(policy, facts) as swarm:
            swarm.compactions[""] = _to_notes(swarm)
            hire(swarm, 1, count)
            yield swarm, _asks(facts, seed, lambda _: "a00", key_of if addressable else lambda n: f"{n:05d}"[::-1])

    return way


def _to_notes(swarm: Swarm) -> Compaction:
    def write(agent: str, entry: Entry) -> str:
        lines = [line for line in entry.text.split("\n") if "=" in line]
        return " ".join([note(swarm.world, agent, line) for line in lines][:1])

    return ToDisk(write, SUMMARY)


def _scan(view: View) -> Reply | str:
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
    return Reply(calls=tuple(use("recall", number, query=f"note:{one}") for number, one in enumerate(wanted)))


_PART = PER_WINDOW - 2 * BATCH  # documents that a sub-agent reads


def _sub_agent(view: View, done: Callable[[str], str]) -> Reply | str:
    """Read the part that the task names (`what first end`), then say what there is to say."""
    what, first, end = view.current.body.split() if view.current else ("", "0", "0")
    read = sum(len(entry.calls) for entry in view.entries)
    paths = reading(int(first), int(end))
    return done(what) if read >= len(paths) else Reply(calls=(use("read", read, path=paths[read]),))


def _delegate(what: str, count: int, only: int | None = None) -> Reply:
    """Give the parts of the documents, or the one that a document lies in, to a sub-agent each."""
    starts = range(0, count, _PART) if only is None else (only - only % _PART,)
    return Reply(
        calls=tuple(use("delegate", n, task=f"{what} {at} {min(at + _PART, count)}") for n, at in enumerate(starts))
    )


def fresh(told: Told = "nothing") -> Way:
    """For each question fresh agents read, a window each, and are gone; who asks holds only the answers.

    Told nothing they read everything; else only the part (four fifths of a window) that the path with the question
    leads to, as it leads to the agent that has read it where agents stay; or only that document.
    """

    @contextmanager
    def way(count: int, seed: int) -> Iterator[tuple[Swarm, list[Ask]]]:
        facts = Facts.draw(count, seed)

        def policy(view: View) -> Reply | str:
            if view.agent.mode == "once":
                return _sub_agent(view, lambda key: know(view, key))
            if view.mail.kind == "answer":
                found = [entry.text.split(": ", 1)[1] for entry in view.entries if entry.kind == "answer"]
                return next((value for value in found if value != "unknown"), "unknown")
            if view.results():
                return "waiting"
            key = view.mail.body
            if told == "nothing":
                return _delegate(key, count)
            number = int(view.mail.subject.rpartition("/")[2])
            if told == "document":
                return Reply(calls=(use("delegate", task=f"{key} {number} {number + 1}"),))
            return _delegate(key, count, number)

        with lab(policy, facts) as swarm:
            hire(swarm, 1, 0)
            yield swarm, _asks(facts, seed, lambda _: "a00")

    return way


FRESH: dict[str, Way] = {
    "fresh sub-agents": fresh(),
    "fresh sub-agents, told the part": fresh("part"),
    "fresh sub-agents, told the document": fresh("document"),
}


def reports(foreseen: float, share: float, summary: int = SUMMARY) -> Way:
    """Sub-agents read a window each and report once, before the questions are known; a lead keeps their reports."""

    @contextmanager
    def way(count: int, seed: int) -> Iterator[tuple[Swarm, list[Ask]]]:
        facts = Facts.draw(count, seed, share=share, foreseen=foreseen)
        rng = random.Random(f"report {seed}")

        def policy(view: View) -> Reply | str:
            if view.agent.mode == "once":
                return _sub_agent(view, lambda _: whole_lines(facts.summary(view.text(), rng), summary))
            if view.mail.kind == "ask":
                return know(view, view.mail.body)
            if view.mail.kind == "answer" or view.results():
                return "ok"
            return _delegate("report", count)

        with lab(policy, facts, compaction=Newest(), max_asks=10**6) as swarm:
            hire(swarm, 1, 0)
            swarm.tell("a00", "begin")
            asyncio.run(swarm.run())
            yield swarm, _asks(facts, seed, lambda _: "a00")

    return way


def persistent(agents: int, rot: float = 0.0) -> Way:
    """Agents that read a part each and stay; the directory says whom to ask. `rot`: see `know`."""

    def policy(view: View) -> Reply | str:
        return read_told(view) if view.mail.kind == "tell" else know(view, view.mail.body, rot)

    return _kept(agents, policy, lambda rng: "")


def mesh(agents: int) -> Way:
    """The same, but the questions come up among the agents: one of them is asked what another knows."""

    def policy(view: View) -> Reply | str:
        mail = view.mail
        if mail.kind == "tell":
            return read_told(view)
        if mail.kind in {"answer", "report"}:
            return mail.body
        known = know(view, mail.body)
        if known != "unknown" or mail.hops:
            return known
        return "waiting" if view.results() else Reply(calls=(use("ask", question=mail.body, subject=mail.subject),))

    return _kept(agents, policy, lambda rng: f"a{rng.randrange(agents):02d}")


def _kept(agents: int, policy: Policy, to: Callable[[random.Random], str]) -> Way:
    @contextmanager
    def way(count: int, seed: int) -> Iterator[tuple[Swarm, list[Ask]]]:
        facts = Facts.draw(count, seed)
        rng = random.Random(f"peers {seed}")
        with lab(policy, facts, compaction=Refuse()) as swarm:
            hire(swarm, agents, count)
            yield swarm, _asks(facts, seed, lambda _: to(rng))

    return way
