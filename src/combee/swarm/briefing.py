"""What an agent is told beside its messages: who it is and what is open, and the lessons that fit a question.

A view of the playbook is delivered as an entry of the context, in the step that delivers the question. So it is metered
like any other text, stands in the trace, is there again after a kill, and the start of the context stays as it was
(prefix caches).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from combee.kernel.playbook import Bullet, Playbook, find_ids, view
from combee.swarm.context import Entry
from combee.swarm.mail import open_asks, unanswered
from combee.swarm.world import AgentRow, World

__all__ = ["LESSONS", "Lessons", "cited", "lessons_entry", "restated"]

LESSONS = "lessons"
"""The kind of entry that holds a view."""

_ROSTER = 12  # peers that are named; the directory finds the others
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
        """Return the part for an agent of a role that is asked a question."""
        if self.tokens is None:
            return self.book
        return view(self.book, f"{role} {question}" if self.targeted else "", self.tokens)


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
