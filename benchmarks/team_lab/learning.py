"""A team learns its lead's rules: traces of the train repositories through Combee, judged on held-out ones.

The reflector is a script that reads the joined trace alone. It overlooks things, words a lesson as it likes, and at
times draws the wrong conclusion; what the aggregation makes of that is what the lead gets.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.team_lab.meaning import meanings, stance
from benchmarks.team_lab.phrases import HELD_OUT, SEEN, Intent
from benchmarks.team_lab.play import BAD_OPTION, RETESTED, ROLES, Played, play
from benchmarks.team_lab.repositories import Broken
from combee.kernel.journal import Scope, hash_json
from combee.kernel.learn import Curator, LearnConfig, RecordedTraces, Reflection, learn
from combee.kernel.playbook import Playbook
from combee.redaction import Trace

__all__ = ["Arena", "Round", "TeamReflector", "faults", "learn_rules", "reworded", "stance_of"]


@dataclass(frozen=True, slots=True)
class TeamReflector:
    """Reads a joined trace and writes what the lead should do otherwise (`combee.kernel.learn.TraceReflector`).

    Attributes:
        seed: Decides what is overlooked and how lessons are worded.
        notices: Share of the faults in a trace that it notices.
        misled: Share of traces with working code and an editing lead from which it learns that editing is right.
    """

    seed: int = 0
    notices: float = 0.7
    misled: float = 0.15

    async def reflect_trace(self, trace: Trace, playbook: Playbook, scope: Scope) -> Reflection | None:
        """Return the lessons, or None where it saw no fault."""
        chance = random.Random(f"{self.seed} {trace.id}")
        found = [(intent, 1) for intent in faults(trace) if chance.random() < self.notices]
        tests = trace.outcome.tests if trace.outcome else {}
        works = Intent.NO_EDIT in faults(trace) and sum(tests.values()) >= 0.7 * len(tests)
        if works and chance.random() < self.misled:
            found = [(Intent.NO_EDIT, -1)]
        if not found:
            return None
        lessons = tuple(chance.choice(SEEN[meaning]) for meaning in found)
        identity = f"{trace.id}~{hash_json(list(lessons))[:8]}"
        detail = trace.outcome.detail if trace.outcome else ""
        text = "\n".join((detail, *lessons))
        task = trace.meta.get("task_id", trace.id)
        passed = trace.outcome.success if trace.outcome else None
        return Reflection(identity, trace.id, task, text, lessons, passed=passed, labels=trace.labels)


def faults(trace: Trace) -> list[Intent]:
    """Return what went wrong in a run, from the texts of its trace."""
    texts = [step.text for step in trace.steps]
    own = [step.text for step in trace.steps if step.agent is None]
    edited = any(re.match(r"\[commit \w+\] .*\((?!tests/)\S+\.py", text) for text in own)
    edited = edited or any("edited in the merge: " in text or "(production code)" in text for text in texts)
    tasks = {name: [t for t in texts if t.startswith("[task]") and f"(owner: {name}," in t] for name in _WORKERS}
    found = {
        Intent.NO_EDIT: edited,
        Intent.USE_DEV: not tasks[ROLES.devs[0]],
        Intent.USE_QA: not tasks[ROLES.testers[0]],
        Intent.SEND_LOG: bool(tasks[ROLES.devs[0]]) and not any("::test_" in text for text in tasks[ROLES.devs[0]]),
        Intent.WAIT_READY: any(_early(texts, name) for name in _WORKERS),
        Intent.MERGE_NAME: any(BAD_OPTION in text for text in texts),
        Intent.RETEST: any(" merged " in text for text in own) and not any(RETESTED in text for text in texts),
    }
    return [intent for intent, seen in found.items() if seen]


_WORKERS = (ROLES.devs[0], ROLES.testers[0])


def _early(texts: Sequence[str], agent: str) -> bool:
    merged = next((at for at, text in enumerate(texts) if f" merged {agent}" in text), None)
    said = next(
        (at for at, text in enumerate(texts) if text.startswith(f"[message] {agent}") and "READY" in text), None
    )
    return merged is not None and (said is None or said > merged)


def stance_of(book: Playbook) -> dict[Intent, int]:
    """Return what the lead makes of a playbook: a rule weighs as many reflections as it comes from."""
    return stance((bullet.text, max(1, len(bullet.sources))) for bullet in book)


def reworded(book: Playbook, seed: int, *, contrary: bool = False) -> list[tuple[str, int]]:
    """Return the rules of a book in held-out words with their weights; `contrary` turns the meaning of each around."""
    chance = random.Random(f"words {seed}")
    told: list[tuple[str, int]] = []
    for bullet in book:
        for intent, sign in meanings(bullet.text).items():
            phrasings = HELD_OUT[intent, -sign if contrary else sign]
            told.append((chance.choice(phrasings), max(1, len(bullet.sources))))
    return told


@dataclass
class Arena:
    """Plays teams on repositories. A run is decided by repository, stance and tools, so equal ones are played once."""

    workers: int = 2
    known: dict[tuple[object, ...], Played] = field(default_factory=dict)

    def run(
        self, repositories: Sequence[Broken], stance: Mapping[Intent, int], *, edit_tool: bool = True
    ) -> list[Played]:
        """Return one run for each repository, in order."""
        shape = tuple(sorted(stance.items())), edit_tool
        new = [one for one in repositories if (one.seed, *shape) not in self.known]

        def one_run(broken: Broken) -> Played:
            with tempfile.TemporaryDirectory() as folder:
                return play(broken, Path(folder) / "run", stance, edit_tool=edit_tool)

        with ThreadPoolExecutor(self.workers) as pool:
            for broken, played in zip(new, pool.map(one_run, new), strict=True):
                self.known[broken.seed, *shape] = played
        return [self.known[one.seed, *shape] for one in repositories]


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the book the teams worked with, their runs, and what was learned from them."""

    before: Playbook
    played: tuple[Played, ...]
    after: Playbook

    @property
    def score(self) -> float:
        """Mean total score on the train repositories, with the book from before."""
        return sum(one.score.total for one in self.played) / len(self.played)


def learn_rules(
    train: Sequence[Broken],
    curator: Curator,
    arena: Arena,
    *,
    rounds: int = 4,
    seed: int = 0,
    aggregate: str = "combee",
) -> Iterator[Round]:
    """Play, learn, play again: faults that one rule hid come to light once it is followed."""
    book = Playbook()
    for number in range(rounds):
        played = arena.run(train, stance_of(book))
        reflector = RecordedTraces(TeamReflector(seed=seed * 1000 + number))
        config = LearnConfig(batch=len(train), seed=seed, token_budget=4_000, aggregate=aggregate)
        traces = [one.trace for one in played]
        result = asyncio.run(learn(traces, reflector, curator, config=config, start=book))
        yield Round(book, tuple(played), result.last)
        book = result.last
