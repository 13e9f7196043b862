"""The tables of a journal as numbered migrations: number n makes format n out of n-1. Never edit an old one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from combee.errors import UsageError

__all__ = ["APPLICATION_ID", "MIGRATIONS", "is_current", "migrate"]

# Written into the file's header, so that another program's SQLite file is never taken for ours ("Comb").
APPLICATION_ID = 0x436F6D62

_PLACE = "run TEXT NOT NULL, seed INTEGER NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL, path TEXT NOT NULL"

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # `key` stands for address and input hash: the same address with other inputs is another row.
        (
            f"CREATE TABLE results (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, {_PLACE},"
            " role TEXT NOT NULL, item TEXT NOT NULL, attempt INTEGER NOT NULL, inputs TEXT NOT NULL,"
            " value TEXT NOT NULL, at REAL NOT NULL)"
        ),
        (
            f"CREATE TABLE decisions (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, {_PLACE}, name TEXT NOT NULL,"
            " value TEXT NOT NULL, at REAL NOT NULL)"
        ),
        (
            "CREATE TABLE events (id INTEGER PRIMARY KEY, key TEXT UNIQUE, kind TEXT NOT NULL, data TEXT NOT NULL,"
            " at REAL NOT NULL)"
        ),
        "CREATE TABLE calls (id INTEGER PRIMARY KEY, row TEXT NOT NULL, at REAL NOT NULL)",
        # A book is the text of one playbook: whole, or as a patch on the text of `base`; zlib either way.
        (
            "CREATE TABLE books (digest TEXT PRIMARY KEY, base TEXT, depth INTEGER NOT NULL, body BLOB NOT NULL,"
            " sha256 TEXT NOT NULL) WITHOUT ROWID"
        ),
        # A version is one step of the history that led to a book; one book may be reached again (rollback).
        (
            "CREATE TABLE versions (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, digest TEXT NOT NULL,"
            " parent TEXT, epoch INTEGER NOT NULL, step INTEGER NOT NULL, delta TEXT NOT NULL,"
            " data TEXT NOT NULL, at REAL NOT NULL)"
        ),
        "CREATE INDEX versions_digest ON versions (digest)",
        (
            "CREATE TABLE moves (id INTEGER PRIMARY KEY, key TEXT UNIQUE, label TEXT NOT NULL, digest TEXT NOT NULL,"
            " rollback INTEGER NOT NULL, note TEXT NOT NULL, at REAL NOT NULL)"
        ),
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    ),
)


def _file_format(connection: sqlite3.Connection, path: Path) -> int:
    number = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if owner != APPLICATION_ID and (owner or number or connection.execute("SELECT 1 FROM sqlite_schema").fetchone()):
        hint = "Give the folder of a Combee run, or a new one."
        raise UsageError(f"{path} is a SQLite file of another program", hint=hint)
    if number > len(MIGRATIONS):
        hint = "Open it with that version: `pip install -U combee-learn`."
        raise UsageError(
            f"{path} was written by a newer Combee (format {number}, known up to {len(MIGRATIONS)})", hint=hint
        )
    return number


def is_current(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether an open file has the present format.

    Raises:
        UsageError: A newer Combee wrote the file, or another program did.
    """
    return _file_format(connection, path) == len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring an open file to the present format, all in one transaction: done or untouched."""
    if is_current(connection, path):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in MIGRATIONS[_file_format(connection, path) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
