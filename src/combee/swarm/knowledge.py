"""What is in the world and who knows it: versioned documents, issues, notes, and the directory of who has read what.

The directory is written by reading, not by claiming: each read of a document credits the reader with its path and the
version it saw. A note found again by its pointer tells when its source has changed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import PurePosixPath

from combee.errors import UsageError
from combee.swarm.world import AgentRow, World, row_number

__all__ = [
    "ALL",
    "Document",
    "Issue",
    "Knows",
    "Lease",
    "Note",
    "close_issue",
    "credit",
    "is_secret",
    "issues",
    "lease",
    "leased",
    "leases",
    "note",
    "open_issue",
    "publish",
    "read",
    "reader_of",
    "recall",
    "release",
    "search_notes",
    "set_readers",
    "subjects",
    "take_issue",
    "who_knows",
]


@dataclass(frozen=True, slots=True)
class Document:
    """One version of a document; versions count from 1."""

    path: str
    version: int
    body: str
    author: str


@dataclass(frozen=True, slots=True)
class Knows:
    """An agent that has read a subject: how often, which version last, and whether that version is the newest."""

    agent: str
    count: int
    version: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class Issue:
    """Work that is known to be there; `state` is open or closed. Nobody owns it whose hold of it has run out."""

    id: int
    title: str
    body: str
    state: str
    owner: str | None
    author: str


ALL = "all"
"""The name that stands for every reader."""

_ASKABLE = "a.state = 'live' AND a.mode IN ('fork', 'serial') AND a.fork_of IS NULL"


def publish(world: World, path: str, body: str, author: str) -> int:
    """Write the next version of a document; returns its number. The same text again makes none."""
    with world.step():
        row = world.one("SELECT version, body FROM artefacts WHERE path = ? ORDER BY version DESC LIMIT 1", path)
        if row is not None and row[1] == body:
            return int(row[0])
        version = int(row[0]) + 1 if row else 1
        world.run("INSERT INTO artefacts VALUES (?, ?, ?, ?, ?)", path, version, body, author, time.time())
    return version


def read(world: World, path: str, version: int | None = None) -> Document | None:
    """Return a document in its newest or a given version."""
    sql = (
        "SELECT path, version, body, author FROM artefacts WHERE path = ?1 AND (?2 IS NULL OR version = ?2)"
        " ORDER BY version DESC LIMIT 1"
    )
    row = world.one(sql, path, version)
    return Document(*row) if row else None


def credit(world: World, agent: str, incarnation: int, subject: str, version: str) -> None:
    """Note in the directory that an agent has read a subject in a version; "": it heard of it, in none."""
    sql = (
        "INSERT INTO reads VALUES (?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1,"
        " version = coalesce(nullif(excluded.version, ''), version)"
    )
    with world.step():
        world.run(sql, agent, incarnation, subject, version)


def who_knows(world: World, subject: str, exclude: tuple[str, ...] = (), limit: int = 3) -> list[Knows]:
    """Return live agents that have read a subject, the newest version and the most reads first.

    When nobody has, the folder above it is tried, and so on up: who has read the neighbours is the next best.
    """
    while subject:
        found = _readers(world, subject, exclude, limit)
        if found:
            return found
        subject = subject.rstrip("/")
        subject = subject[: subject.rfind("/") + 1]
    return []


def _readers(world: World, subject: str, exclude: tuple[str, ...], limit: int) -> list[Knows]:
    newest = world.value("SELECT max(version) FROM artefacts WHERE path = ?", subject)
    version = None if newest is None else str(newest)
    under = "r.subject = ?1" if not subject.endswith("/") else "r.subject >= ?1 AND r.subject < ?1 || char(1114111)"
    marks = ",".join(f"?{number + 4}" for number in range(len(exclude)))
    sql = (
        "SELECT r.agent, sum(r.count) AS n, max(r.version), max(r.version = ?2) AS fresh"  # noqa: S608 - constants and marks
        f" FROM reads r JOIN agents a ON a.name = r.agent AND a.incarnation = r.incarnation WHERE {under}"
        f" AND {_ASKABLE} AND r.agent NOT IN ({marks})"
        " GROUP BY r.agent ORDER BY fresh DESC, n DESC, r.agent LIMIT ?3"
    )
    rows = world.rows(sql, subject, version, limit, *exclude)
    return [Knows(agent, n, seen, version is None or bool(fresh)) for agent, n, seen, fresh in rows]


def subjects(world: World, limit: int = 30) -> list[str]:
    """Return what live agents have read, the most read first."""
    sql = (
        "SELECT r.subject FROM reads r JOIN agents a ON a.name = r.agent AND a.incarnation = r.incarnation"  # noqa: S608 - a constant
        f" WHERE {_ASKABLE} GROUP BY r.subject ORDER BY sum(r.count) DESC, r.subject LIMIT ?"
    )
    return world.column(sql, limit)


def open_issue(world: World, title: str, body: str, author: str, *, key: str) -> int:
    """Open an issue; the same key again gives the one opened first."""
    sql = "INSERT OR IGNORE INTO issues (key, title, body, state, owner, author, at) VALUES (?,?,?,'open',NULL,?,?)"
    with world.step():
        world.run(sql, key, title, body, author, time.time())
        return int(world.value("SELECT id FROM issues WHERE key = ?", key))


def take_issue(world: World, number: int, agent: str, *, until: float | None = None) -> bool:
    """Take an open issue, until a time where one is given. False when another holds it: nobody takes what is taken."""
    sql = (
        "UPDATE issues SET owner = ?1, until = ?3 WHERE id = ?2 AND state = 'open'"
        " AND (owner IS NULL OR owner = ?1 OR until < ?4)"
    )
    with world.step():
        return world.run(sql, agent, number, until, time.time()).rowcount == 1


def close_issue(world: World, number: int, agent: str) -> bool:
    """Close an issue. False when the agent does not hold it."""
    with world.step():
        sql = "UPDATE issues SET state = 'closed' WHERE id = ? AND state = 'open' AND owner = ?"
        return world.run(sql, number, agent).rowcount == 1


def issues(world: World, state: str | None = "open") -> list[Issue]:
    """Return issues in the order they were opened.

    Raises:
        UsageError: The state is neither open nor closed.
    """
    if state not in {None, "open", "closed"}:
        raise UsageError(f"an issue is open or closed, not {state!r}")
    sql = (
        "SELECT id, title, body, state, iif(state = 'open' AND until < ?2, NULL, owner), author FROM issues"
        " WHERE ?1 IS NULL OR state = ?1 ORDER BY id"
    )
    return [Issue(*row) for row in world.rows(sql, state, time.time())]


_WORD = re.compile(r"\w+")
_UNPARTED = re.compile("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]")
"""Letters of Chinese, Japanese and Korean: words are not, or not always, parted by blanks."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A path that one agent works on, with everything below it, until a time."""

    path: str
    agent: str
    until: float


def lease(world: World, path: str, agent: AgentRow, seconds: float) -> Lease | None:
    """Lease a path, or lease it for longer; returns None when it is done, else the lease that stands in the way.

    Raises:
        UsageError: It is no path of anything.
    """
    path = _plain(path)
    if not path.strip("./"):
        raise UsageError("say which path you lease")
    with world.step():
        other = leased(world, path, agent.name)
        if other is None:
            sql = "INSERT INTO leases VALUES (?1, ?2, ?3, ?4) ON CONFLICT (path) DO UPDATE SET agent=?2, until=?4"
            world.run(sql, path, agent.name, agent.incarnation, time.time() + seconds)
    return other


def release(world: World, path: str, agent: str) -> bool:
    """Let a path go. False when the agent had no lease of it."""
    with world.step():
        return world.run("DELETE FROM leases WHERE path = ? AND agent = ?", _plain(path), agent).rowcount == 1


def leases(world: World) -> list[Lease]:
    """Return the leases that hold now."""
    return [
        Lease(*row)
        for row in world.rows("SELECT path, agent, until FROM leases WHERE until > ? ORDER BY path", time.time())
    ]


def leased(world: World, path: str, agent: str) -> Lease | None:
    """Return the lease of another agent that covers a path or lies below it, or None."""
    return next((one for one in leases(world) if one.agent != agent and _overlap(one.path, path)), None)


def _overlap(a: str, b: str) -> bool:
    one, other = _plain(a), _plain(b)
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _plain(path: str) -> str:
    """Return a path without what leaves it the same: `./`, `//`, a slash at its end."""
    return PurePosixPath(path).as_posix()


def set_readers(world: World, rules: Mapping[str, Sequence[str]]) -> None:
    """Let only agents of these names or roles read the documents that a pattern names, like `plans/*`."""
    with world.step():
        world.run("DELETE FROM readers")
        for pattern, names in rules.items():
            world.run("INSERT INTO readers VALUES (?, ?)", pattern, "\n".join(names))


def reader_of(world: World, agent: AgentRow) -> Callable[[str], bool]:
    """Return what says whether an agent may read a path; copies and agents that it made may read what it may."""
    who = agent
    while who.mode == "once" or who.fork_of is not None:
        above = world.agent(who.fork_of or who.parent)
        if above is None:
            break
        who = above
    own = {ALL, who.name, who.role}
    rules = [(pattern, set(names.split("\n"))) for pattern, names in world.rows("SELECT pattern, names FROM readers")]

    def may(path: str) -> bool:
        return not is_secret(path) and all(own & names for pattern, names in rules if fnmatchcase(path, pattern))

    return may


_SECRET = re.compile(
    r"(^|/)(\.env(\.(?!example$|sample$|template$)[^/]*)?|\.envrc|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.htpasswd|\.git-credentials"
    r"|\.dockerconfigjson|id_(rsa|dsa|ecdsa|ed25519)|credentials(\.[^/]*)?|secrets?\.(ya?ml|json|toml|ini|txt|env)"
    r"|[^/]*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|tfstate|env)|(\.ssh|\.aws|\.gnupg|\.azure|\.kube|\.git)(/.*)?)$",
    re.IGNORECASE,
)


def is_secret(path: str) -> bool:
    """Return whether a file is of a kind that keeps keys and passwords: no agent reads or writes it."""
    return _SECRET.search(path) is not None


@dataclass(frozen=True, slots=True)
class Note:
    """A note. `stale`: the document it was taken from has a newer version than the one read (`version`)."""

    id: int
    agent: str
    text: str
    path: str
    version: str
    stale: bool

    @property
    def pointer(self) -> str:
        """The name under which `recall` gives it back."""
        return f"note:{self.id}"


_SELECT = (
    "SELECT n.id, n.agent, n.text, n.path, n.version, n.path != '' AND n.version !="
    " coalesce((SELECT CAST(max(version) AS TEXT) FROM artefacts a WHERE a.path = n.path), n.version)"
    " FROM notes n"
)


_MINE = (
    "(?2 IS NULL OR n.agent = ?2 OR instr(n.readers, char(10) || ?2 || char(10))"
    f" OR instr(n.readers, char(10) || '{ALL}' || char(10)))"
)


def note(world: World, agent: str, text: str, *, path: str = "", version: str = "", readers: Sequence[str] = ()) -> str:
    """Keep a text for its author and the readers named; returns its pointer.

    With `path`, it is stamped with the version read.
    """
    with world.step():
        sql = "INSERT INTO notes (agent, text, path, version, at, readers) VALUES (?, ?, ?, ?, ?, ?)"
        names = "".join(f"\n{name}" for name in readers) + "\n"
        row = world.run(sql, agent, text, path, version, time.time(), names).lastrowid
        world.run("INSERT INTO notes_text (rowid, text) VALUES (?, ?)", row, " ".join(_parted(text)))
    return f"note:{row}"


def recall(world: World, pointer: str, agent: str | None = None) -> Note | None:
    """Return the note of a pointer that an agent may read, or None; without an agent, whosever it is."""
    found = _notes(world, f"WHERE n.id = ?1 AND {_MINE}", row_number(pointer.removeprefix("note:")), agent)
    return next(iter(found), None)


def _parted(text: str) -> list[str]:
    """Return the words of a text; of what is written without blanks, the letters."""
    return _UNPARTED.sub(r" \g<0> ", text).split()


def _sought(query: str) -> list[str]:
    """Return what is looked for: words, and pairs of letters where there are no blanks between words."""
    found: list[str] = []
    for word in _WORD.findall(query):
        letters = _parted(word)
        found += letters if len(letters) == 1 else [f"{one} {other}" for one, other in pairwise(letters)]
    return found


def search_notes(world: World, query: str, *, agent: str | None = None, limit: int = 5) -> list[Note]:
    """Return the notes that match any word of a query best, of those that an agent may read, or of all.

    Ties stand in the order they were written.
    """
    words = " OR ".join(f'"{word}"' for word in _sought(query))
    if not words:
        return []
    matching = f"JOIN notes_text t ON t.rowid = n.id WHERE notes_text MATCH ?1 AND {_MINE}"
    return _notes(world, f"{matching} ORDER BY bm25(notes_text), n.id LIMIT ?3", words, agent, limit)


def _notes(world: World, which: str, *values: object) -> list[Note]:
    return [Note(*(*row[:-1], bool(row[-1]))) for row in world.rows(f"{_SELECT} {which}", *values)]
