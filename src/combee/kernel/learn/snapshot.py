"""A snapshot of a run between two steps: a resume goes on from it, and what lies before need not be replayed.

All of it follows from the journal, so with or without one a run takes the same path to the same bytes. It names what it
rests on by hash: its own text, the steps before it and their versions, the books. One that does not fit is left, with a
warning, and the run is replayed from its first step. Only the newest is kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from combee.errors import CombeeError
from combee.kernel.journal import JSON, Journal, hash_json
from combee.kernel.learn.codec import reflection_from_json, reflection_to_json
from combee.kernel.learn.events import StepFinished, Validated
from combee.kernel.learn.judge import Judge
from combee.kernel.learn.roles import Reflection
from combee.kernel.learn.sampling import Sample
from combee.kernel.playbook import Playbook, digest, from_json

KEY = "snapshot"
EVERY = 1_000
"""Samples between two snapshots; from 50,000 on a fiftieth of those seen, so that a long run writes a few hundred."""

_LOG = logging.getLogger("combee")


S = TypeVar("S", bound=Sample)


@dataclass(slots=True)
class Progress:
    """What the loop knows between two steps, but for the guard, the pace, and the samples under way.

    Of the samples of an epoch `taken` have been given out; `again` are those put back at the end, with their tries.
    """

    book: Playbook
    epoch: int = 0
    step: int = 0
    seen: int = 0
    worked: int = 0
    taken: int = 0
    again: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    version: str = ""
    best: Playbook | None = None
    best_accuracy: float = -1.0
    carried: tuple[Reflection, ...] = ()
    steps: list[StepFinished] = dataclasses.field(default_factory=list)
    validations: list[Validated] = dataclasses.field(default_factory=list)
    unlearned: list[str] = dataclasses.field(default_factory=list)

    def begin_epoch(self, epoch: int) -> None:
        """Forget what was given out in the epoch before; one that a snapshot is of goes on."""
        if epoch != self.epoch:
            self.epoch, self.taken, self.again = epoch, 0, []


def is_due(seen: int, kept: int) -> bool:
    """Return whether so much was seen since the last snapshot that another one is worth its writing."""
    return seen - kept >= max(EVERY, seen // 50)


def forget(journal: Journal) -> None:
    """Take the snapshot away, so that the next resume replays the run from its first step."""
    journal.set_meta(KEY, None)


def names_of(samples: Sequence[S]) -> str:
    """Return the hash of the ids of the samples, in their order."""
    return hashlib.sha256("\0".join([sample.id for sample in samples]).encode("utf-8", "replace")).hexdigest()


def keep(journal: Journal, progress: Progress, judge: Judge, names: str, rest: Mapping[str, JSON]) -> None:
    """Put a snapshot in the place of the last one. `names` are those of all samples; `rest` comes back as it is."""
    stats = journal.stats()
    state: dict[str, JSON] = {
        "samples": names,
        "epoch": progress.epoch,
        "step": progress.step,
        "seen": progress.seen,
        "worked": progress.worked,
        "taken": progress.taken,
        "again": [[name, tries] for name, tries in progress.again],
        "version": progress.version,
        "best": None if progress.best is None else digest(progress.best),
        "best_accuracy": progress.best_accuracy,
        "carried": [reflection_to_json(reflection) for reflection in progress.carried],
        "validations": [dataclasses.asdict(one) for one in progress.validations],
        "unlearned": list(progress.unlearned),
        "steps": _chain(progress.steps),
        "judge": _judge_to_json(judge, progress.book),
        "results": stats.reused + stats.bought,
        "decisions": stats.decisions_replayed + stats.decisions_made,
        "rest": dict(rest),
    }
    journal.set_meta(KEY, {"state": state, "sha256": hash_json(state)})


def restore(
    journal: Journal, judge: Judge, samples: Sequence[S], names: str
) -> tuple[Progress, Mapping[str, Any]] | None:
    """Return what the loop knew at the last snapshot, and its `rest`; None where there is none that can be used.

    The judge goes back to that moment too, and what lies before counts as reused.
    """
    kept = cast("dict[str, Any] | None", journal.meta(KEY))
    if kept is None:
        return None
    try:
        state = kept["state"]
        if hash_json(state) != kept["sha256"]:
            raise ValueError("it is not what was written")
        if state["samples"] != names:
            raise ValueError("other samples may be learned from")
        progress = _progress(journal, state, samples)
        guard = _judge_from_json(state["judge"], journal, progress.book)
        places = {str(name): (int(place[0]), int(place[1]), str(place[2])) for name, place in guard.pop("scored")}
        judge.set_state(guard)
        judge.scored = places
        journal.count_reused(results=int(state["results"]), decisions=int(state["decisions"]))
    except (CombeeError, KeyError, TypeError, ValueError, AttributeError) as error:
        _LOG.warning("the snapshot of this run cannot be used (%s): it is replayed from its first step", error)
        return None
    return progress, state["rest"]


def _progress(journal: Journal, state: Mapping[str, Any], samples: Sequence[S]) -> Progress:
    steps = _steps(journal, state["step"])
    if _chain(steps) != state["steps"]:
        raise ValueError("the steps before it are others")
    best = state["best"]
    return Progress(
        book=_book(journal, state["version"]),
        epoch=state["epoch"],
        step=state["step"],
        seen=state["seen"],
        worked=state["worked"],
        taken=state["taken"],
        again=[(str(name), int(tries)) for name, tries in state["again"]],
        version=state["version"],
        best=None if best is None else _book(journal, best),
        best_accuracy=state["best_accuracy"],
        carried=tuple(_carried(state["carried"], samples)),
        steps=steps,
        validations=[Validated(**one) for one in state["validations"]],
        unlearned=list(state["unlearned"]),
    )


def _carried(kept: Sequence[JSON], samples: Sequence[S]) -> Iterable[Reflection]:
    labels = {sample.id: sample.labels for sample in samples} if kept else {}
    for one in kept:
        name = str(cast("dict[str, JSON]", one)["id"]).rpartition("~")[0]
        if (reflection := reflection_from_json(one, labels[name])) is not None:
            yield reflection


def _steps(journal: Journal, before: int) -> list[StepFinished]:
    found = (StepFinished(**cast("dict[str, Any]", event.data)) for event in journal.events("StepFinished"))
    return [step for step in found if step.step < before]


def _chain(steps: Iterable[StepFinished]) -> str:
    return hash_json([dataclasses.asdict(step) for step in steps])


def _book(journal: Journal, name: str) -> Playbook:
    book = from_json(journal.text(name))
    if digest(book) != name:
        raise ValueError(f"version {name[:12]} is another book")
    return book


def _judge_to_json(judge: Judge, book: Playbook) -> dict[str, JSON]:
    """Return a judge's state with books by name, and bullets that the present book has as they are by id alone."""
    state = cast("dict[str, Any]", judge.get_state())
    standing = state["guard"]["standing"]
    proven: dict[str, JSON] = {}
    for name, (text, helpful) in standing["proven"].items():
        bullet = book.get(name)
        same = bullet is not None and (bullet.text, bullet.helpful) == (text, helpful)
        proven[name] = None if same else [text, helpful]
    guard = {**state["guard"], "standing": {**standing, "proven": proven}}
    scored: list[JSON] = [[name, list(place)] for name, place in judge.scored.items()]
    return {**state, "guard": guard, "stable": digest(judge.stable), "scored": scored}


def _judge_from_json(state: Mapping[str, Any], journal: Journal, book: Playbook) -> dict[str, Any]:
    standing = state["guard"]["standing"]
    proven = {}
    for name, kept in standing["proven"].items():
        bullet = book.get(name)
        if kept is None and bullet is None:
            raise ValueError(f"the book has no {name}")
        proven[name] = [bullet.text, bullet.helpful] if kept is None and bullet is not None else kept
    guard = {**state["guard"], "standing": {**standing, "proven": proven}}
    return {**state, "guard": guard, "stable": journal.text(state["stable"])}
