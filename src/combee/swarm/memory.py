"""Notes on disk with full-text search: a pointer finds one again, and a stamp tells when its source has changed."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from combee.swarm.world import World, row_number

__all__ = ["Note", "note", "recall", "search_notes"]

_WORD = re.compile(r"\w+")


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


def note(world: World, agent: str, text: str, *, path: str = "", version: str = "") -> str:
    """Keep a text; returns its pointer. With `path`, it is stamped with the version read."""
    with world.step():
        sql = "INSERT INTO notes (agent, text, path, version, at) VALUES (?, ?, ?, ?, ?)"
        row = world.run(sql, agent, text, path, version, time.time()).lastrowid
        world.run("INSERT INTO notes_text (rowid, text) VALUES (?, ?)", row, text)
    return f"note:{row}"


def recall(world: World, pointer: str) -> Note | None:
    """Return the note of a pointer, or None."""
    return _note(world.one(f"{_SELECT} WHERE n.id = ?", row_number(pointer.removeprefix("note:"))))


def search_notes(world: World, query: str, *, agent: str | None = None, limit: int = 5) -> list[Note]:
    """Return the notes that match any word of a query best, one agent's or all; ties in the order they were written."""
    words = " OR ".join(f'"{word}"' for word in _WORD.findall(query))
    if not words:
        return []
    sql = (
        f"{_SELECT} JOIN notes_text t ON t.rowid = n.id WHERE notes_text MATCH ?1 AND (?2 IS NULL OR n.agent = ?2)"
        " ORDER BY bm25(notes_text), n.id LIMIT ?3"
    )
    return [found for row in world.rows(sql, words, agent, limit) if (found := _note(row))]


def _note(row: tuple[Any, ...] | None) -> Note | None:
    return Note(row[0], row[1], row[2], row[3], row[4], bool(row[5])) if row else None
