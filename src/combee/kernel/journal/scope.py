"""A scope is the journal bound to one (run, seed, epoch, step): paid results are bought once, decisions are made once.

What `once` returns is what a replay will return: the value as it was stored, not as it was made.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from combee.kernel.journal.flights import Flights
from combee.kernel.journal.purchases import LOSS, Loss
from combee.kernel.journal.values import JSON, JSONLike, Spelled, canonical_json, clean_text, hash_json, parse_json

__all__ = ["Address", "BoundScope", "MemoryScope", "Place", "Scope", "Store", "key_of"]


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

    def decide(self, name: str, make: Callable[[], JSONLike]) -> JSON:
        """Return the decision recorded under this name; call `make` and record it only when there is none yet."""
        ...

    def sub(self, prefix: str) -> Scope:
        """Return a scope inside this one, whose names cannot meet the names outside."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
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
    """Return 16 bytes that stand for these parts; lengths go in, so that no two lists of parts read the same."""
    texts = map(str, parts)
    return hashlib.blake2b("".join(f"{len(text)}:{text}," for text in texts).encode("utf-8"), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Address:
    """Where one result lies, with the hash of its inputs."""

    place: Place
    role: str
    item: str
    attempt: int
    inputs: str

    def key(self) -> bytes:
        """Return the 16 bytes that stand for address and inputs."""
        return key_of("result", *self.place.parts(), self.role, self.item, self.attempt, self.inputs)


class Store(Protocol):
    """What a scope needs below it: a file or a dict."""

    @property
    def flights(self) -> Flights:
        """Computations that are under way."""
        ...

    @property
    def deciding(self) -> AbstractContextManager[object]:
        """Held while a decision is looked up and made, so that threads agree; a decision may ask for another."""
        ...

    def find(self, key: bytes) -> str | None:
        """Return the stored text of a result."""
        ...

    def begin(self, key: bytes) -> Loss | None:
        """Note that a result is about to be bought; raise when it could not be stored. Return what was lost of it."""
        ...

    def fail(self, key: bytes) -> None:
        """Note that nothing came of it."""
        ...

    def keep(self, key: bytes, address: Address, text: str) -> None:
        """Store a result."""
        ...

    def find_decision(self, place: Place, name: str) -> str | None:
        """Return the stored text of a decision."""
        ...

    def keep_decision(self, place: Place, name: str, text: str) -> None:
        """Store a decision."""
        ...


class BoundScope:
    """A scope over any store."""

    def __init__(self, store: Store, place: Place) -> None:
        self._store = store
        self._place = place

    @property
    def place(self) -> Place:
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
        address = Address(self._place, clean_text(role), clean_text(item), attempt, hash_json(inputs))
        key = address.key()
        store = self._store
        made: JSONLike = None

        async def buy() -> str:
            nonlocal made
            loss, outer = store.begin(key), LOSS.get()
            if loss is not outer:  # also where a purchase inside a lost one is a new one
                LOSS.set(loss)
            try:
                made = await make()
                text = canonical_json(made)
            except BaseException:
                store.fail(key)
                raise
            finally:
                if loss is not outer:
                    LOSS.set(outer)
            store.keep(key, address, text)
            return text

        found = await store.flights.share(key, lambda: store.find(key), buy)
        return made if type(made) is Spelled else parse_json(found)  # reading its text would give an equal value

    def decide(self, name: str, make: Callable[[], JSONLike]) -> JSON:
        """See `Scope.decide`."""
        name = clean_text(name)
        with self._store.deciding:
            text = self._store.find_decision(self._place, name)
            if text is None:
                text = canonical_json(make())
                self._store.keep_decision(self._place, name, text)
        return parse_json(text)

    def sub(self, prefix: str) -> Scope:
        """See `Scope.sub`."""
        prefix = clean_text(prefix)
        path = f"{self._place.path}/{prefix}" if self._place.path else prefix
        return BoundScope(self._store, replace(self._place, path=path))


class _MemoryStore:
    def __init__(self) -> None:
        self.flights = Flights()
        self.deciding = threading.RLock()
        self._results: dict[bytes, str] = {}
        self._decisions: dict[tuple[Place, str], str] = {}

    def find(self, key: bytes) -> str | None:
        return self._results.get(key)

    def begin(self, key: bytes) -> None:
        """Nothing to note and nothing lost: memory dies with the process."""

    def fail(self, key: bytes) -> None:
        """Nothing to note either."""

    def keep(self, key: bytes, address: Address, text: str) -> None:
        self._results[key] = text

    def find_decision(self, place: Place, name: str) -> str | None:
        return self._decisions.get((place, name))

    def keep_decision(self, place: Place, name: str, text: str) -> None:
        self._decisions[place, name] = text


class MemoryScope(BoundScope):
    """A scope with nothing on disk: for library use without a run folder, and for tests."""

    def __init__(self, *, run: str = "", seed: int = 0, epoch: int = 0, step: int = 0) -> None:
        super().__init__(_MemoryStore(), Place(run, seed, epoch, step))
