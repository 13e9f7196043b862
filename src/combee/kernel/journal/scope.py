"""A scope is the journal bound to one (run, seed, epoch, step): paid results are bought once, decisions are made once.

What `once` returns is what a replay will return: the value as it was stored, not as it was made. Calls that overlap
share one computation (single flight), also across threads that have event loops of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Protocol, runtime_checkable

from combee.errors import UsageError
from combee.kernel.journal.purchases import PURCHASE, Purchase, Purchases
from combee.kernel.journal.storage import Reader
from combee.kernel.journal.values import JSON, JSONLike, Spelled, canonical_json, clean_text, hash_json, parse_json
from combee.kernel.journal.writer import Insert, Writer

_PLACE = ("run", "seed", "epoch", "step", "path")
_RESULT = Insert("results", ("key", *_PLACE, "role", "item", "attempt", "inputs", "value", "at"), "IGNORE")
_DECISION = Insert("decisions", ("key", *_PLACE, "name", "value", "at"), "IGNORE")


@runtime_checkable
class Scope(Protocol):
    """Where one step of one run keeps its results and decisions."""

    @property
    def address(self) -> str:
        """The scope in words, for messages and reports."""
        ...

    async def once(
        self, role: str, item: str, inputs: JSONLike, make: Callable[[], Awaitable[JSONLike]], *, attempt: int = 0
    ) -> JSON:
        """Return the result at this address for these inputs; await `make` only when there is none yet.

        Calls at one address that overlap share one computation, and its exception; exceptions are never stored.
        The same address with other inputs is another computation.

        Raises:
            UsageError: `inputs` or the result is not JSON.
            StorageError: An earlier result could not be written; nothing more is bought.
        """
        ...

    def decide(self, name: str, value: JSONLike) -> JSON:
        """Return the decision recorded under this name; record `value` when there is none yet."""
        ...

    def peek(self, name: str) -> JSON:
        """Return the decision recorded under this name, or None when there is none; record nothing."""
        ...

    def sub(self, prefix: str) -> Scope:
        """Return a scope inside this one, whose names cannot meet the names outside."""
        ...


@dataclass(frozen=True, slots=True)
class ScopePlace:
    """The part of an address that a scope holds; `path` is the chain of `sub` prefixes."""

    run: str = ""
    seed: int = 0
    epoch: int = 0
    step: int = 0
    path: str = ""

    def parts(self) -> tuple[str, int, int, int, str]:
        """Return the five parts, as the journal's columns hold them."""
        return self.run, self.seed, self.epoch, self.step, self.path

    def __str__(self) -> str:
        head = f"{self.run}/" if self.run else ""
        tail = f"/{self.path}" if self.path else ""
        return f"{head}seed {self.seed}/epoch {self.epoch}/step {self.step}{tail}"


def key_of(*parts: str | int) -> bytes:
    """Return 16 bytes that stand for these parts."""
    return _digest(_joined(*parts))


def _joined(*parts: str | int) -> str:
    """Return the parts in one text; lengths go in, so that no two lists of parts read the same."""
    return "".join([f"{len(text)}:{text}," for text in map(str, parts)])


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Address:
    """Where one result lies, with the hash of its inputs."""

    place: ScopePlace
    role: str
    item: str
    attempt: int
    inputs: str


class SingleFlight:
    """Computations under way, by key: whoever asks for one that is running waits for it instead of starting another.

    The first asker leads. When it is cancelled, a waiter takes over; when it fails, all who wait see the failure.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[bytes, list[asyncio.Future[str | Exception | None]]] = {}

    def join(self, key: bytes) -> asyncio.Future[str | Exception | None] | None:
        """Return what to wait for, or None where nobody computes: then compute, and `land` what came of it.

        Who waits gets the text, the failure, or None: the leader is gone, join again.
        """
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = []
                return None
            future: asyncio.Future[str | Exception | None] = asyncio.get_running_loop().create_future()
            waiting.append(future)
            return future

    def land(self, key: bytes, outcome: str | Exception | None) -> None:
        """Tell all who wait what came of it."""
        with self._lock:
            waiting = self._waiting.pop(key)
        for future in waiting:
            # Also right when the waiter's loop runs in another thread; a closed loop has no one left to tell.
            with contextlib.suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_deliver, future, outcome)


def _deliver(future: asyncio.Future[str | Exception | None], outcome: str | Exception | None) -> None:
    if not future.done():
        future.set_result(outcome)


class MemoryStore:
    """What a scope needs below it, kept in memory: nothing is lost with the process that could be paid for again."""

    def __init__(self) -> None:
        self.flights = SingleFlight()
        self._results: dict[bytes, str] = {}
        self._decisions: dict[bytes, str] = {}

    def find(self, key: bytes) -> str | None:
        """Return the stored text of a result."""
        return self._results.get(key)

    def begin(self, key: bytes) -> Purchase | None:
        """Note that a result is about to be bought. Raises `StorageError` when it could not be stored."""
        return None

    def keep(self, key: bytes, columns: tuple[object, ...], text: str, purchase: Purchase | None) -> None:
        """Store a result; `columns` are place, role, item, attempt and the hash of the inputs."""
        self._results[key] = text

    def find_decision(self, key: bytes) -> str | None:
        """Return the stored text of a decision."""
        return self._decisions.get(key)

    def decide(self, key: bytes, columns: tuple[object, ...], text: str) -> str:
        """Return the stored text of a decision; store this one where there is none. Threads agree on one.

        `columns` are place and name.
        """
        return self._decisions.setdefault(key, text)

    def is_on_disk(self, key: bytes) -> bool:
        """Say whether a result or decision that was stored outlives a kill."""
        return True

    def about(self, place: ScopePlace, item: str) -> Iterator[StoredRow]:
        """Yield what is stored about an item at a place from an earlier process: parts of work that it did not end."""
        return iter(())


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A result or a decision as it is stored; `columns` are the parts of its address."""

    key: bytes
    columns: tuple[str | int, ...]
    text: str
    decided: bool = False


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
        self._begun = bool(self._known)  # by an earlier process
        self._left: tuple[ScopePlace | None, list[tuple[str, StoredRow]]] = (None, [])

    def stats(self) -> Stats:
        """Return the counts so far."""
        with self._lock:
            return Stats(**self._counts)

    def count_reused(self, results: int, decisions: int) -> None:
        """Count what need not be read."""
        with self._lock:
            self._counts["reused"] += results
            self._counts["decisions_replayed"] += decisions

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

    def is_on_disk(self, key: bytes) -> bool:
        """See `MemoryStore.is_on_disk`."""
        return self._writer is None or self._writer.waiting(key) is None

    def about(self, place: ScopePlace, item: str) -> Iterator[StoredRow]:
        """See `MemoryStore.about`."""
        if not self._begun:
            return
        if self._left[0] != place:
            where = "run = ? AND seed = ? AND epoch = ? AND step = ? AND path = ?"
            results = self._reader.rows(f"SELECT item, key, value FROM results WHERE {where}", *place.parts())  # noqa: S608
            decisions = self._reader.rows(f"SELECT name, key, value FROM decisions WHERE {where}", *place.parts())  # noqa: S608
            rows = [(str(name), StoredRow(key, (), text)) for name, key, text in results]
            rows += [(str(name), StoredRow(key, (), text, decided=True)) for name, key, text in decisions]
            self._left = (place, rows)
        for name, row in self._left[1]:
            if item in name:
                yield row

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


class BoundScope:
    """A scope over any store."""

    def __init__(self, store: MemoryStore, place: ScopePlace) -> None:
        self._store = store
        self._place = place
        self._parts = place.parts()
        self._head = _joined("result", *self._parts)

    @property
    def store(self) -> MemoryStore:
        """Where its results and decisions lie."""
        return self._store

    @property
    def place(self) -> ScopePlace:
        """The scope's part of every address in it."""
        return self._place

    @property
    def address(self) -> str:
        """The scope in words, for messages and reports."""
        return str(self._place)

    async def once(
        self, role: str, item: str, inputs: JSONLike, make: Callable[[], Awaitable[JSONLike]], *, attempt: int = 0
    ) -> JSON:
        """See `Scope.once`."""
        store, where = self._store, (clean_text(role), clean_text(item), attempt, hash_json(inputs))
        key = _digest(self._head + _joined(*where))
        if (text := store.find(key)) is not None:
            return parse_json(text)
        while (running := store.flights.join(key)) is not None:
            outcome = await running
            if isinstance(outcome, Exception):
                raise outcome
            if outcome is not None:
                return parse_json(outcome)
        outcome = None
        try:
            outcome = store.find(key)  # it may have come home between the look and the lead
            if outcome is not None:
                return parse_json(outcome)
            made, outcome = await self._buy(key, where, make)
        except Exception as error:
            outcome = error
            raise
        finally:
            store.flights.land(key, outcome)
        return made if type(made) is Spelled else parse_json(outcome)  # reading its text would give an equal value

    async def _buy(
        self, key: bytes, where: tuple[object, ...], make: Callable[[], Awaitable[JSONLike]]
    ) -> tuple[JSONLike, str]:
        purchase, outer = self._store.begin(key), PURCHASE.get()
        if purchase is None:
            made = await make()
            text = canonical_json(made)
        else:
            PURCHASE.set(purchase)
            try:
                made = await make()
                text = canonical_json(made)
            except BaseException:
                purchase.failed()
                raise
            finally:
                PURCHASE.set(outer)
        self._store.keep(key, (*self._parts, *where), text, purchase)
        return made, text

    def decide(self, name: str, value: JSONLike) -> JSON:
        """See `Scope.decide`."""
        name = clean_text(name)
        key = key_of("decision", *self._parts, name)
        return parse_json(self._store.decide(key, (*self._parts, name), canonical_json(value)))

    def peek(self, name: str) -> JSON:
        """See `Scope.peek`."""
        text = self._store.find_decision(key_of("decision", *self._parts, clean_text(name)))
        return None if text is None else parse_json(text)

    def sub(self, prefix: str) -> Scope:
        """See `Scope.sub`."""
        prefix = clean_text(prefix)
        path = f"{self._place.path}/{prefix}" if self._place.path else prefix
        return BoundScope(self._store, replace(self._place, path=path))


class MemoryScope(BoundScope):
    """A scope with nothing on disk: for library use without a run folder, and for tests."""

    def __init__(self, *, run: str = "", seed: int = 0, epoch: int = 0, step: int = 0) -> None:
        super().__init__(MemoryStore(), ScopePlace(run, seed, epoch, step))
