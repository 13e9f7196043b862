"""Numbered migrations of our SQLite files: number n makes format n out of n-1, all in one transaction.

A file says in its header whose it is and which format it has, so that neither another program's file nor one of a newer
Combee is ever written to.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from combee.errors import UsageError

__all__ = ["Schema", "is_current", "migrate"]


@dataclass(frozen=True, slots=True)
class Schema:
    """The formats of one kind of file. Old migrations are never edited: files out there have them behind them."""

    application_id: int
    """Written into the header; tells our file from another program's."""
    migrations: tuple[tuple[str, ...], ...]
    """The statements of each migration, in order."""
    instead: str
    """What a user should give in place of a foreign file."""


def is_current(connection: sqlite3.Connection, path: Path, schema: Schema) -> bool:
    """Return whether an open file has the present format.

    Raises:
        UsageError: A newer Combee wrote the file, or another program did.
    """
    return _format(connection, path, schema) == len(schema.migrations)


def migrate(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Bring an open file to the present format: done or untouched. Raises as `is_current`."""
    if is_current(connection, path, schema):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have migrated the file while this one waited for it.
        for statements in schema.migrations[_format(connection, path, schema) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={schema.application_id}")
        connection.execute(f"PRAGMA user_version={len(schema.migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _format(connection: sqlite3.Connection, path: Path, schema: Schema) -> int:
    number = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    foreign = owner or number or connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    if owner != schema.application_id and foreign:
        raise UsageError(f"{path} is a SQLite file of another program", hint=schema.instead)
    known = len(schema.migrations)
    if number > known:
        hint = "Open it with that version: `pip install -U combee-learn`."
        raise UsageError(f"{path} was written by a newer Combee (format {number}, known up to {known})", hint=hint)
    return number
