"""One tenant's book: a folder that every other command reads as a run, with one history over all generations.

A generation is learned in a run of its own. What it came to is folded in here: versions with what led to them,
reflections, the trees of its scans, its redacted traces. So `combee why`, `diff`, `versions`, `forget`, `promote` and
`rollback` reach through all generations. Of the labels `stable` is what is served, `canary` what is on trial, and
`last` the newest.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from combee.errors import LockedError, UsageError
from combee.files import whole_file
from combee.kernel.journal import JSON, Journal
from combee.kernel.playbook import Playbook, digest, from_json, to_json, to_text, view
from combee.run.history import read_history
from combee.traces.method import KEPT

__all__ = ["CANARY", "STABLE", "Book", "Folded", "valid_tenant"]

STABLE, CANARY, LAST = "stable", "canary", "last"
_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_EVENTS = frozenset({"Scan", "StepFinished", "GuardJudged"})
_CACHED = 16
_EARLIER_RUNS, _EARLIER_BYTES = 1000, 16 << 20
_WAITS = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


def valid_tenant(name: str) -> str:
    """Return a tenant's name, which is the name of its folder too.

    Raises:
        UsageError: It cannot be one.
    """
    if not _TENANT.fullmatch(name):
        hint = "Use up to 63 small letters, digits, `-` and `_`, beginning with a letter or digit."
        raise UsageError(f"{name[:80]!r} cannot be the name of a tenant.", hint=hint)
    return name


@dataclass(frozen=True, slots=True)
class Folded:
    """What became of a generation: the version it came to, and a receipt for each of its traces."""

    version: str
    receipts: dict[str, dict[str, JSON]]
    alerts: tuple[str, ...]


class Book:
    """A tenant's book below the folder of a service. Everything here blocks: call it through a thread."""

    def __init__(self, root: Path, tenant: str) -> None:
        self.tenant = tenant
        self.folder = root / "tenants" / valid_tenant(tenant)
        self._books: OrderedDict[str, Playbook] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def _writing(self, *, create: bool = False) -> Iterator[Journal]:
        """Open the journal for writing, one thread at a time; wait a little where a command has it just now."""
        with self._lock:
            for wait in (*_WAITS, None):
                try:
                    journal = Journal.open(self.folder, create=create)
                    break
                except LockedError:
                    if wait is None:
                        raise
                    time.sleep(wait)
            with journal:
                yield journal

    def make(self) -> None:
        """Make the book where there is none yet: empty, and stable."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._writing(create=True) as journal:
            first = journal.first()
            if first is None:
                empty = Playbook()
                first = journal.add_version(to_json(empty), digest(empty))
            for label in (STABLE, CANARY, LAST):
                journal.label(label, first, key=f"first {label}")

    def labels(self) -> dict[str, str]:
        """Return the version that each label is on."""
        with Journal.open(self.folder, create=False, read_only=True) as journal:
            return journal.labels()

    def playbook(self, version: str) -> Playbook:
        """Return a version by its digest. Raises `UsageError` where there is none."""
        found = self._books.get(version)
        if found is None:
            with Journal.open(self.folder, create=False, read_only=True) as journal:
                found = from_json(journal.text(version))
            self._books[version] = found
            while len(self._books) > _CACHED:
                self._books.popitem(last=False)
        return found

    def view(self, version: str, task: str, max_tokens: int) -> str:
        """Return the lessons of a version that fit a task best, as text."""
        book = self.playbook(version)
        return to_text(view(book, task, max_tokens) if task else book, mark=False)

    def versions(self) -> list[dict[str, JSON]]:
        """Return the history, oldest first."""
        with Journal.open(self.folder, create=False, read_only=True) as journal:
            labels: dict[str, list[JSON]] = {}
            for label, version in journal.labels().items():
                labels.setdefault(version, []).append(label)
            return [
                {
                    "version": row.digest,
                    "parent": row.parent,
                    "generation": row.epoch,
                    "step": row.step,
                    "time": row.time,
                    "labels": labels.get(row.digest, []),
                    "verdict": row.data.get("verdict") if isinstance(row.data, dict) else None,
                }
                for row in journal.versions()
            ]

    def move(self, label: str, version: str, note: str) -> str:
        """Put a label on a version (label or digest); return its digest. Raises `UsageError` where there is none."""
        with self._writing() as journal:
            found = journal.resolve(version)
            journal.label(label, found, note=note)
            return found

    def serve(self, version: str, note: str) -> str:
        """Make a version stable and end a trial; return its digest. Raises `UsageError` where there is none."""
        with self._writing() as journal:
            found = journal.resolve(version)
            journal.label(STABLE, found, note=note)
            journal.label(CANARY, found, note=note)
            return found

    def back(self, note: str) -> str:
        """End a trial; without one, put `stable` back to where it was before. Return the stable version.

        Raises:
            UsageError: There is no earlier place.
        """
        with self._writing() as journal:
            labels = journal.labels()
            stable = labels[STABLE]
            if labels[CANARY] == stable:
                stable = journal.rollback(STABLE, note=note)
            journal.label(CANARY, stable, note=note)
            return stable

    def forget(self, traces: list[str]) -> str:
        """Make the stable version as if these traces had never been, and make that stable; return it.

        Raises:
            UsageError: There is no such trace.
        """
        with self._writing() as journal:
            base = journal.labels()[STABLE]
            found = read_history(journal).forget(base, traces)
            made = digest(found.playbook)
            about = {"forgot": list(found.sources)}
            journal.add_version(to_json(found.playbook), made, parent=base, delta={"without": traces}, data=about)
            journal.label(STABLE, made, note=f"forgot {', '.join(traces)[:200]}")
            journal.label(CANARY, made, note="the trial ended: something was forgotten")
            return made

    def fold(self, generation: int, run: Path, kept_at: int) -> Folded:
        """Take over what a run learned. Doing it again after a kill gives the same result.

        Args:
            generation: Its number.
            run: The folder of its run, which has ended.
            kept_at: Bytes of kept traces before it: what a killed attempt added is cut off.
        """
        with (
            Journal.open(run, create=False, read_only=True) as source,
            self._writing() as book,
        ):
            for row in source.versions():
                if row.parent is not None:
                    text = source.text(row.digest)
                    place = {"epoch": generation, "step": row.step}
                    book.add_version(text, row.digest, parent=row.parent, delta=row.delta, data=row.data, **place)
            asyncio.run(_copy_reflections(source, book, generation))
            alerts: list[str] = []
            verdicts: dict[int, str] = {}
            for event in source.events():
                data = cast("dict[str, JSON]", event.data)
                if event.kind in _EVENTS:
                    moved = {**data, "epoch": generation} if "epoch" in data else data
                    book.record_event(event.kind, moved, key=f"{generation}/{event.number}")
                if event.kind == "GuardJudged":
                    verdicts[cast("int", data["step"])] = verdict = str(data["verdict"])
                    if verdict != "accept":
                        reasons = "; ".join(map(str, cast("list[JSON]", data["reasons"])))
                        alerts.append(f"generation {generation}, step {data['step']}: {verdict}: {reasons}")
            labels = source.labels()
            version = labels.get("best") or labels[LAST]
            book.label(LAST, version, key=f"generation {generation}")
            receipts = _receipts(source, from_json(source.text(version)), version, verdicts)
        _append(run / KEPT, self.folder / KEPT, kept_at)
        return Folded(version, receipts, tuple(alerts))

    def write_earlier(self, path: Path, size: int) -> None:
        """Write the newest of the first `size` bytes of kept traces: a generation is compared with them."""
        with whole_file(path) as out:
            if not size:
                return
            with (self.folder / KEPT).open("rb") as file:
                file.seek(max(0, size - _EARLIER_BYTES))
                lines = file.read(min(size, _EARLIER_BYTES)).splitlines(keepends=True)
                lines = lines[1:] if size > _EARLIER_BYTES else lines
            out.writelines(lines[-_EARLIER_RUNS:])

    def generation(self, number: int) -> Path:
        """Return the folder in which a generation is learned."""
        return self.folder / "generations" / f"{number:06d}"

    def kept(self) -> int:
        """Return the length in bytes of the traces that are kept."""
        path = self.folder / KEPT
        return path.stat().st_size if path.exists() else 0


async def _copy_reflections(source: Journal, book: Journal, generation: int) -> None:
    for address, value in source.results("reflect"):
        place = address.place
        scope = book.scope(run=f"generation {generation}", seed=place.seed, epoch=place.epoch, step=place.step)

        async def known(value: JSON = value) -> JSON:
            return value

        inside = scope.sub(place.path) if place.path else scope
        await inside.once("reflect", address.item, address.inputs, known, attempt=address.attempt)


def _receipts(source: Journal, book: Playbook, version: str, verdicts: dict[int, str]) -> dict[str, dict[str, JSON]]:
    """Return for each trace what became of it."""
    lessons: dict[str, list[JSON]] = {}
    for bullet in book:
        for name in bullet.sources:
            lessons.setdefault(name.rpartition("~")[0], []).append(bullet.id)
    receipts: dict[str, dict[str, JSON]] = {}
    for event in source.events("SampleRefused"):
        data = cast("dict[str, JSON]", event.data)
        receipts[str(data["sample"])] = {"state": "refused", "why": data["reason"]}
    for row in source.versions():
        revision = row.data.get("revision") if isinstance(row.data, dict) else None
        for name, voted, _ in cast("list[list[str]]", revision["votes"] if isinstance(revision, dict) else []):
            receipts[name.rpartition("~")[0]] = {"state": "learned", "why": f"a vote on {voted}"}
    for address, value in source.results("reflect"):
        found = cast("list[JSON]", value["lessons"]) if isinstance(value, dict) else []
        verdict = verdicts.get(address.place.step, "accept")
        if address.item in lessons:
            about: dict[str, JSON] = {"state": "learned", "lessons": lessons[address.item], "version": version}
        elif not found:
            about = {"state": "taught nothing", "why": "nothing in it is a lesson beyond doubt"}
        elif verdict != "accept":
            about = {"state": "not learned", "why": f"the guard did not accept its step: {verdict}"}
        else:
            about = {"state": "not learned", "why": "its lessons are in no bullet: refused, replaced, or not covered"}
        receipts[address.item] = about
    return receipts


def _append(source: Path, target: Path, at: int) -> None:
    """Append a file to another one at this byte, on the disk on return; what stood after it is cut off."""
    if not source.exists():  # appended before, and removed then
        return
    with target.open("r+b" if target.exists() else "w+b") as file, source.open("rb") as new:
        file.truncate(at)
        file.seek(at)
        shutil.copyfileobj(new, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
