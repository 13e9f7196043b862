"""Mail between agents: sent once by key, bound to one incarnation, put into a context in the step that marks it.

A message is queued, then delivered (it stands in the recipient's context), then done. A kill between any two leaves it
where it was; nothing is sent, delivered or answered twice.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, fields
from typing import Literal

from combee.kernel.journal import hash_json
from combee.swarm.context import count
from combee.swarm.world import World

__all__ = [
    "EVERYONE",
    "HOP_LIMIT",
    "About",
    "Kind",
    "Mail",
    "Sent",
    "awaited",
    "finish",
    "get_mail",
    "group",
    "join",
    "key_of",
    "members",
    "most_for",
    "open_asks",
    "open_to",
    "post",
    "ready",
    "send",
    "unanswered",
]

Kind = Literal["ask", "answer", "tell", "report", "digest"]
"""A question; its answer; news; word that no answer will come; what a copy brings back to the agent it is a copy of."""

EVERYONE = "all"
"""The channel of everyone who joined it: each agent from outside."""

HOP_LIMIT = 16
"""A message caused by a message caused by ...: the longest such chain."""


@dataclass(frozen=True, slots=True)
class Mail:
    """One message to one incarnation; see the table `mail` for the fields."""

    id: int
    key: str
    kind: Kind
    sender: str
    recipient: str
    incarnation: int
    target: str
    subject: str
    body: str
    tokens: int
    thread: int | None = None
    cause: int | None = None
    origin: int | None = None
    hops: int = 0
    tried: tuple[str, ...] = ()
    state: str = "queued"
    answered: int | None = None
    root: int | None = None
    lessons: str = ""

    @property
    def first(self) -> int:
        """The first message of the chain of causes; what is spent for its sake has one limit."""
        return self.root or self.id


_NAMES = tuple(one.name for one in fields(Mail))
_COLUMNS = ", ".join(f"m.{name}" for name in _NAMES)
_OPEN = "m.kind = 'ask' AND m.answered IS NULL"


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a send: the number of the message, or why it was refused ("dead", "unknown", "too long: ...")."""

    id: int = 0
    refused: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class About:
    """What a message belongs to; all of it may be missing."""

    subject: str = ""
    """Path that it is about."""
    target: str = ""
    """Whom it is for, where the recipient only hands it on."""
    thread: int | None = None
    """The question that an answer or a report belongs to."""
    cause: int | None = None
    """The message that its sender was working on."""
    origin: int | None = None
    """The first of a question that was sent again elsewhere."""
    tried: tuple[str, ...] = ()
    """Who was asked before and is dead or full."""
    lessons: str = ""
    """The lessons that go with a question; those of its cause where nothing is given."""
    root: int | None = None
    """The first message of the chain of causes, where neither thread nor cause leads to it."""


NOTHING = About()


def _mail(world: World, where: str, *given: object, order: str = "m.id", limit: int = -1) -> list[Mail]:
    """Return the messages `m`, of which `q` is the one that they answer, that fulfil a condition."""
    sql = (
        f"SELECT {_COLUMNS} FROM mail m {'JOIN mail q ON m.id = q.answered' * ('q.' in where)}"  # noqa: S608 - our own words
        f" WHERE {where} ORDER BY {order} LIMIT {limit}"
    )
    found = (dict(zip(_NAMES, row, strict=True)) for row in world.rows(sql, *given))
    return [Mail(**{**values, "tried": tuple(json.loads(values["tried"]))}) for values in found]


def get_mail(world: World, number: int) -> Mail | None:
    """Return a message by its number."""
    return next(iter(_mail(world, "m.id = ?", number)), None)


def ready(world: World, after: int = 0, limit: int = 256, *, digests: bool = True) -> list[Mail]:
    """Return messages that are not done, in the order they were sent, those after a number only."""
    but = "" if digests else "AND m.kind != 'digest'"
    return _mail(world, f"m.state IN ('queued', 'delivered') {but} AND m.id > ?", after, limit=limit)


def send(
    world: World,
    *,
    key: str,
    kind: Kind,
    sender: str,
    recipient: str,
    body: str,
    about: About = NOTHING,
    hop_limit: int = HOP_LIMIT,
) -> Sent:
    """Send a message, bound to the recipient's present incarnation.

    Sending the same key again changes nothing and gives the first message's number. A recipient that is dead or
    unknown, a text that its window can never take, and a chain of causes over the limit, are refused and recorded; what
    goes back is never too long a chain.
    """
    with world.step():
        known = world.value("SELECT id FROM mail WHERE key = ?", key)
        if known is not None:
            return Sent(int(known), again=True)
        row = world.one("SELECT state, incarnation, mode, window FROM agents WHERE name = ?", recipient)
        why = "unknown" if row is None else "dead" if row[0] == "dead" else ""
        tokens = count(body)
        if row is not None and kind in {"ask", "tell"} and row[3] and tokens > most_for(row[3]):  # a person has none
            why = f"too long: {tokens:,} tokens, {recipient} takes at most {most_for(row[3]):,}"
        back = kind in {"answer", "report"}
        parent = about.thread if back else about.cause
        sql = "SELECT hops, coalesce(root, id), lessons FROM mail WHERE id = ?"
        above = world.one(sql, parent) if parent is not None else None
        # What goes back undoes a step; only what goes on makes the chain longer.
        hops = 0 if above is None else int(above[0]) + (kind in {"ask", "tell"}) + len(about.tried)
        if hops > hop_limit and not back:
            why = "hops"
        if row is None or why:
            world.record("refused", recipient, why=why, sender=sender, key=key)
            return Sent(refused=why)
        state = "inbox" if row[2] == "outside" else "queued"
        values = (key, kind, sender, recipient, row[1], about.target, about.subject, body, tokens)
        sql = (
            "INSERT INTO mail (key, kind, sender, recipient, incarnation, target, subject, body, tokens, thread,"
            " cause, origin, hops, tried, state, at, root, lessons) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
        )
        belongs = (about.thread, about.cause, about.origin, hops, json.dumps(about.tried))
        root, lessons = (about.root, "") if above is None else (above[1], above[2])
        lessons = (about.lessons or lessons) if kind == "ask" else ""
        number = int(world.run(sql, *values, *belongs, state, time.time(), root, lessons).lastrowid or 0)
        if back and about.thread is not None:
            for which in ("id", "origin"):
                sql = f"UPDATE mail SET answered = ? WHERE {which} = ? AND answered IS NULL"  # noqa: S608 - our own columns
                world.run(sql, number, about.thread)
    return Sent(number)


def most_for(window: int) -> int:
    """Return the tokens that one message to an agent may have: beside it stand a summary, and room to answer."""
    return window * 3 // 4


def key_of(*parts: object) -> str:
    """Return the key of what one thing leads to; long ones end in a hash, so that none grows without end."""
    text = "/".join(map(str, parts))
    return text if len(text) <= 160 else f"{text[:40]}...{hash_json(text)}"


def finish(world: World, number: int, state: Literal["delivered", "done", "bounced"]) -> bool:
    """Move a message on; False when it was there already, so that a second delivery does nothing."""
    before = {"delivered": ("queued", "queued"), "done": ("queued", "delivered"), "bounced": ("queued", "delivered")}
    with world.step():
        sql = "UPDATE mail SET state = ? WHERE id = ? AND state IN (?, ?)"
        return world.run(sql, state, number, *before[state]).rowcount == 1


def open_asks(world: World, sender: str, cause: int | None = None) -> list[Mail]:
    """Return the questions an agent has asked and that nobody has answered, those for one cause if given."""
    where = f"{_OPEN} AND m.sender = ?1 AND m.origin IS NULL AND (?2 IS NULL OR m.cause = ?2)"
    return _mail(world, where, sender, cause)


def open_to(world: World, recipient: str) -> list[Mail]:
    """Return the questions to an agent from outside that it has not answered."""
    return _mail(world, f"{_OPEN} AND m.recipient = ?", recipient)


def unanswered(world: World, name: str) -> list[Mail]:
    """Return the questions that stand in the context of an agent's present incarnation and have no answer yet."""
    present = "m.incarnation = (SELECT incarnation FROM agents WHERE name = ?1)"
    return _mail(world, f"{_OPEN} AND m.recipient = ?1 AND m.state IN ('delivered', 'done') AND {present}", name)


def awaited(world: World, sender: str, cause: int | None) -> bool:
    """Return whether answers to what an agent asked for one cause are still to come, or lie undelivered."""
    sql = (
        "SELECT 1 FROM mail q LEFT JOIN mail a ON a.id = q.answered WHERE q.cause = ? AND q.kind = 'ask'"
        " AND q.sender = ? AND q.origin IS NULL AND (q.answered IS NULL OR a.state = 'queued') LIMIT 1"
    )
    return cause is not None and world.one(sql, cause, sender) is not None


def group(world: World, sender: str, cause: int) -> list[Mail]:
    """Return the answers to everything that an agent asked for one cause, in the order of the questions."""
    where = "q.cause = ? AND q.kind = 'ask' AND q.sender = ? AND q.origin IS NULL"
    return _mail(world, where, cause, sender, order="q.id")


def join(world: World, channel: str, agent: str) -> None:
    """Make an agent a member of a channel, which begins with its first member."""
    with world.step():
        world.run("INSERT OR IGNORE INTO members VALUES (?, ?)", channel, agent)


def members(world: World, channel: str) -> list[str]:
    """Return who is a member of a channel."""
    return world.column("SELECT agent FROM members WHERE channel = ? ORDER BY 1", channel)


def post(
    world: World,
    channel: str,
    *,
    key: str,
    sender: str,
    body: str,
    cause: int | None = None,
    hop_limit: int = HOP_LIMIT,
) -> list[Sent]:
    """Tell every other member of a channel; one message each, all or none."""
    with world.step():
        about = About(subject=f"#{channel}", cause=cause)
        return [
            send(
                world, key=f"{key}@{member}", kind="tell", sender=sender, recipient=member, body=body, about=about,
                hop_limit=hop_limit,
            )
            for member in members(world, channel)
            if member != sender
        ]  # fmt: skip
