"""The journal of a run: one SQLite file in its folder, written by one process, readable by any number at the same time.

A run is replayed, not restored: started again, it finds its results and decisions here and pays for nothing twice,
except calls that were in flight or inside the last commit window (20 ms) when it was killed; those are counted.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from combee.errors import CombeeError, UsageError
from combee.kernel.journal.opening import Parts, open_parts
from combee.kernel.journal.scope import Address, BoundScope, Place, Scope
from combee.kernel.journal.store import FileStore, Stats
from combee.kernel.journal.values import JSON, JSONLike, canonical_json, clean_text, parse_json
from combee.kernel.journal.versions import LabelMove, Version, Versions
from combee.kernel.journal.writer import Insert, Writer

__all__ = ["Event", "Journal"]

_EVENT = Insert("events", ("key", "kind", "data", "at"), "IGNORE")
_CALL = Insert("calls", ("row", "at"))
_META = Insert("meta", ("key", "value"), "REPLACE")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `number` counts up within the file, `time` is in Unix seconds."""

    number: int
    kind: str
    data: JSON
    time: float


class Journal:
    """Made by `Journal.open`; a context manager. What is recorded is on disk within 20 ms, or after `flush`."""

    def __init__(self, parts: Parts) -> None:
        self._path = parts.path
        self._reader = parts.reader
        self._writer = parts.writer
        self._store = FileStore(parts.reader, parts.writer, parts.purchases)
        self._versions = Versions(parts.reader, parts.writer, parts.path)
        # Also runs when the journal is forgotten or the interpreter ends, so that nothing queued is lost.
        self._end = weakref.finalize(self, parts.close)

    @classmethod
    def open(cls, run_dir: Path, *, create: bool = True, read_only: bool = False) -> Self:
        """Open the journal in a run folder.

        Args:
            run_dir: The folder; made when it is missing and `create` is true.
            create: Whether a missing journal is begun, or an error.
            read_only: Read beside a process that writes; nothing is created, locked or changed.

        Raises:
            UsageError: There is no journal, or it is another program's or a newer Combee's.
            LockedError: Another process writes to it.
            StorageError: The file is damaged, the disk is full, or access is denied.
        """
        return cls(open_parts(Path(run_dir), create=create, read_only=read_only))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except CombeeError as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"While the journal was closed: {failure}")

    def close(self) -> None:
        """Write what is queued, close the file and let the lock go. May be called again.

        Raises:
            StorageError: Something queued could not be written.
        """
        self._end()

    def flush(self) -> None:
        """Return when everything recorded so far is on disk. Raises `StorageError` when it cannot be."""
        if self._writer is not None:
            self._writer.flush()

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return self._path

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading only."""
        return self._writer is None

    def scope(self, *, seed: int, epoch: int, step: int, run: str = "") -> Scope:
        """Return where one step of one run keeps its results and decisions."""
        if not all(type(number) is int for number in (seed, epoch, step)):
            # 1, 1.0 and True are equal and would be three addresses.
            raise UsageError(f"seed, epoch and step are {seed!r}, {epoch!r}, {step!r}", hint="Use whole numbers.")
        if not all(-(2**63) <= number < 2**63 for number in (seed, epoch, step)):
            raise UsageError(f"a seed, epoch or step is too large: {seed}, {epoch}, {step}", hint="Use 64-bit numbers.")
        return BoundScope(self._store, Place(clean_text(run), seed, epoch, step))

    def stats(self) -> Stats:
        """Return what this opening reused, bought, bought again after a kill, and replayed."""
        return self._store.stats()

    def results(self, role: str | None = None) -> Iterator[tuple[Address, JSON]]:
        """Yield the stored results of one role, or of all, in the order they were bought."""
        self.flush()
        sql = (
            "SELECT id, run, seed, epoch, step, path, role, item, attempt, inputs, value FROM results"
            " WHERE (?1 IS NULL OR role = ?1) AND id > ?2 ORDER BY id LIMIT ?3"
        )
        for row in self._reader.pages(sql, role):
            yield Address(Place(*row[1:6]), *row[6:10]), parse_json(row[10])

    def decisions(self) -> Iterator[tuple[Place, str, JSON]]:
        """Yield place, name and value of every decision, in the order they were made."""
        self.flush()
        sql = "SELECT id, run, seed, epoch, step, path, name, value FROM decisions WHERE id > ? ORDER BY id LIMIT ?"
        for row in self._reader.pages(sql):
            yield Place(*row[1:6]), row[6], parse_json(row[7])

    def record_event(self, kind: str, data: JSONLike, *, key: str | None = None) -> None:
        """Record that something happened. A second event with the same `key` is ignored, so that a replay adds none."""
        self._writing().put(_EVENT, (key and clean_text(key), clean_text(kind), canonical_json(data), time.time()))

    def events(self, kind: str | None = None, *, after: int = 0) -> Iterator[Event]:
        """Yield events of one kind, or all, with a number greater than `after`, in order."""
        self.flush()
        sql = "SELECT id, kind, data, at FROM events WHERE (?1 IS NULL OR kind = ?1) AND id > ?2 ORDER BY id LIMIT ?3"
        for number, what, data, at in self._reader.pages(sql, kind, after=after):
            yield Event(number, what, parse_json(data), at)

    def record_call(self, row: JSONLike) -> None:
        """Add a row to the ledger of calls."""
        self._writing().put(_CALL, (canonical_json(row), time.time()))

    def calls(self) -> Iterator[JSON]:
        """Yield the rows of the ledger, in order."""
        self.flush()
        for row in self._reader.pages("SELECT id, row FROM calls WHERE id > ? ORDER BY id LIMIT ?"):
            yield parse_json(row[1])

    def meta(self, key: str) -> JSON:
        """Return what was set under this key, or None."""
        row = self._reader.one("SELECT value FROM meta WHERE key = ?", key)
        return None if row is None else parse_json(row[0])

    def set_meta(self, key: str, value: JSONLike) -> None:
        """Set a fact about the run (its configuration, say), in place of an earlier one; on disk on return."""
        writer = self._writing()
        writer.put(_META, (clean_text(key), canonical_json(value)))
        writer.flush()

    def add_version(
        self,
        text: str,
        digest: str,
        *,
        parent: str | None = None,
        delta: JSONLike = None,
        epoch: int = 0,
        step: int = 0,
        data: JSONLike = None,
    ) -> str:
        """Store a version of the playbook; on disk on return. Added again (replay), it changes nothing.

        Args:
            text: The whole playbook, lossless (`playbook.to_json`); stored as a patch where that is small.
            digest: Its content address (`playbook.digest`).
            parent: The digest of the version it was made from.
            delta: The operations that led from the parent to it.
            epoch: When it was made.
            step: When it was made.
            data: Anything else (scores, verdict).

        Returns:
            The digest.
        """
        plain = [parse_json(canonical_json(value)) for value in (delta, data)]
        return self._versions.add(text, Version(digest, parent, epoch, step, plain[0], plain[1]))

    def version(self, digest: str) -> Version:
        """Return how a version first came about. Raises `UsageError` when there is none."""
        return self._versions.get(digest)

    def text(self, digest: str) -> str:
        """Return the playbook of a version, exactly as it was added."""
        return self._versions.text(digest)

    def versions(self) -> tuple[Version, ...]:
        """Return the history, oldest first."""
        return self._versions.history()

    def label(self, name: str, digest: str, *, note: str = "", key: str | None = None) -> None:
        """Put a label (`stable`, `canary`, `best`, `last`) on a version; a move with a known `key` is ignored."""
        self._versions.label(name, digest, note=note, key=key)

    def rollback(self, name: str, *, note: str = "") -> str:
        """Put a label back on the version it was on before; return that version's digest."""
        return self._versions.rollback(name, note=note)

    def labels(self) -> dict[str, str]:
        """Return the digest that each label is on."""
        return self._versions.labels()

    def label_moves(self, name: str | None = None) -> tuple[LabelMove, ...]:
        """Return every move of one label, or of all, oldest first."""
        return self._versions.moves(name)

    def resolve(self, name: str) -> str:
        """Return the digest for a label, a digest, or its first 4 or more digits. Raises `UsageError` otherwise."""
        return self._versions.resolve(name)

    def problems(self) -> list[str]:
        """Return what is wrong with the file; nothing when all is well. Reads all of it, about 1 second a gigabyte."""
        return self._reader.problems()

    def _writing(self) -> Writer:
        if self._writer is None:
            raise UsageError(f"{self._path} is open for reading only", hint="Open it without `read_only`.")
        return self._writer
