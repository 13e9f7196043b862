"""What an agent is told beside its messages: who it is and what is open, and the lessons that fit a question.

A view of the playbook is delivered as an entry of the context, in the step that delivers the question. So it is metered
like any other text, stands in the trace, is there again after a kill, and the start of the context stays as it was
(prefix caches).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from combee.kernel.journal import canonical_json, hash_json
from combee.kernel.playbook import Bullet, Playbook, from_json, to_json, view
from combee.model.operations import find_ids
from combee.redaction.orders import KINDS, orders
from combee.swarm.context import Entry, whole_lines
from combee.swarm.knowledge import issues
from combee.swarm.mail import Mail, open_asks, unanswered
from combee.swarm.world import PEERS, AgentRow, World

__all__ = [
    "COPY",
    "LESSONS",
    "ROSTER",
    "Lessons",
    "briefing",
    "cited",
    "delivered",
    "held_back",
    "indented",
    "kept_lessons",
    "lessons_entry",
    "one_line",
    "printable",
    "spelled",
]

LESSONS = "lessons"
"""The kind of entry that holds a view."""

ROSTER = "roster"
"""The kind of entry that holds a briefing."""

COPY = "You are a copy made for one question: you read and ask, and change nothing; put what matters into the answer."

_NAMED = 12  # peers that are named; the directory finds the others
_HEAD = "Lessons from earlier runs. Name the [id] of each one that you use."


@dataclass(frozen=True, slots=True)
class Lessons:
    """A playbook and how much of it goes with a question.

    Attributes:
        book: The playbook.
        tokens: Most that a view may have, by the book's own counter; None: the whole book, whatever it takes.
        targeted: Choose by role and question; else the bullets that were voted best, the same for everyone.
    """

    book: Playbook
    tokens: int | None = 2000
    targeted: bool = True

    def view(self, role: str, question: str) -> Playbook:
        """Return the part for an agent of a role that is asked a question; nothing that is held back is in it."""
        held = {bullet.id for bullet, _ in held_back(self.book)}
        bullets = tuple(bullet for bullet in self.book if bullet.id not in held)
        book = replace(self.book, bullets=bullets) if held else self.book
        if self.tokens is None:
            return book
        return view(book, f"{role} {question}" if self.targeted else "", self.tokens)

    def keep(self, world: World) -> str:
        """Keep these lessons in a world; returns the name under which `kept_lessons` gives them back."""
        data = canonical_json({"book": to_json(self.book), "tokens": self.tokens, "targeted": self.targeted})
        name = hash_json(data)[:16]
        with world.step():
            world.run("INSERT OR IGNORE INTO lessons VALUES (?, ?)", name, data)
        return name


_NEVER = {"send", "secrets", "override", "destroy", "fetch_and_run"}


@lru_cache(maxsize=10_000)
def _ordered(text: str) -> tuple[str, ...]:
    return tuple(KINDS[kind] for kind in orders(text) if kind in _NEVER)


def held_back(book: Playbook) -> list[tuple[Bullet, tuple[str, ...]]]:
    """Return the lessons that no agent is shown, and why: they order what no lesson may, wherever they came from."""
    return [(bullet, why) for bullet in book if (why := _ordered(bullet.text))]


def kept_lessons(world: World, name: str) -> Lessons | None:
    """Return the lessons that `Lessons.keep` kept under a name, or None."""
    kept = world.value("SELECT data FROM lessons WHERE id = ?", name)
    if kept is None:
        return None
    data = json.loads(kept)
    return Lessons(from_json(data["book"]), data["tokens"], data["targeted"])


def lessons_entry(lessons: Lessons | None, role: str, question: str, before: Sequence[Entry]) -> Entry | None:
    """Return the view as an entry, or None where there is nothing to say or the last view in the context says it."""
    shown = lessons.view(role, question) if lessons is not None else Playbook()
    if not shown:
        return None
    text = "\n".join([_HEAD, *map(_line, shown)])
    last = next((entry for entry in reversed(before) if entry.kind == LESSONS), None)
    return None if last is not None and last.text == text else Entry("user", text, kind=LESSONS)


def _line(bullet: Bullet) -> str:
    return f"[{bullet.id}] {' '.join(bullet.text.split())}"


def cited(texts: Sequence[str], book: Playbook) -> tuple[str, ...]:
    """Return the bullets of a book that an agent named, each once, in the order it named them."""
    return find_ids("\n".join(texts), book).known


def delivered(mail: Mail, sender: AgentRow | None) -> str:
    """Return a message as it stands in a context. The runtime says who sent it; no text can begin a line of its own."""
    verb = {"ask": "asks", "answer": "answers", "tell": "says", "report": "reports", "digest": "(copy)"}[mail.kind]
    return f"{sender.origin if sender is not None else mail.sender} {verb}: {indented(mail.body)}"


def indented(text: str) -> str:
    """Return a text whose lines after the first are set in, so that none looks like one of the runtime's."""
    return "\n  ".join(text.splitlines())


def briefing(world: World, agent: AgentRow, rules: str | None = None, paths: Sequence[str] = ()) -> Entry:
    """Return what an agent must never have to remember: who it is, who and what is there, which questions are open.

    A script (without `rules`) is told what it cannot know: its peers and the open questions. The rest gets a bounded
    part of the window, what matters most first.
    """
    live = f"FROM agents WHERE {PEERS} AND name != ?"
    total = world.value(f"SELECT count(*) {live}", agent.origin)
    peers = world.rows(f"SELECT name, role {live} ORDER BY rowid LIMIT ?", agent.origin, _NAMED)
    named = [f"{name} ({one_line(role)})" for name, role in peers]
    asked = unanswered(world, agent.origin)
    if agent.fork_of is not None:  # a copy was made for one question
        asked = [mail for mail in asked if agent.name == f"{agent.fork_of}~{mail.id}"]
    unlimited = 10**9
    most = unlimited if rules is None else agent.window // 4  # characters of each: a sixteenth of the window
    waits = [f"Open: you asked {mail.recipient}: {indented(mail.body)[:most]}" for mail in open_asks(world, agent.name)]
    waits += [f"Open: {_name(world, mail.sender)} asked you: {indented(mail.body)[:most]}" for mail in asked]
    if rules is None:
        lines = [f"You are {agent.name} ({agent.role}). {total} peers live.", *(f"- {peer}" for peer in named), *waits]
        return Entry("user", "\n".join(lines), kind=ROSTER)
    lines = [f"You are {agent.origin}, role {one_line(agent.role)}.", rules, *waits]
    lines[1:1] = [COPY] if agent.fork_of is not None else []
    return Entry("user", whole_lines([*lines, *_around(world, agent, named, total, paths)], agent.window // 6), ROSTER)


def _around(world: World, agent: AgentRow, peers: Sequence[str], total: int, paths: Sequence[str]) -> Iterator[str]:
    """Yield a line each for the peers, channels, documents and issues that there are."""
    more = f" and {total - len(peers)} more, see `peers`" if total > len(peers) else ""
    yield f"Peers, to `ask` by name or by the path that they know: {', '.join(peers) or 'none'}{more}."
    sql = "SELECT channel, count(*) FROM members GROUP BY 1 HAVING max(agent = ?) ORDER BY 1 LIMIT 8"
    channels = [f"{one_line(name)} ({number} members)" for name, number in world.rows(sql, agent.origin)]
    if channels:
        yield f"Your channels: {', '.join(channels)}."
    if paths:
        first = ", ".join(one_line(path) for path in paths[:6])
        yield f"{len(paths)} documents, see `documents`: {first}{' ...' if len(paths) > 6 else ''}."
    found = issues(world)
    if found:
        own = [f"{one.id} {one_line(one.title)}" for one in found if one.owner == agent.origin]
        yield f"{len(found)} open issues, see `issues`.{' Yours: ' + ', '.join(own) + '.' if own else ''}"


def _name(world: World, sender: str) -> str:
    row = world.agent(sender)
    return row.origin if row is not None else sender


def spelled(text: str) -> str:
    """Return a text in one line, with what cannot be printed spelled out: a path may hold it too."""
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return a text of an agent for a person's terminal, which it can neither colour, clear nor command."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """Return the start of a text that others wrote, in one line."""
    return spelled(" ".join(text.split())[:60])
