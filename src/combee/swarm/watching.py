"""A world as it is now, to look at: who is there and how full, who asks whom, issues, leases, messages, what it took.

Everything is read in one go from the world's file, which others write meanwhile; nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from combee.report.html import Html, Piece, el, join, table
from combee.report.network import network
from combee.report.page import facts, page
from combee.run.words import counted
from combee.swarm.briefing import spelled
from combee.swarm.context import load
from combee.swarm.guests import signs_of_life
from combee.swarm.knowledge import Issue, Lease, issues, leases
from combee.swarm.ledger import SwarmTotals, edges, totals
from combee.swarm.mail import open_asks
from combee.swarm.world import PERSON, AgentRow, World

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["AgentSeen", "Sight", "head_of", "look", "page_of", "screen_of"]

_MOST_AGENTS, _MOST_MESSAGES, _MOST_LISTED = 40, 20, 30
_MESSAGE = 200  # characters of a message that are shown


@dataclass(frozen=True, slots=True)
class AgentSeen:
    """An agent: tokens in its window, its open questions, and of one from outside the seconds that it was silent."""

    row: AgentRow
    used: int
    asks: int
    silent: float | None

    @property
    def share(self) -> float:
        """The part of its window that is used."""
        return self.used / self.row.window if self.row.window else 0.0

    @property
    def what(self) -> str:
        """Its state in words."""
        return self.row.state if self.silent is None else f"outside, {_ago(self.silent)}"


@dataclass(frozen=True, slots=True)
class Sight:
    """What there is to see. `dollars` is what programs said that they cost, `unsaid` counts replies without a word."""

    name: str
    agents: tuple[AgentSeen, ...]
    others: int
    issues: tuple[Issue, ...]
    leases: tuple[Lease, ...]
    messages: tuple[tuple[int, str, str, str, str, str], ...]
    edges: tuple[tuple[str, str, int], ...]
    totals: SwarmTotals
    waiting: int
    dollars: float
    unsaid: int


def look(world: World) -> Sight:
    """Return a world as it is now; of many agents those that did something last."""
    seen_at = {name: seen for name, (seen, _) in signs_of_life(world)}
    rows = [agent for agent in world.agents() if agent.role != PERSON]
    busy = {str(name): int(last) for name, last in world.rows(_LAST)}
    shown = sorted(rows, key=lambda agent: -busy.get(agent.name, 0))[:_MOST_AGENTS]
    seen = tuple(
        AgentSeen(agent, load(world, agent).used, len(open_asks(world, agent.name)), _since(seen_at.get(agent.name)))
        for agent in sorted(shown, key=rows.index)
    )
    paid = [event.data.get("dollars") for event in world.events("paid")]
    talked = tuple((one.sender, one.recipient, one.prompt + one.completion + one.carried) for one in edges(world))
    return Sight(
        name=world.path.name,
        agents=seen,
        others=len(rows) - len(seen),
        issues=tuple(issues(world))[:_MOST_LISTED],
        leases=tuple(leases(world))[:_MOST_LISTED],
        messages=tuple(world.rows(_MESSAGES, _MOST_MESSAGES)),
        edges=talked,
        totals=totals(world),
        waiting=int(world.value(_WAITING)),
        dollars=sum(one for one in paid if isinstance(one, int | float)),
        unsaid=sum(one is None for one in paid),
    )


_WAITING = "SELECT count(*) FROM mail WHERE state IN ('queued', 'delivered')"
_LAST = "SELECT sender, max(id) FROM mail GROUP BY 1"
_MESSAGES = (
    "SELECT id, kind, coalesce(s.fork_of, sender), recipient, m.state, body FROM mail m"
    " LEFT JOIN agents s ON s.name = m.sender ORDER BY id DESC LIMIT ?"
)


def _since(seen: float | None) -> float | None:
    return None if seen is None else max(0.0, time.time() - seen)


def _ago(seconds: float) -> str:
    if seconds < 90:
        return f"seen {seconds:.0f} s ago"
    return f"seen {seconds / 60:.0f} min ago" if seconds < 5400 else f"seen {seconds / 3600:.0f} h ago"


def _sums(sight: Sight) -> list[tuple[str, str]]:
    unsaid = f" ({counted(sight.unsaid, 'reply')} without one)" if sight.unsaid else ""
    return [
        ("messages", f"{sight.totals.messages:,}"),
        ("waiting", f"{sight.waiting:,}"),
        ("replies", f"{sight.totals.replies:,}"),
        ("prompt tokens", f"{sight.totals.prompt:,}"),
        ("reply tokens", f"{sight.totals.completion:,}"),
        *([(f"cost that programs reported{unsaid}", f"${sight.dollars:.2f}")] if sight.dollars or sight.unsaid else []),
    ]


def _issue_rows(sight: Sight) -> list[tuple[str, str, str]]:
    return [(str(one.id), " ".join(one.title.split())[:_MESSAGE], one.owner or "free") for one in sight.issues]


def _lease_rows(sight: Sight) -> list[tuple[str, str, str]]:
    now = time.time()
    return [(one.path, one.agent, f"{max(0.0, one.until - now):.0f} s") for one in sight.leases]


def _message_rows(sight: Sight) -> Iterator[tuple[str, str, str, str]]:
    for number, kind, sender, recipient, state, body in sight.messages:
        text = " ".join(body.split())
        yield str(number), f"{sender} → {recipient}", f"{kind}, {state}", text[:_MESSAGE]


# A page


def head_of(sight: Sight) -> list[Piece]:
    """Return what the page shows, all of which is refreshed."""
    parts: list[Piece] = [
        el("h1", f"World {sight.name}"),
        facts([(name, value) for name, value in _sums(sight)]),
        el("h2", "Agents"),
        table(
            ["name", "role", "state", "window", "open questions"],
            [(el("b", one.row.name), one.row.role, one.what, _window(one), one.asks) for one in sight.agents],
            numbers=(4,),
        ),
        el("p", f"{sight.others} quieter agents are not shown.", class_="dim") if sight.others else None,
        *_listed("Open issues", ["number", "title", "held by"], _issue_rows(sight)),
        *_listed("Leases", ["path", "agent", "for"], _lease_rows(sight)),
    ]
    if sight.edges:
        parts += [el("h2", "Who asks whom"), el("figure", network(sight.edges).inline())]
    parts += _listed("Last messages", ["number", "who", "what", "text"], list(_message_rows(sight)))
    return parts


def _listed(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Piece]:
    return [el("h2", title), table(heads, rows)] if rows else []


def _window(one: AgentSeen) -> Html:
    if one.row.mode == "outside":
        return el("span", "its own", class_="dim")
    text = f"{one.used:,} of {one.row.window:,} ({one.share:.0%})"
    return join([el("meter", text, value=round(one.share, 3), high=0.8, max=1), " ", text])


def page_of(sight: Sight, live: str | None = None) -> str:
    """Return the whole page."""
    return page(f"World {sight.name}", head_of(sight), [], live=live)


# A terminal


def screen_of(sight: Sight, *, most: int = 12) -> RenderableType:
    """Return what fills a terminal; `most` rows of each list."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def tabled(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
        made = Table(*heads, box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
        for row in rows[:most]:
            made.add_row(*(Text(spelled(cell), overflow="ellipsis", no_wrap=True) for cell in row))
        if len(rows) > most:
            made.add_row(Text(f"and {len(rows) - most} more", style="dim"))
        return made

    agents = [(one.row.name, one.row.role, one.what, _bar(one), counted(one.asks, "open ask")) for one in sight.agents]
    parts: list[RenderableType] = [
        Text(f"{sight.name}   " + "   ".join(f"{name} {value}" for name, value in _sums(sight)), style="bold"),
        tabled(["agent", "role", "state", "window", ""], agents),
    ]
    for heads, rows in (
        (["issue", "title", "held by"], _issue_rows(sight)),
        (["lease", "agent", "for"], _lease_rows(sight)),
        (["message", "who", "what", "text"], list(_message_rows(sight))),
    ):
        if rows:
            parts += [Text(""), tabled(heads, rows)]
    return Group(*parts)


def _bar(one: AgentSeen) -> str:
    if one.row.mode == "outside":
        return ""
    full = min(10, round(10 * one.share))
    return f"{'█' * full}{'░' * (10 - full)} {one.used:,}/{one.row.window:,}"
