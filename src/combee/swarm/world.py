"""The shared world: one SQLite file that holds everything agents are and did.

Steps run at once, inside one open transaction that is committed in groups: after a kill the file is a prefix of what
was done, with no step in half. What leaves the process (an answer shown, a paid call) comes after `flush`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from combee.errors import StorageError, UsageError
from combee.kernel.journal import JSON, canonical_json, clean_text
from combee.kernel.journal.storage import Schema, boundary, connect, connect_read_only, is_current, migrate

__all__ = [
    "PEERS",
    "PERSON",
    "WORLD",
    "AgentRow",
    "Mode",
    "NoWorldError",
    "Returns",
    "World",
    "WorldEvent",
    "row_number",
]

Mode = Literal["fork", "serial", "once", "outside"]
"""How a question is taken: a copy answers; the agent itself, one at a time; it answers once and is gone; never."""

Returns = Literal["none", "digest", "full"]
"""What comes back to an agent from a copy that answered for it."""

PERSON = "person"
"""The role of whoever asks from outside and is asked nothing."""

PEERS = f"state = 'live' AND fork_of IS NULL AND mode != 'once' AND role != '{PERSON}'"
"""What the rows of `agents` have in common that others can ask by name."""

HELD_OUT = "held-out-"
"""How copies of a world begin that held-out tasks are asked in."""

_WAIT = 0.01  # seconds that a step waits for company before its group is committed
_GROUP = 1_000  # steps that need no further waiting


class NoWorldError(UsageError):
    """There is no world where one should be looked at."""


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent as the world knows it; `state` is live, full or dead; `incarnation` counts from 1.

    One that another made has the question for whose sake (`root`), and how many made each other before it (`depth`).
    """

    name: str
    role: str
    parent: str
    mode: Mode
    returns: Returns
    window: int
    state: str
    incarnation: int
    fork_of: str | None = None
    fork_row: int = 0
    fork_mark: int = 0
    root: int | None = None
    depth: int = 0

    @property
    def is_peer(self) -> bool:
        """Whether others can ask it by name: it lives in the world, or is a program from outside, no person."""
        return self.fork_of is None and self.mode != "once" and self.role != PERSON

    @property
    def origin(self) -> str:
        """The agent's own name; of a copy the name of the agent that it is a copy of."""
        return self.fork_of or self.name


@dataclass(frozen=True, slots=True)
class WorldEvent:
    """Something that was recorded: spawned, ended, compacted, full, rerouted, refused, ..."""

    id: int
    kind: str
    agent: str
    data: dict[str, Any]


_AGENT = "name, role, parent, mode, returns, window, state, incarnation, fork_of, fork_row, fork_mark, root, depth"


def row_number(text: str) -> int:
    """Return the number of a row that a text says, 0 where it says none: SQLite counts to 2**63."""
    return int(text) if text.isdecimal() and len(text) <= 18 else 0


def folder_of(world: Path) -> Path:
    """Return the folder beside a world that its one process locks, and keeps what does not last in."""
    place = Path(os.path.realpath(world))  # of a link that leads to itself too, which `resolve` would not take
    return place.with_name(f"{place.name}.lock")


def _to_look_at(path: Path) -> sqlite3.Connection:
    connection = connect_read_only(path)
    try:
        if is_current(connection, path, WORLD):
            return connection
        if connection.execute("SELECT 1 FROM sqlite_schema").fetchone():  # of an older version
            connection.close()
            World.open(path).close()
            return connect_read_only(path)
        raise NoWorldError(f"nothing is in {path} yet", hint="Start a world with `combee swarm run FILE`.")
    except BaseException:
        connection.close()
        raise


def _file(path: Path) -> tuple[int, int] | None:
    """Return which file lies at a path, None where there is none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def _clean(values: Sequence[object]) -> list[object]:
    return [clean_text(one) if isinstance(one, str) else one for one in values]


class World:
    """An open world. One process writes many steps a transaction; other processes may write between two groups."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self.path = path
        self._file = _file(path)
        self._began = 0.0
        self._steps = 0
        self._depth = 0

    @classmethod
    def open(cls, path: Path | str, *, create: bool = True, read_only: bool = False) -> World:
        """Open a world, or make it.

        Raises:
            UsageError: There is none, or the file belongs to something else.
            StorageError: The file cannot be opened or is damaged.
        """
        place = Path(path)
        if not place.exists() and (read_only or not create):
            raise NoWorldError(f"there is no world at {place}", hint="Start one with `combee swarm run FILE`.")
        if place.is_dir():
            raise UsageError(f"{place} is a folder, not a world", hint=f"Name its file, like {place / 'swarm.sqlite'}.")
        with boundary(place):
            if read_only:
                return cls(_to_look_at(place), place)
            place.parent.mkdir(parents=True, exist_ok=True)
            connection = connect(place)
            try:
                # A kill loses nothing that was committed; a power cut may lose the last moments, and tears nothing.
                connection.execute("PRAGMA synchronous=NORMAL")
                migrate(connection, place, WORLD)
            except BaseException:
                connection.close()
                raise
        return cls(connection, place)

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit and close. May be called again."""
        with boundary(self.path):
            if self._db.in_transaction:
                self._db.execute("COMMIT")
            self._db.close()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query, with everything done so far."""
        with boundary(self.path):
            return self._db.execute(sql, _clean(values)).fetchall()

    def one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """Return the first row of a query, or None."""
        with boundary(self.path):
            found: tuple[Any, ...] | None = self._db.execute(sql, _clean(values)).fetchone()
            return found

    def value(self, sql: str, *values: object) -> Any:
        """Return the first column of the first row of a query, or None."""
        row = self.one(sql, *values)
        return row[0] if row else None

    def column(self, sql: str, *values: object) -> list[str]:
        """Return the first column of a query, which holds texts."""
        return [str(row[0]) for row in self.rows(sql, *values)]

    def run(self, sql: str, *values: object) -> sqlite3.Cursor:
        """Write. Only inside `step`."""
        if not self._depth:
            raise UsageError("a world is written inside `with world.step():` only")
        with boundary(self.path):
            return self._db.execute(sql, _clean(values))

    @contextmanager
    def step(self) -> Iterator[None]:
        """Everything inside happens as a whole or not at all; so does a step inside a step."""
        with boundary(self.path):
            if not self._db.in_transaction:
                if _file(self.path) != self._file:  # what were written now, nobody would ever read
                    hint = "Put it back, or start again; what was done since then is lost."
                    raise StorageError(f"{self.path} was deleted or replaced", hint=hint)
                self._db.execute("BEGIN IMMEDIATE")
                self._began, self._steps = time.monotonic(), 0
            self._db.execute("SAVEPOINT step")  # names may repeat: the innermost is meant
        self._depth += 1
        try:
            yield
        except BaseException:
            self._depth -= 1
            with boundary(self.path):
                if self._db.in_transaction:  # a full disk has rolled everything back by itself
                    self._db.execute("ROLLBACK TO step")
                    self._db.execute("RELEASE step")
            if not self._depth:
                self.flush()  # who gives up here must not keep others from writing
            raise
        self._depth -= 1
        with boundary(self.path):
            self._db.execute("RELEASE step")
        self._steps += 1
        if self._depth:
            return
        if self._steps >= _GROUP or time.monotonic() - self._began > _WAIT:
            self.flush()

    def flush(self) -> None:
        """Return when everything done so far is on disk, and let other processes write."""
        with boundary(self.path):
            if self._db.in_transaction and not self._depth:
                self._db.execute("COMMIT")

    def check(self) -> None:
        """Look through the whole file: about a millisecond for a megabyte.

        Raises:
            StorageError: It is damaged.
        """
        found = self.rows("PRAGMA quick_check(1)")
        what = self._strange() if found == [("ok",)] else ""
        if found != [("ok",)] or what:
            what = what or (str(found[0][0]).splitlines()[-1] if found else "nothing can be read")
            hint = "Put back a copy of it; or save what can be read: sqlite3 FILE .recover | sqlite3 NEW"
            raise StorageError(f"{self.path} is damaged: {what}", hint=hint)

    def _strange(self) -> str:
        """Return which table holds a value that is not what its column is for, where one does; SQLite takes any."""
        for (table,) in self.rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"):
            tests = [
                f"typeof({name}) NOT IN ('null', {_KINDS[kind]})"
                for _, name, kind, *_ in self.rows("SELECT * FROM pragma_table_info(?)", table)
                if kind in _KINDS
            ]
            tests += [
                f"CASE WHEN json_valid({column}) THEN json_type({column}, '{at}') END IS NOT '{kind}'"
                for column, at, kind in _SHAPES.get(table, ())
            ]
            if tests and self.one(f"SELECT 1 FROM {table} WHERE {' OR '.join(tests)} LIMIT 1"):  # noqa: S608 - its own names
                return f"a row of the table {table} holds what cannot be there"
        return ""

    def copy(self, path: Path) -> World:
        """Return a world of its own at a new path, with everything that is in this one."""
        self.flush()
        with boundary(path):
            target = sqlite3.connect(path)
            try:
                self._db.backup(target)
            finally:
                target.close()
        return World.open(path, create=False)

    # Agents

    def spawn(
        self,
        name: str,
        *,
        role: str = "peer",
        parent: str = "",
        mode: Mode = "fork",
        returns: Returns = "digest",
        window: int = 100_000,
        key: str | None = None,
        fork: tuple[str, int, int] | None = None,
        root: int | None = None,
        depth: int = 0,
    ) -> AgentRow:
        """Make an agent, live, with an empty context. The same `key` (default: the name) gives the agent made first.

        Raises:
            UsageError: The name is taken by an agent with another key.
        """
        key = key or name
        with self.step():
            if known := self._agents("WHERE key = ?", key):
                return known[0]
            if self.one("SELECT 1 FROM agents WHERE name = ?", name):
                raise UsageError(f"there is an agent {name!r} already", hint="Choose another name.")
            origin, at_row, mark = fork or (None, 0, 0)
            now = time.time()
            values = (name, role, parent, key, mode, returns, window, "live", 1, origin, at_row, mark, now, root, depth)
            self.run(f"INSERT INTO agents VALUES ({','.join('?' * len(values))})", *values)  # noqa: S608 - only marks
            self.run("INSERT INTO incarnations VALUES (?, 1, ?, NULL, NULL)", name, now)
        return AgentRow(name, role, parent, mode, returns, window, "live", 1, origin, at_row, mark, root, depth)

    def agent(self, name: str) -> AgentRow | None:
        """Return an agent, or None."""
        return next(iter(self._agents("WHERE name = ?", name)), None)

    def agents(self, *, forks: bool = False) -> list[AgentRow]:
        """Return all agents in the order they were made; copies that answered only with `forks`."""
        return self._agents("ORDER BY rowid" if forks else "WHERE fork_of IS NULL ORDER BY rowid")

    def _agents(self, which: str, *values: object) -> list[AgentRow]:
        return [AgentRow(*row) for row in self.rows(f"SELECT {_AGENT} FROM agents {which}", *values)]  # noqa: S608 - ours

    def set_state(self, name: str, state: Literal["live", "full", "dead"], reason: str = "") -> None:
        """Say that an agent is full, dead, or well again. A dead one's incarnation has ended."""
        with self.step():
            self.run("UPDATE agents SET state = ? WHERE name = ?", state, name)
            if state == "dead":
                sql = (
                    "UPDATE incarnations SET ended = ?, reason = ? WHERE agent = ? AND ended IS NULL"
                    " AND number = (SELECT incarnation FROM agents WHERE name = ?)"
                )
                self.run(sql, time.time(), reason, name, name)
                self.run("DELETE FROM members WHERE agent = ?", name)
                self.run("DELETE FROM leases WHERE agent = ?", name)
                self.run("UPDATE issues SET owner = NULL, until = NULL WHERE owner = ? AND state = 'open'", name)

    def revive(self, name: str) -> int:
        """Start the next incarnation of an agent: its name, and an empty context. Mail of the last one is not its."""
        with self.step():
            self.set_state(name, "dead", "replaced")
            self.run("UPDATE agents SET state = 'live', incarnation = incarnation + 1 WHERE name = ?", name)
            number = self.value("SELECT incarnation FROM agents WHERE name = ?", name)
            if number is None:
                raise UsageError(f"there is no agent {name!r}")
            self.run("INSERT INTO incarnations VALUES (?, ?, ?, NULL, NULL)", name, number, time.time())
        return int(number)

    # Events and facts about the run

    def record(self, kind: str, agent: str, **data: JSON) -> int:
        """Record an event; returns its number."""
        with self.step():
            sql = "INSERT INTO events (kind, agent, data, at) VALUES (?, ?, ?, ?)"
            return int(self.run(sql, kind, agent, canonical_json(data), time.time()).lastrowid or 0)

    def events(self, kind: str | None = None) -> list[WorldEvent]:
        """Return what was recorded, in order."""
        sql = "SELECT id, kind, agent, data FROM events WHERE ?1 IS NULL OR kind = ?1 ORDER BY id"
        return [WorldEvent(n, what, who, json.loads(data)) for n, what, who, data in self.rows(sql, kind)]

    def meta(self, key: str) -> str | None:
        """Return a fact about the world."""
        found: str | None = self.value("SELECT value FROM meta WHERE key = ?", key)
        return found

    def set_meta(self, key: str, value: str) -> None:
        """Keep a fact about the world."""
        with self.step():
            self.run("INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2", key, value)


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
        # One row a call of a model: who paid which tokens for whose message.
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
    (
        # `root`: the first message of a chain of causes. `lessons`: what goes with a question, kept when it is sent.
        "ALTER TABLE mail ADD COLUMN root INTEGER",
        "ALTER TABLE mail ADD COLUMN lessons TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE lessons (id TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID",
        "ALTER TABLE spend ADD COLUMN root INTEGER",
        "CREATE INDEX spend_root ON spend (root)",
        "ALTER TABLE agents ADD COLUMN root INTEGER",
        "ALTER TABLE agents ADD COLUMN depth INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX agents_root ON agents (root) WHERE root IS NOT NULL",
        # `until`: when what is held falls back, in seconds since 1970; NULL: held until it is let go.
        "ALTER TABLE issues ADD COLUMN until REAL",
        (
            "CREATE TABLE leases (path TEXT PRIMARY KEY, agent TEXT NOT NULL, incarnation INTEGER NOT NULL,"
            " until REAL NOT NULL) WITHOUT ROWID"
        ),
        # Who may read: names or roles, one a line; a document that no pattern names is read by all.
        "ALTER TABLE notes ADD COLUMN readers TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE readers (pattern TEXT PRIMARY KEY, names TEXT NOT NULL) WITHOUT ROWID",
    ),
)

_KINDS = {"TEXT": "'text'", "INTEGER": "'integer'", "REAL": "'real', 'integer'"}
_SHAPES = {
    "mail": [("tried", "$", "array")],
    "context": [("calls", "$", "array")],
    "events": [("data", "$", "object")],
    "structures": [("data", "$.edges", "array"), ("data", "$.roles", "object")],
    "lessons": [("data", "$.book", "text")],
}
"""Columns that hold JSON: what must stand where in it."""

WORLD = Schema(0x436D6277, _MIGRATIONS, "Give the file of a world, or a new one.")  # "Cmbw"
