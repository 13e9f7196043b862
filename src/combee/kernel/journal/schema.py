"""The tables of a journal as numbered migrations: number n makes format n out of n-1. Never edit an old one."""

from __future__ import annotations

from combee.kernel.journal.migrations import Schema

__all__ = ["JOURNAL"]

_PLACE = "run TEXT NOT NULL, seed INTEGER NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL, path TEXT NOT NULL"

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
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

JOURNAL = Schema(0x436F6D62, _MIGRATIONS, "Give the folder of a Combee run, or a new one.")  # "Comb"
