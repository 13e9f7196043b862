"""Results that are bought away from the journal: work is done elsewhere, and its results come back as rows.

A `ReplayStore` answers from a journal alone and notes what it read; where that is not enough, the same work is done
elsewhere over a `CarriedStore` that begins with those rows. The rows it makes are put into the journal, and a replay
from them gives what the work gave: so a run's bytes do not depend on where its work was done.
"""

from __future__ import annotations

from collections.abc import Iterable

from combee.kernel.journal.purchases import Purchase
from combee.kernel.journal.scope import BoundScope, MemoryStore, ScopePlace, StoredRow


class NotStoredError(Exception):
    """A replay asked for a result that was never bought, or for a decision that was never made."""


class ReplayStore(MemoryStore):
    """A read-only view of another store: nothing is bought, nothing decided. `rows_read` are the rows it returned."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.rows_read: dict[bytes, StoredRow] = {}
        self._store = store

    def find(self, key: bytes) -> str | None:
        """See `MemoryStore.find`."""
        text = self._store.find(key)
        if text is not None:
            self.rows_read[key] = StoredRow(key, (), text)
        return text

    def begin(self, key: bytes) -> Purchase | None:
        """Raise `NotStoredError`: nothing is bought here."""
        raise NotStoredError

    def find_decision(self, key: bytes) -> str | None:
        """See `MemoryStore.find_decision`."""
        text = self._store.find_decision(key)
        if text is not None:
            self.rows_read[key] = StoredRow(key, (), text, decided=True)
        return text

    def decide(self, key: bytes, columns: tuple[object, ...], text: str) -> str:
        """Return the decision that was made; raise `NotStoredError` where there is none."""
        decided = self.find_decision(key)
        if decided is None:
            raise NotStoredError
        return decided


class CarriedStore(MemoryStore):
    """A store in memory that begins with rows; `added` are those that were written since, in order."""

    def __init__(self, rows: Iterable[StoredRow] = ()) -> None:
        super().__init__()
        self.added: list[StoredRow] = []
        for row in rows:
            (self._decisions if row.decided else self._results)[row.key] = row.text

    def keep(self, key: bytes, columns: tuple[object, ...], text: str, purchase: Purchase | None) -> None:
        """See `MemoryStore.keep`."""
        super().keep(key, columns, text, purchase)
        self.added.append(StoredRow(key, columns, text))  # type: ignore[arg-type]  # columns are texts and whole numbers

    def decide(self, key: bytes, columns: tuple[object, ...], text: str) -> str:
        """See `MemoryStore.decide`."""
        if key not in self._decisions:
            self.added.append(StoredRow(key, columns, text, decided=True))  # type: ignore[arg-type]  # as above
        return super().decide(key, columns, text)


def carried_scope(place: ScopePlace, rows: Iterable[StoredRow]) -> tuple[BoundScope, CarriedStore]:
    """Return a scope at this place that holds these rows, and its store."""
    store = CarriedStore(rows)
    return BoundScope(store, place), store


def put_rows(store: MemoryStore, rows: Iterable[StoredRow], purchase: Purchase | None) -> None:
    """Store the rows that a worker sent; `purchase` is cleared with the last result. Rows already there are kept."""
    results = [row for row in rows if not row.decided and store.find(row.key) is None]
    for row in rows:
        if row.decided:
            store.decide(row.key, row.columns, row.text)
    for number, row in enumerate(results, 1):
        store.keep(row.key, row.columns, row.text, purchase if number == len(results) else None)
    if purchase is not None and not results:
        purchase.failed()
