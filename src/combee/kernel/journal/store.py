"""What a scope stands on when there is a file: look up, buy once, queue for the writer, count."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, fields

from combee.errors import UsageError
from combee.kernel.journal.purchases import Purchase, Purchases
from combee.kernel.journal.scope import MemoryStore
from combee.kernel.journal.storage import Reader
from combee.kernel.journal.writer import Insert, Writer

__all__ = ["FileStore", "Stats"]

_PLACE = ("run", "seed", "epoch", "step", "path")
_RESULT = Insert("results", ("key", *_PLACE, "role", "item", "attempt", "inputs", "value", "at"), "IGNORE")
_DECISION = Insert("decisions", ("key", *_PLACE, "name", "value", "at"), "IGNORE")


@dataclass(frozen=True, slots=True)
class Stats:
    """What this opening of a journal saved and spent.

    `lost` are results that an earlier, killed process had begun to buy and could not store; `bought_again` counts those
    of them that were bought now. Results that overlapping calls shared count once.
    """

    reused: int = 0
    bought: int = 0
    bought_again: int = 0
    lost: int = 0
    decisions_made: int = 0
    decisions_replayed: int = 0


class FileStore(MemoryStore):
    """Results and decisions in a journal file. `writer` and `purchases` are None when it is open for reading only."""

    def __init__(self, reader: Reader, writer: Writer | None, purchases: Purchases | None) -> None:
        super().__init__()
        self._deciding = threading.Lock()
        self._reader = reader
        self._writer = writer
        self._purchases = purchases
        self._lock = threading.Lock()
        self._counts = dict.fromkeys((field.name for field in fields(Stats)), 0)
        self._counts["lost"] = len(purchases.lost) if purchases else 0
        # Who writes holds the lock, so nobody else adds rows: what is not in this set is not in the file either.
        keys = "SELECT key FROM results UNION ALL SELECT key FROM decisions"
        self._known: set[bytes] | None = {row[0] for row in reader.rows(keys)} if writer is not None else None

    def stats(self) -> Stats:
        """Return the counts so far."""
        with self._lock:
            return Stats(**self._counts)

    def find(self, key: bytes) -> str | None:
        """See `MemoryStore.find`."""
        text = self._look_up("results", key)
        if text is not None:
            self._count("reused")
        return text

    def begin(self, key: bytes) -> Purchase:
        """See `MemoryStore.begin`. Raises before anything is paid when the result could not be stored."""
        writer, purchases = self._writing()
        writer.check()
        return purchases.begin(key)

    def keep(self, key: bytes, columns: tuple[object, ...], text: str, purchase: Purchase | None) -> None:
        """See `MemoryStore.keep`."""
        writer, purchases = self._writing()
        self._learn(key)
        marks = purchase.stored() if purchase is not None else ()
        writer.put(_RESULT, (key, *columns, text, time.time()), key=key, text=text, marks=marks)
        self._count("bought")
        if key in purchases.lost:
            self._count("bought_again")

    def find_decision(self, key: bytes) -> str | None:
        """See `MemoryStore.find_decision`."""
        text = self._look_up("decisions", key)
        if text is not None:
            self._count("decisions_replayed")
        return text

    def decide(self, key: bytes, columns: tuple[object, ...], text: str) -> str:
        """See `MemoryStore.decide`."""
        with self._deciding:
            decided = self.find_decision(key)
            if decided is not None:
                return decided
            writer, _ = self._writing()
            self._learn(key)
            writer.put(_DECISION, (key, *columns, text, time.time()), key=key, text=text)
        self._count("decisions_made")
        return text

    def _look_up(self, table: str, key: bytes) -> str | None:
        if self._known is not None and key not in self._known:
            return None
        # Queued rows first: what is no longer queued is committed, so the file has it.
        text = self._writer.waiting(key) if self._writer is not None else None
        if text is None:
            row = self._reader.one(f"SELECT value FROM {table} WHERE key = ?", key)  # noqa: S608 - one of two constants
            text = None if row is None else str(row[0])
        return text

    def _learn(self, key: bytes) -> None:
        if self._known is not None:
            self._known.add(key)

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _writing(self) -> tuple[Writer, Purchases]:
        if self._writer is None or self._purchases is None:
            raise UsageError(
                "the journal is open for reading only", hint="Open it without `read_only` to go on with a run."
            )
        return self._writer, self._purchases
