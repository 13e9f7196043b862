"""A run that goes on from a snapshot ends with the bytes of one that was never stopped, or replays where it cannot."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from combee.errors import CallError, CallErrorKind
from combee.kernel.guard import Policy
from combee.kernel.journal import JOURNAL_NAME, Journal, Scope
from combee.kernel.journal.scope import BoundScope
from combee.kernel.learn import (
    Event,
    Judge,
    LearnConfig,
    LearnResult,
    LiveTasks,
    Reflection,
    Rollout,
    RunStarted,
    SampleDone,
    Task,
    evaluate,
    forget_snapshot,
    learn,
    snapshot,
)
from combee.kernel.learn.snapshot import KEY
from combee.kernel.playbook import Delta, Playbook, digest
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.lexical.agent import LexicalMethod
from combee.tasks import TaskSet, load


class KilledError(Exception):
    """Stands for a kill: nothing of the run's own catches it."""


@dataclass
class Agent(LexicalGenerator):
    """The embedded agent; it fails for a sample before a step, and kills the run at a call."""

    fails_before: dict[str, int] = field(default_factory=dict)
    kill_at: int = -1
    calls: int = 0

    fingerprint = "the embedded agent, with faults"

    def __post_init__(self) -> None:
        super().__init__()

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        self.calls += 1
        if self.calls == self.kill_at:
            raise KilledError
        assert isinstance(scope, BoundScope)
        if scope.place.step < self.fails_before.get(task.id, 0):
            raise CallError("the line is down", kind=CallErrorKind.CONNECTION)
        return await super().generate(task, playbook, scope)


class Unreadable(LexicalMethod):
    """A method that can read no leaf."""

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        raise CallError("cannot be read", kind=CallErrorKind.CONNECTION)


class Flaky(LexicalCurator):
    """The embedded curator, which can read nothing at one step: its reflections wait for the next."""

    fingerprint = "the embedded curator, with faults"

    def method(self, playbook: Playbook, scope: Scope) -> Any:
        assert isinstance(scope, BoundScope)
        return Unreadable(self, scope.address) if scope.place.step == 2 else super().method(playbook, scope)


@pytest.fixture(scope="module")
def tags() -> TaskSet:
    return load("tags", sizes=(36, 8, 0))


@pytest.fixture(autouse=True)
def _at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "EVERY", 1)


CONFIGS = {
    "plain": LearnConfig(batch=6, guard=False),
    "guarded, two epochs, shuffled": LearnConfig(batch=7, epochs=2, shuffle=True, eval_every=10),
    "pace": LearnConfig(batch="auto", candidates=(2, 3, 4), guard_validate=True),
    "scored": LearnConfig(batch=6, guard_validate=True, guard=True),
    "quorum": LearnConfig(batch=6, quorum=0.8, pipeline=False),
    "naive, evicting": LearnConfig(batch=9, aggregate="naive", token_budget=300, on_full="evict", guard=True),
}


def run(
    tags: TaskSet,
    folder: Path,
    config: LearnConfig,
    *,
    kill_at: int = -1,
    judge: Judge | None = None,
    faults: bool = True,
) -> tuple[LearnResult | None, list[Event], int]:
    """Run or go on; return the result (None: it was killed), what was told, and the results bought."""
    train = [Task(task.id, task.question, task.target, {"tenant": "a"}) for task in tags.train]
    names = [task.id for task in train]
    agent = Agent({names[4]: 2, names[20]: 4, names[9]: 1_000} if faults else {}, kill_at)
    curator = Flaky() if faults else LexicalCurator()
    events: list[Event] = []
    judge = judge or Judge(enabled=bool(config.guard))

    async def score(book: Playbook, scope: Scope) -> Any:
        return await evaluate(agent, tags.val, tags.scorer, book, scope=scope)

    if config.guard_validate:
        judge.validate = score
    roles = LiveTasks(agent, LexicalReflector(), tags.scorer)
    with Journal.open(folder) as journal:
        try:
            going = learn(
                train, roles, curator, config=config, judge=judge, journal=journal, validate=score,
                observe=events.append,
            )  # fmt: skip
            return asyncio.run(going), events, journal.stats().bought
        except KilledError:
            return None, events, journal.stats().bought


def content(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a journal says of a run, without the times at which and the order in which it was written."""
    queries = {
        "versions": "SELECT digest, parent, epoch, step, delta, data FROM versions ORDER BY id",
        "books": "SELECT digest, sha256 FROM books ORDER BY digest",
        "labels": "SELECT label, digest FROM moves ORDER BY id",
        "events": "SELECT key, data FROM events WHERE key IS NOT NULL ORDER BY key",
        "decisions": "SELECT epoch, step, path, name, value FROM decisions WHERE name != 'seconds' ORDER BY key",
        "results": "SELECT epoch, step, path, role, item, attempt, inputs, value FROM results ORDER BY key",
    }
    with closing(sqlite3.connect(folder / JOURNAL_NAME)) as file:
        found = {name: file.execute(query).fetchall() for name, query in queries.items()}
    return {name: [_without_times(row) for row in rows] for name, rows in found.items()}


def _without_times(row: tuple[Any, ...]) -> tuple[Any, ...]:
    if row and isinstance(row[-1], str) and '"seconds"' in row[-1]:
        data = json.loads(row[-1])
        data.pop("seconds")
        return (*row[:-1], json.dumps(data, sort_keys=True))
    return row


def samples_told(events: list[Event]) -> int:
    return sum(isinstance(event, SampleDone) for event in events)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in {"pace", "quorum"}])
def test_killed_anywhere_and_resumed_it_ends_with_the_bytes_of_a_run_that_was_never_stopped(
    tags: TaskSet, tmp_path: Path, name: str
) -> None:
    config = CONFIGS[name]
    whole, _, bought = run(tags, tmp_path / "whole", config)
    assert whole is not None
    for kill_at in range(3, bought // 2, max(1, bought // 14)):
        folder = tmp_path / f"killed-{kill_at}"
        assert run(tags, folder, config, kill_at=kill_at)[0] is None
        run(tags, folder, config, kill_at=kill_at // 2 or 1)  # and once more, soon
        resumed, _, _ = run(tags, folder, config, faults=True)
        assert resumed is not None
        assert digest(resumed.last) == digest(whole.last)
        assert digest(resumed.best) == digest(whole.best)
        assert resumed.unlearned == whole.unlearned
        assert [(v.seen, v.hits, v.version) for v in resumed.validations] == [
            (v.seen, v.hits, v.version) for v in whole.validations
        ]
        assert [step.version for step in resumed.steps] == [step.version for step in whole.steps]


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_finished_run_is_opened_without_looking_at_a_sample_and_replayed_whole_on_demand(
    tags: TaskSet, tmp_path: Path, name: str
) -> None:
    config = CONFIGS[name]
    whole, told, _ = run(tags, tmp_path, config)
    before = content(tmp_path)
    again, events, more = run(tags, tmp_path, config)
    assert (again, more, samples_told(events)) == (whole, 0, 0)
    started = next(event for event in events if isinstance(event, RunStarted))
    assert started.done == sum(isinstance(event, SampleDone) and event.error is None for event in told)
    with Journal.open(tmp_path) as journal:
        forget_snapshot(journal)
    replayed, events, more = run(tags, tmp_path, config)
    assert (replayed, more) == (whole, 0)
    assert samples_told(events) >= len(tags.train)
    assert content(tmp_path) == before


@pytest.mark.parametrize("more", [{}, {"guard_validate": True}])
def test_what_is_stored_after_a_kill_is_what_an_uninterrupted_run_stores(
    tags: TaskSet, tmp_path: Path, more: dict[str, Any]
) -> None:
    config = LearnConfig(batch=6, epochs=2, **more)
    run(tags, tmp_path / "whole", config, faults=False)
    run(tags, tmp_path / "killed", config, kill_at=90 if more else 60, faults=False)
    _, events, _ = run(tags, tmp_path / "killed", config, faults=False)
    assert 0 < samples_told(events) < 2 * len(tags.train)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_epochs_may_be_added_after_a_snapshot(tags: TaskSet, tmp_path: Path) -> None:
    run(tags, tmp_path / "grown", LearnConfig(batch=6))
    grown, events, _ = run(tags, tmp_path / "grown", LearnConfig(batch=6, epochs=2))
    whole, _, _ = run(tags, tmp_path / "whole", LearnConfig(batch=6, epochs=2))
    assert grown is not None
    assert whole is not None
    assert (grown.last, grown.best, grown.validations) == (whole.last, whole.best, whole.validations)
    assert samples_told(events) < 2 * len(tags.train)


def test_labels_of_samples_before_the_snapshot_still_decide(tags: TaskSet, tmp_path: Path) -> None:
    def strict() -> Judge:
        return Judge(policy=Policy(tenants=frozenset({"a"})))

    config = LearnConfig(batch=6, near=0.5)
    whole, _, _ = run(tags, tmp_path / "whole", config, judge=strict())
    run(tags, tmp_path / "killed", config, judge=strict(), kill_at=30)
    resumed, _, _ = run(tags, tmp_path / "killed", config, judge=strict())
    assert whole is not None
    assert resumed is not None
    assert len(whole.last) > 10
    assert resumed.last == whole.last


def test_a_policy_that_lets_in_other_samples_is_noticed(
    tags: TaskSet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = LearnConfig(batch=6)
    half = Policy(tenants=frozenset({"a"}))
    samples = [Task(one.id, one.question, one.target, {"tenant": "ab"[n % 2]}) for n, one in enumerate(tags.train)]
    roles = LiveTasks(LexicalGenerator(), LexicalReflector(), tags.scorer)
    books = []
    for folder, policies in (("changed", [half, Policy()]), ("open", [Policy()])):
        for policy in policies:
            with Journal.open(tmp_path / folder) as journal:
                going = learn(
                    samples, roles, LexicalCurator(), config=config, judge=Judge(policy=policy), journal=journal
                )
                books.append(asyncio.run(going).last)
    assert "other samples may be learned from" in caplog.text
    assert {source.partition("~")[0] for b in books[1] for source in b.sources} == {
        source.partition("~")[0] for b in books[2] for source in b.sources
    }


DAMAGES = [
    "UPDATE meta SET value = replace(value, '\"seen\":', '\"seen\":1') WHERE key = 'snapshot'",
    "UPDATE meta SET value = '{}' WHERE key = 'snapshot'",
    "UPDATE meta SET value = '[1]' WHERE key = 'snapshot'",
    "DELETE FROM events WHERE key = (SELECT max(key) FROM events WHERE kind = 'StepFinished')",
    "UPDATE events SET data = replace(data, '\"hits\":', '\"hits\":1') WHERE kind = 'StepFinished'",
]


@pytest.fixture
def killed(tags: TaskSet, tmp_path: Path) -> Path:
    folder = tmp_path / "killed"
    run(tags, folder, CONFIGS["plain"], kill_at=25)
    return folder


@pytest.mark.parametrize("statement", DAMAGES)
def test_a_damaged_snapshot_is_noticed_and_the_run_is_replayed_whole(
    tags: TaskSet, tmp_path: Path, killed: Path, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole, _, _ = run(tags, tmp_path / "whole", CONFIGS["plain"])
    with closing(sqlite3.connect(killed / JOURNAL_NAME)) as file, file:
        file.execute(statement)
    resumed, events, _ = run(tags, killed, CONFIGS["plain"])
    assert "is replayed from its first step" in caplog.text
    assert samples_told(events) >= len(tags.train)
    assert whole is not None
    assert resumed is not None
    assert resumed.last == whole.last
    with Journal.open(killed) as journal:
        assert journal.meta(KEY) is not None  # a sound one has taken its place


def test_without_a_journal_nothing_is_kept_and_a_long_run_keeps_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    kept, count = 0, 0
    for seen in range(0, 1_000_001, 40):
        if snapshot.is_due(seen, kept):
            kept, count = seen, count + 1
    assert 100 < count < 300
