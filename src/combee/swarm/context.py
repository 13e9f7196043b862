"""Contexts on disk: every entry of every incarnation, also what compaction took out, so that a killed agent goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace

from combee.swarm.mail import open_asks, unanswered
from combee.swarm.window import Call, Entry, Window
from combee.swarm.world import AgentRow, World

__all__ = ["append", "compact", "history", "load", "restated"]

_COLUMNS = "id, role, kind, text, tokens, mail, calls, answers"
_ROSTER = 12  # peers that are named; the directory finds the others


def append(world: World, agent: AgentRow, window: Window, entry: Entry) -> Entry:
    """Add an entry to a window and to the world, as one."""
    with world.step():
        calls = json.dumps([[call.id, call.name, call.arguments] for call in entry.calls]) if entry.calls else "[]"
        sql = (
            "INSERT INTO context (agent, incarnation, role, kind, text, tokens, mail, calls, answers, at)"
            " VALUES (?,?,?,?,?,?,?,?,?,?)"
        )
        values = (entry.role, entry.kind, entry.text, entry.tokens, entry.mail, calls, entry.answers, time.time())
        row = world.run(sql, agent.name, agent.incarnation, *values).lastrowid
    stored = replace(entry, row=int(row or 0))
    window.add(stored)
    return stored


def load(world: World, agent: AgentRow) -> Window:
    """Return the window of an agent as it was when the last step was done."""
    window = Window(agent.window)
    if agent.fork_of is not None:
        origin = world.agent(agent.fork_of)
        if origin is not None:
            window = Window(agent.window, _entries(world, origin, agent.fork_row, agent.fork_mark))
    for entry in _entries(world, agent):
        window.add(entry)
    return window


def history(world: World, agent: AgentRow) -> list[Entry]:
    """Return everything that ever stood in the context of an agent's present incarnation, in order."""
    return _entries(world, agent, dropped=True)


def _entries(
    world: World, agent: AgentRow, until: int | None = None, mark: int | None = None, *, dropped: bool = False
) -> list[Entry]:
    """Return entries up to a row, as they were before any compaction later than `mark`."""
    sql = (
        f"SELECT {_COLUMNS} FROM context WHERE agent = ?1 AND incarnation = ?2 AND (?3 IS NULL OR id <= ?3)"  # noqa: S608 - our own columns
        " AND (dropped IS NULL OR dropped > ?4 OR (?5 AND kind != 'moved')) ORDER BY id"
    )
    rows = world.rows(sql, agent.name, agent.incarnation, until, mark, dropped)
    return [
        Entry(role, text, kind, tuple(Call(*call) for call in json.loads(calls)), answers, mail, row, tokens)
        for row, role, kind, text, tokens, mail, calls, answers in rows
    ]


def compact(
    world: World, agent: AgentRow, window: Window, kept: Sequence[Entry], strategy: str, *, tail: Sequence[Entry] = ()
) -> None:
    """Put `kept`, what the world says now (roster, open asks) and `tail` in the place of all entries; record that.

    Entries of the tail move behind the rest; their old rows are marked, so that `history` has them once.
    """
    before, entries = window.used, len(window.entries)
    with world.step():
        mark = world.record("compacted", agent.name, strategy=strategy, before=before, entries=entries)
        last = max((entry.row for entry in window.entries), default=0)
        sql = "UPDATE context SET dropped = ? WHERE agent = ? AND incarnation = ? AND id <= ? AND dropped IS NULL"
        world.run(sql, mark, agent.name, agent.incarnation, last)
        # A copy owns no rows of its origin's: what it keeps of them it writes as its own.
        own = [entry for entry in kept if entry.row > agent.fork_row] if agent.fork_of else [e for e in kept if e.row]
        for entry in own:
            world.run("UPDATE context SET dropped = NULL WHERE id = ?", entry.row)
        if agent.fork_of is not None:
            world.run("UPDATE agents SET fork_row = 0 WHERE name = ?", agent.name)
        window.replace(own)
        for entry in kept:
            if entry not in own:
                append(world, agent, window, entry)
        append(world, agent, window, restated(world, agent))
        for entry in tail:
            world.run("UPDATE context SET kind = 'moved' WHERE id = ?", entry.row)
            append(world, agent, window, entry)


def restated(world: World, agent: AgentRow) -> Entry:
    """Return what an agent must never have to remember: who it is, who is there, and which questions are open."""
    live = "FROM agents WHERE state = 'live' AND mode IN ('fork', 'serial') AND fork_of IS NULL AND name != ?"
    total = world.one(f"SELECT count(*) {live}", agent.name)
    peers = world.rows(f"SELECT name, role {live} ORDER BY rowid LIMIT ?", agent.name, _ROSTER)
    lines = [f"You are {agent.name} ({agent.role}). {total[0] if total else 0} peers live."]
    lines += [f"- {name} ({role})" for name, role in peers]
    lines += [f"Open: you asked {mail.recipient}: {mail.body}" for mail in open_asks(world, agent.name)]
    asked = unanswered(world, agent.origin)
    if agent.fork_of is not None:  # a copy was made for one question
        asked = [mail for mail in asked if agent.name == f"{agent.fork_of}~{mail.id}"]
    lines += [f"Open: {mail.sender} asked you: {mail.body}" for mail in asked]
    return Entry("user", "\n".join(lines), kind="roster")
