"""Messages against the size of a team, and the size from which on a layer of leads pays: looked for, not assumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from combee.swarm.measure.result import Claim, Curve, Experiment, Setting, Table, judge
from combee.swarm.measure.team import DIRECTORY, FAN_OUT, FLAT, LEADS, TREE, Team, team

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
_Run = Callable[[str, int, float], Team]


def teams(setting: Setting) -> Experiment:
    """Messages against team size, and where a layer pays."""
    sizes = setting.pick((4, 12), (4, 8, 16, 32, 64, 128))
    rates = setting.pick((0.25,), (0.05, 0.25))
    tasks, gathered = setting.pick((12, 2), (40, 8))

    @cache
    def find(way: str, size: int, rate: float) -> Team:
        return team(way, size, rate, 0, tasks=tasks)

    @cache
    def gather(way: str, size: int, rate: float = 0.25) -> Team:
        return team(way, size, rate, 0, gather=True, tasks=gathered)

    pays = {
        (what, rate, rival): tuple(_pays(run, rate, rival, sizes, metric) for metric in METRICS)
        for what, run, some in (("one topic", find, rates), ("all topics", gather, rates[-1:]))
        for rate in some
        for rival in ((FLAT, DIRECTORY) if run is find else (FLAT,))
    }
    where = Table(
        "Size from which a layer of leads is better",
        ("a task asks for", "changes a task", "better than", "in messages", "in tokens", "at the busiest"),
        tuple((what, f"{rate}", rival, *map(_size, found)) for (what, rate, rival), found in pays.items()),
    )
    numbers = ("messages a task", "tokens a task", "through the busiest", "right")
    tables = [
        Table(
            f"A task asks for {what}; {rates[-1]} changes a task", ("way", "agents", *numbers),
            tuple((way, str(size), *_shown(run(way, size, rates[-1]))) for way in ways for size in sizes),
        )
        for what, run, ways in (
            ("one topic", find, (FLAT, DIRECTORY, LEADS, TREE)), ("all topics", gather, (FLAT, LEADS, TREE))
        )
    ]  # fmt: skip
    series = tuple(
        (way, tuple((float(size), find(way, size, rates[-1]).messages) for size in sizes))
        for way in (FLAT, DIRECTORY, LEADS, TREE)
    )
    return Experiment(
        "team",
        f"Every agent has a topic and is told of changes as its way says; {tasks} tasks ask for one topic, "
        f"{gathered} for a report of 30 tokens from everybody, of which the last counts. Teams of √n under a lead, "
        f"trees of {FAN_OUT}. The task and its answer are two of the messages.",
        (where, *tables),
        (Curve("team", "Messages against team size", "agents", "messages a task", series),),
        _claims(pays, find, gather, sizes, rates),
    )


def _pays(run: _Run, rate: float, rival: str, sizes: Sequence[int], metric: str) -> int | None:
    def better(size: int) -> bool:
        lead, other = run(LEADS, size, rate), run(rival, size, rate)
        return bool(getattr(lead, metric) < getattr(other, metric))

    return crossing(sizes, better)


def _size(found: int | None) -> str:
    return "never" if found is None else str(found)


def _shown(one: Team) -> tuple[str, ...]:
    return f"{one.messages:.1f}", f"{one.tokens:,.0f}", f"{one.busiest:.2f}", f"{one.right:.0%}"


def _claims(
    pays: dict[tuple[str, float, str], tuple[int | None, ...]],
    find: _Run, gather: _Run, sizes: Sequence[int], rates: Sequence[float],
) -> tuple[Claim, ...]:  # fmt: skip
    top, rate = sizes[-1], rates[-1]
    flat = {rate: pays["one topic", rate, FLAT] for rate in rates}
    straight = {rate: pays["one topic", rate, DIRECTORY] for rate in rates}
    lead, peer = find(LEADS, top, rate), find(FLAT, top, rate)
    all_flat, all_leads = gather(FLAT, top, rate), gather(LEADS, top, rate)
    return (
        judge(
            "From some size of team on a layer of leads pays.",
            "there is no shared directory: against a flat mesh it takes fewer messages "
            + " and ".join(f"from {_size(one[0])} agents on at {rate} changes a task" for rate, one in flat.items())
            + f", fewer tokens from {' and '.join(_size(one[1]) for one in flat.values())}; against a mesh with a "
            f"directory, up to {top}: {' and '.join(_size(one[0]) for one in straight.values())}",
            held=all(one[0] and one[1] for one in [*flat.values(), *straight.values()]),
            partly=any(one[0] and one[1] for one in flat.values()),
        ),
        judge(
            "A layer takes load from the busiest agent.",
            f"everybody would otherwise be told every change: {lead.busiest:.2f} messages a task through the busiest "
            f"of {top} with leads, {peer.busiest:.2f} in a flat mesh, "
            f"{find(DIRECTORY, top, rate).busiest:.2f} with a directory, {find(TREE, top, rate).busiest:.2f} in a tree",
            held=lead.busiest < min(peer.busiest, find(DIRECTORY, top, rate).busiest),
            partly=lead.busiest < peer.busiest,
        ),
        judge(
            "Where everybody has to be asked, a layer keeps who asks from drowning.",
            f"the reports fit together: {all_leads.right:.0%} right with leads and {all_flat.right:.0%} in a flat mesh "
            f"of {top}, {all_leads.busiest:.0f} messages a task through the busiest and {all_flat.busiest:.0f}; "
            f"{all_leads.tokens / all_flat.tokens:.1f} times the tokens",
            held=all_leads.right > all_flat.right and all_leads.busiest < all_flat.busiest / 2,
            partly=all_leads.busiest < all_flat.busiest,
        ),
    )  # fmt: skip
