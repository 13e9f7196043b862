"""A small world for experiments: documents with one fact each, agents that read them, questions with a right answer.

All agents are scripted and honest: they know what stands in their window and nothing else. Everything passes through
the real runtime: mail, windows, compaction, directory, ledger.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from combee.swarm.brain import Policy, ScriptedBrain
from combee.swarm.directory import publish
from combee.swarm.swarm import USER, Swarm
from combee.swarm.window import Compaction
from combee.swarm.world import World

__all__ = ["BATCH", "DOCUMENT", "SUMMARY", "WINDOW", "Facts", "ask_all", "facts_in", "lab", "path_of", "reading"]

DOCUMENT = 40  # tokens of a document
WINDOW = 100 * DOCUMENT  # tokens of a window
SUMMARY = WINDOW * 16 // 1000  # tokens of a summary: 1M to 16k
BATCH = 10  # documents read by one use of the tool

_FACT = re.compile(r"(!?)(k\d{5})=(v\d{5})")


def facts_in(text: str) -> dict[str, tuple[str, bool]]:
    """Return the facts in a text: key to value, and whether it was seen to matter."""
    return {key: (value, bool(mark)) for mark, key, value in _FACT.findall(text)}


@dataclass(frozen=True, slots=True)
class Facts:
    """One fact a document. `needed` are those that will be asked for; some of them could be seen to matter."""

    values: tuple[str, ...]
    needed: tuple[int, ...]
    seen: frozenset[int]

    @classmethod
    def draw(cls, count: int, seed: int, *, share: float = 1.0, foreseen: float = 0.0) -> Facts:
        """Draw facts: each is needed with `share`, and of the needed ones `foreseen` are marked in the text."""
        rng = random.Random(f"facts {seed} {count}")
        values = tuple(f"v{rng.randrange(100_000):05d}" for _ in range(count))
        needed = sorted(rng.sample(range(count), max(1, round(count * share))))
        return cls(values, tuple(needed), frozenset(n for n in needed if rng.random() < foreseen))

    def document(self, number: int) -> str:
        """Return a document of exactly `DOCUMENT` tokens, with its line break."""
        fact = f"{'!' if number in self.seen else ''}k{number:05d}={self.values[number]} "
        return fact + "x" * (4 * DOCUMENT - 1 - len(fact))

    def questions(self, count: int, seed: int) -> list[int]:
        """Return numbers of needed facts to be asked for."""
        rng = random.Random(f"questions {seed}")
        return [rng.choice(self.needed) for _ in range(count)]


def path_of(number: int) -> str:
    """Return the path of a document."""
    return f"doc/{number:05d}"


def reading(first: int, end: int) -> list[str]:
    """Return the paths by which a range of documents is read, a batch each."""
    return [f"{path_of(at)}..{min(at + BATCH, end) - 1:05d}" for at in range(first, end, BATCH)]


@contextmanager
def lab(policy: Policy, facts: Facts, *, compaction: Compaction | None = None, **options: int) -> Iterator[Swarm]:
    """Open a world that is gone afterwards, with the documents published."""
    with tempfile.TemporaryDirectory(prefix="combee-lab-") as folder, World.open(Path(folder) / "w.sqlite") as world:
        compactions: Mapping[str, Compaction] = {"": compaction} if compaction else {}
        swarm = Swarm(world, {"": ScriptedBrain(policy)}, compactions=compactions, **options)  # type: ignore[arg-type]  # whole numbers
        with world.step():
            for number in range(len(facts.values)):
                publish(world, path_of(number), facts.document(number), USER)
        yield swarm


def ask_all(swarm: Swarm, asks: Sequence[tuple[str, str, str, str]], *, one_at_a_time: bool = False) -> int:
    """Ask (agent, question, subject, right answer); return how many answers are right."""
    sent: list[tuple[int, str]] = []
    for to, question, subject, right in asks:
        sent.append((swarm.ask(USER, question, to=to, subject=subject), right))
        if one_at_a_time:
            asyncio.run(swarm.run())
    asyncio.run(swarm.run())
    found = [(swarm.answer(number), right) for number, right in sent if number]
    return sum(mail is not None and mail.body == right for mail, right in found)
