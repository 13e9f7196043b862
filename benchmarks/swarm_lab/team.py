"""Messages against the size of a team, and the size from which on a layer of leads pays: looked for, not assumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, judge
from benchmarks.swarm_lab.teamwork import DIRECTORY, FAN_OUT, FLAT, LEADS, TREE, Team, team

__all__ = ["crossing", "teams"]


def crossing(sizes: Sequence[int], better: Callable[[int], bool]) -> int | None:
    """Return the smallest size from which on something is better, to one agent: found on a grid, then bisected."""
    wins = [better(size) for size in sizes]
    first = len(wins) - next((n for n, win in enumerate(reversed(wins)) if not win), len(wins))
    if first == len(wins):
        return None
    high, low = sizes[first], sizes[first - 1] if first else sizes[first] - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if better(middle) else (middle, high)
    return high


METRICS = ("messages", "tokens", "busiest")
WAYS = (FLAT, DIRECTORY, LEADS, TREE)
_Run = Callable[[str, int, float], Team]


def teams(setting: Setting) -> Experiment:
    """Messages against team size, and where a layer pays."""
    sizes = setting.pick((4, 8), (4, 8, 16, 32, 64, 128))
    rates = setting.pick((0.25,), (0.05, 0.25))
    tasks, gathered = setting.pick((8, 2), (40, 8))
    find: _Run = cache(lambda way, size, rate: team(way, size, rate, 0, tasks=tasks))
    gather: _Run = cache(lambda way, size, rate: team(way, size, rate, 0, gather=True, tasks=gathered))

    def pays(rate: float, rival: str, metric: str) -> str:
        def better(size: int) -> bool:
            return bool(getattr(find(LEADS, size, rate), metric) < getattr(find(rival, size, rate), metric))

        return str(crossing(sizes, better) or "never")

    where = {
        (f"{rate}", rival): tuple(pays(rate, rival, metric) for metric in METRICS)
        for rate in rates
        for rival in (FLAT, DIRECTORY)
    }
    numbers = ("way", "agents", "messages a task", "tokens a task", "through the busiest", "right")
    tables = [
        Table(
            f"A task asks for {what}; {rates[-1]} changes a task", numbers,
            tuple((way, str(size), *_shown(run(way, size, rates[-1]))) for way in ways for size in sizes),
        )
        for what, run, ways in (("one topic", find, WAYS), ("all topics", gather, (FLAT, LEADS, TREE)))
    ]  # fmt: skip
    columns = ("changes a task", "better than", "in messages", "in tokens", "at the busiest")
    series = {way: [(size, find(way, size, rates[-1]).messages) for size in sizes] for way in WAYS}
    return Experiment(
        "team",
        f"Every agent has a topic and is told of changes as its way says; {tasks} tasks ask for one topic, "
        f"{gathered} for a report of 30 tokens from everybody, of which the last counts. Teams of √n under a lead, "
        f"trees of {FAN_OUT}. The task and its answer are two of the messages.",
        (
            Table("Size from which a layer of leads is better", columns, tuple((*a, *b) for a, b in where.items())),
            *tables,
        ),
        (Curve("team", "Messages against team size", "agents", "messages a task", series),),
        _claims(where, find, gather, sizes, rates[-1]),
    )


def _shown(one: Team) -> tuple[str, ...]:
    return f"{one.messages:.1f}", f"{one.tokens:,.0f}", f"{one.busiest:.2f}", f"{one.right:.0%}"


def _claims(
    where: dict[tuple[str, str], tuple[str, ...]], find: _Run, gather: _Run, sizes: Sequence[int], rate: float
) -> tuple[Claim, ...]:
    flat, straight = (
        {each: found for (each, way), found in where.items() if way == rival} for rival in (FLAT, DIRECTORY)
    )
    top = sizes[-1]
    busiest = {way: find(way, top, rate).busiest for way in WAYS}
    wide = {way: gather(way, sizes[-1], rate) for way in (FLAT, LEADS)}
    low = {way: min(gather(way, size, rate).right for size in sizes) for way in wide}
    return (
        judge(
            "From some size of team on a layer of leads pays.",
            "there is no shared directory: against a flat mesh it takes fewer messages and tokens from "
            + ", ".join(f"{found[0]} and {found[1]} agents on at {each} changes a task" for each, found in flat.items())
            + f"; against a mesh with a directory, up to {top} agents: "
            + ", ".join(f"{found[0]} and {found[1]}" for found in straight.values()),
            held=not any("never" in found[:2] for found in where.values()),
            partly=not all("never" in found[:2] for found in flat.values()),
        ),
        judge(
            "A layer takes load from the busiest agent.",
            f"everybody would otherwise be told every change: {busiest[LEADS]:.2f} messages a task through the busiest "
            f"of {top} with leads, {busiest[FLAT]:.2f} in a flat mesh, {busiest[DIRECTORY]:.2f} with a directory, "
            f"{busiest[TREE]:.2f} in a tree",
            held=busiest[LEADS] < min(busiest[FLAT], busiest[DIRECTORY]), partly=busiest[LEADS] < busiest[FLAT],
        ),
        judge(
            "Where everybody has to be asked, a layer keeps who asks from drowning.",
            f"at the worst size {low[LEADS]:.0%} right with leads, {low[FLAT]:.0%} in a flat mesh, where the "
            f"reports do not fit one window; {wide[LEADS].tokens:,.0f} and {wide[FLAT].tokens:,.0f} tokens "
            f"a task in a team of {top}",
            held=low[LEADS] >= 0.95 > low[FLAT], partly=wide[LEADS].tokens < wide[FLAT].tokens / 2,
        ),
    )  # fmt: skip
