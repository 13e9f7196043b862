"""The tables of a world as numbered migrations. Never edit an old one."""

from __future__ import annotations

from combee.kernel.journal.storage import Schema

__all__ = ["WORLD"]

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        # `mode`: fork, serial, once, outside. A fork reads its origin's context up to the row `fork_row`, as it was
        # before any compaction later than `fork_mark`, so that no context is ever copied on disk.
        (
            "CREATE TABLE agents (name TEXT PRIMARY KEY, role TEXT NOT NULL, parent TEXT NOT NULL, key TEXT UNIQUE,"
            " mode TEXT NOT NULL, returns TEXT NOT NULL, window INTEGER NOT NULL, state TEXT NOT NULL,"
            " incarnation INTEGER NOT NULL, fork_of TEXT, fork_row INTEGER, fork_mark INTEGER, at REAL NOT NULL)"
        ),
        (
            "CREATE TABLE incarnations (agent TEXT NOT NULL, number INTEGER NOT NULL, born REAL NOT NULL, ended REAL,"
            " reason TEXT, PRIMARY KEY (agent, number)) WITHOUT ROWID"
        ),
        # One row a message to one recipient. `thread`: the ask that an answer or a report is about.
        # `cause`: what its sender was working on. `origin`: the first of an ask that was sent again elsewhere.
        (
            "CREATE TABLE mail (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,"
            " sender TEXT NOT NULL, recipient TEXT NOT NULL, incarnation INTEGER NOT NULL, target TEXT NOT NULL,"
            " subject TEXT NOT NULL, body TEXT NOT NULL, tokens INTEGER NOT NULL, thread INTEGER, cause INTEGER,"
            " origin INTEGER, hops INTEGER NOT NULL, tried TEXT NOT NULL, state TEXT NOT NULL, answered INTEGER,"
            " at REAL NOT NULL)"
        ),
        "CREATE INDEX mail_ready ON mail (id) WHERE state IN ('queued', 'delivered')",
        "CREATE INDEX mail_inbox ON mail (recipient, id) WHERE state = 'inbox'",
        "CREATE INDEX mail_open ON mail (sender, cause) WHERE kind = 'ask' AND answered IS NULL",
        "CREATE INDEX mail_cause ON mail (cause) WHERE cause IS NOT NULL",
        "CREATE INDEX mail_origin ON mail (origin) WHERE origin IS NOT NULL",
        "CREATE TABLE members (channel TEXT NOT NULL, agent TEXT NOT NULL, PRIMARY KEY (channel, agent)) WITHOUT ROWID",
        (
            "CREATE TABLE issues (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, title TEXT NOT NULL,"
            " body TEXT NOT NULL, state TEXT NOT NULL, owner TEXT, author TEXT NOT NULL, at REAL NOT NULL)"
        ),
        (
            "CREATE TABLE reads (agent TEXT NOT NULL, incarnation INTEGER NOT NULL, subject TEXT NOT NULL,"
            " version TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (agent, incarnation, subject)) WITHOUT ROWID"
        ),
        "CREATE INDEX reads_subject ON reads (subject)",
        (
            "CREATE TABLE artefacts (path TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,"
            " author TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (path, version)) WITHOUT ROWID"
        ),
        # The context of an incarnation, also what compaction took out of it (`dropped` names the event).
        (
            "CREATE TABLE context (id INTEGER PRIMARY KEY, agent TEXT NOT NULL, incarnation INTEGER NOT NULL,"
            " role TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL, mail INTEGER,"
            " calls TEXT NOT NULL, answers TEXT, dropped INTEGER, at REAL NOT NULL)"
        ),
        "CREATE INDEX context_agent ON context (agent, incarnation, id)",
        (
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, agent TEXT NOT NULL, text TEXT NOT NULL, path TEXT NOT NULL,"
            " version TEXT NOT NULL, at REAL NOT NULL)"
        ),
        "CREATE VIRTUAL TABLE notes_text USING fts5(text, content='notes', content_rowid='id')",
        # One row a thinking step: who paid which tokens for whose message.
        (
            "CREATE TABLE spend (id INTEGER PRIMARY KEY, agent TEXT NOT NULL, incarnation INTEGER NOT NULL,"
            " mail INTEGER, sender TEXT NOT NULL, recipient TEXT NOT NULL, purpose TEXT NOT NULL,"
            " prompt INTEGER NOT NULL, fresh INTEGER NOT NULL, completion INTEGER NOT NULL, estimated INTEGER NOT NULL)"
        ),
        (
            "CREATE TABLE events (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, agent TEXT NOT NULL, data TEXT NOT NULL,"
            " at REAL NOT NULL)"
        ),
        (
            "CREATE TABLE structures (version INTEGER PRIMARY KEY, parent INTEGER, data TEXT NOT NULL,"
            " author TEXT NOT NULL, why TEXT NOT NULL, state TEXT NOT NULL, score REAL, at REAL NOT NULL)"
        ),
    ),
)

WORLD = Schema(0x436D6277, _MIGRATIONS, "Give the file of a world, or a new one.")  # "Cmbw"
