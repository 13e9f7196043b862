"""A team whose tasks need what other agents know, as a flat mesh, with a directory, under leads, or as a tree.

Every agent has one topic at a time and is now and then given another, which those who send questions must learn. Each
keeps in its window what it was told (`t00007 at a003`), so that knowing many costs something at every reply.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from benchmarks.swarm_lab.lab import WINDOW, Ask, ask_all, cost, handled, lab
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, judge
from benchmarks.swarm_lab.spread import Spread, above, against, comes, each, median_of
from combee.swarm.agents import Reply, View, use
from combee.swarm.context import Entry, Summarise
from combee.swarm.knowledge import credit, publish
from combee.swarm.mail import join
from combee.swarm.swarm import USER, Swarm

__all__ = ["DIRECTORY", "FLAT", "LEADS", "TREE", "Team", "crossing", "team", "teams"]

FLAT, DIRECTORY, LEADS, TREE = "flat mesh", "mesh with a directory", "layer of leads", "tree"
FAN_OUT = 4
_AT = re.compile(r"(t\d{5}) at (\w+)")
_OWN = re.compile(r"own (t\d{5})")


@dataclass(frozen=True, slots=True)
class Plan:
    """Who stands where: above each agent, below it, and beside it (peers that are told news and asked directly)."""

    above: dict[str, str]
    below: dict[str, tuple[str, ...]]
    beside: tuple[str, ...] = ()
    directory: bool = False


def plan_of(way: str, names: list[str]) -> Plan:
    """Return the plan of a way: everybody beside everybody, leads of about √n agents each, or a tree."""
    if way in {FLAT, DIRECTORY}:
        return Plan({}, {}, tuple(names), directory=way == DIRECTORY)
    if way == TREE:
        above = {name: names[(number - 1) // FAN_OUT] for number, name in enumerate(names) if number}
        return Plan(above, _below(above))
    span = math.ceil(math.sqrt(len(names)))
    above = {name: names[number - number % span] for number, name in enumerate(names) if number % span}
    return Plan(above, _below(above), tuple(names[::span]))


def _below(above: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {lead: tuple(name for name in above if above[name] == lead) for lead in set(above.values())}


@dataclass(frozen=True, slots=True)
class Team:
    """Per task: messages, tokens, messages through the busiest agent and its copies; share of right answers."""

    messages: float
    tokens: float
    busiest: float
    right: float


def _policy(plan: Plan) -> Callable[[View], Reply | str]:
    def policy(view: View) -> Reply | str:
        me, mail = view.agent.origin, view.mail
        if mail.kind == "tell":
            return "noted" if view.results() else _news(plan, me, mail.sender, mail.body)
        if mail.kind == "ask":
            if view.results():
                return "waiting"
            return _gather(plan, me, view) if mail.body.startswith("all") else _find(plan, me, view)
        if view.current and view.current.body.startswith("all"):
            parts = [entry.text.split()[-1] for entry in view.entries if entry.kind == "answer"]
            return _report(max([*parts, _own(view)]))
        return mail.body

    return policy


def _own(view: View) -> str:
    return next(reversed(_OWN.findall(view.text())), "")


def _report(topic: str) -> str:
    """Return a report of 30 tokens."""
    return f"{'.' * 113} {topic}"


async def _keep(entries: Sequence[Entry], tokens: int) -> str:
    """Sum up what was told: the own topic, then who has what, the newest first."""
    text = "\n".join(entry.text for entry in entries)
    own = [f"own {topic}" for topic in _OWN.findall(text)[-1:]]
    return "\n".join([*own, *dict.fromkeys(f"{topic} at {at}" for topic, at in reversed(_AT.findall(text)))])


def _news(plan: Plan, me: str, sender: str, text: str) -> Reply | str:
    """Pass on what is new: upwards that it can be had from here, to those beside who has it."""
    own = _OWN.match(text)
    if plan.directory and own:
        return Reply(calls=(use("read", path=f"t/{own[1]}"),))
    if text.startswith("roster") or (sender != USER and plan.above.get(sender) != me):
        return "noted"
    topic, at = (own[1], me) if own else _AT.findall(text)[0]
    calls = [use("tell", 0, to=plan.above[me], text=f"{topic} at {me}")] if me in plan.above else []
    if me in plan.beside and len(plan.beside) > 1:
        calls.append(use("post", 1, channel="beside", text=f"{topic} at {at}"))
    return Reply(calls=tuple(calls)) if calls else "noted"


def _find(plan: Plan, me: str, view: View) -> Reply | str:
    """Answer what is asked about a topic, or ask whoever has it as far as the window says, or who stands above."""
    topic, text = view.mail.body, view.text()
    if _own(view) == topic:
        return f"{topic} is known"
    if plan.directory:
        return Reply(calls=(use("ask", question=topic, subject=f"t/{topic}"),)) if not view.mail.hops else "unknown"
    to = dict(_AT.findall(text)).get(topic) or plan.above.get(me)
    return Reply(calls=(use("ask", to=to, question=topic),)) if to and to != view.mail.sender else "unknown"


def _gather(plan: Plan, me: str, view: View) -> Reply | str:
    """Ask all agents what topic they have: over who stands above if somebody does, else those beside and below."""
    up = view.mail.body == "all" and me in plan.above
    across = plan.beside if view.mail.body == "all" else ()
    others = [plan.above[me]] if up else [*across, *plan.below.get(me, ())]
    calls = [use("ask", n, to=to, question="all" if up else "all below") for n, to in enumerate(others) if to != me]
    return Reply(calls=tuple(calls)) if calls else _report(_own(view))


def team(way: str, agents: int, changes: float, seed: int, *, gather: bool = False, tasks: int = 40) -> Team:
    """Give tasks to a team and see what they took.

    Args:
        way: One of the four.
        agents: How many; leads are among them.
        changes: How often an agent gets a new topic, for each task.
        seed: Same seed, same tasks.
        gather: A task asks all agents for something that compresses; else it asks for one topic, wherever it is.
        tasks: How many.
    """
    rng = random.Random(f"team {seed} {agents}")
    names = [f"a{number:03d}" for number in range(agents)]
    plan = plan_of(way, names)
    numbers = (f"t{number:05d}" for number in itertools.count())
    topics = dict(zip(names, numbers, strict=False))
    with lab(_policy(plan), compaction=Summarise(_keep, WINDOW // 2), hop_limit=64, max_asks=10**6) as swarm:
        _begin(swarm, plan, topics)
        before, carried = cost(swarm), handled(swarm)
        right = 0
        for task in range(tasks):
            for _ in range(int((task + 1) * changes) - int(task * changes)):
                name = rng.choice(names)
                topics[name] = next(numbers)
                publish(swarm.world, f"t/{topics[name]}", "what is known of it", USER)
                swarm.tell(name, f"own {topics[name]}")
            asyncio.run(swarm.run())
            topic = max(topics.values()) if gather else topics[rng.choice(names)]
            wanted = _report(topic) if gather else f"{topic} is known"
            right += ask_all(swarm, [Ask(rng.choice(names), "all" if gather else topic, wanted)])
        spent, load = cost(swarm) - before, handled(swarm)
        load.subtract(carried)
        return Team(spent.messages / tasks, spent.tokens / tasks, max(load.values()) / tasks, right / tasks)


def _begin(swarm: Swarm, plan: Plan, topics: dict[str, str]) -> None:
    """Let everybody know what news would have told: those beside who has what, those above what is below them."""
    everything = [f"{topic} at {name}" for name, topic in topics.items()]
    known = {name: list(everything) if name in plan.beside and not plan.directory else [] for name in topics}
    for name, topic in topics.items():
        at = name
        while at in plan.above:
            if plan.above[at] not in plan.beside:
                known[plan.above[at]].append(f"{topic} at {at}")
            at = plan.above[at]
    with swarm.world.step():
        for name, topic in topics.items():
            swarm.world.spawn(name, window=WINDOW, returns="none")
            credit(swarm.world, name, 1, f"t/{topic}", "1")
            swarm.tell(name, " ".join(["roster", f"own {topic}", *known[name]]))
        for name in plan.beside:
            join(swarm.world, "beside", name)
    asyncio.run(swarm.run())


def crossing(sizes: Sequence[int], better: Callable[[int], bool]) -> float:
    """Return the smallest size from which on something is better, found on a grid, then bisected; infinite: never."""
    wins = [better(size) for size in sizes]
    first = len(wins) - next((n for n, win in enumerate(reversed(wins)) if not win), len(wins))
    if first == len(wins):
        return math.inf
    high, low = sizes[first], sizes[first - 1] if first else sizes[first] - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if better(middle) else (middle, high)
    return high


METRICS = ("messages", "tokens", "busiest")
WAYS = (FLAT, DIRECTORY, LEADS, TREE)
_Run = Callable[[str, int], list[Team]]
_Where = dict[tuple[float, str], tuple[Spread, ...]]


def teams(setting: Setting) -> Experiment:
    """Messages against team size, and the size from which on a layer of leads pays: looked for, not assumed."""
    sizes = setting.pick((4, 8), (4, 8, 16, 32, 64, 128))
    rates = setting.pick((0.25,), (0.05, 0.25))
    tasks, gathered = setting.pick((8, 2), (40, 8))
    one: Callable[..., Team] = cache(partial(team, tasks=tasks))
    wide: Callable[..., Team] = cache(partial(team, gather=True, tasks=gathered))

    def find(way: str, size: int) -> list[Team]:
        return setting.over(one, way, size, rates[-1])

    def gather(way: str, size: int) -> list[Team]:
        return setting.over(wide, way, size, rates[-1])

    def pays(rate: float, rival: str, metric: str) -> Spread:
        def better(seed: int, size: int) -> bool:
            ours, theirs = (one(way, size, rate, seed=seed) for way in (LEADS, rival))
            return bool(getattr(ours, metric) < getattr(theirs, metric))

        return median_of(setting.over(lambda seed: crossing(sizes, partial(better, seed))))

    where = {
        (rate, rival): tuple(pays(rate, rival, metric) for metric in METRICS)
        for rate in rates
        for rival in (FLAT, DIRECTORY)
    }
    numbers = ("way", "agents", "messages a task", "tokens a task", "through the busiest", "right")
    tables = [
        Table(
            f"A task asks for {what}; {rates[-1]} changes a task", numbers,
            tuple((way, str(size), *_shown(run(way, size))) for way in ways for size in sizes),
        )
        for what, run, ways in (("one topic", find, WAYS), ("all topics", gather, (FLAT, LEADS, TREE)))
    ]  # fmt: skip
    columns = ("changes a task", "better than", "in messages", "in tokens", "at the busiest")
    rows = tuple((str(rate), rival, *(f"{one:.0f}" for one in found)) for (rate, rival), found in where.items())
    series = {way: [(size, each(find(way, size), "messages").value) for size in sizes] for way in WAYS}
    return Experiment(
        "team",
        f"Every agent has a topic and is told of changes as its way says; {tasks} tasks ask for one topic, "
        f"{gathered} for a report of 30 tokens from everybody, of which the last counts. Teams of √n under a lead, "
        f"trees of {FAN_OUT}. The task and its answer are two of the messages.",
        (Table("Size from which a layer of leads is better (median of the seeds)", columns, rows), *tables),
        (Curve("team", "Messages against team size", "agents", "messages a task", series),),
        _claims(where, find, gather, sizes),
    )


def _shown(found: Sequence[Team]) -> tuple[str, ...]:
    return (f"{each(found, 'messages'):.1f}", f"{each(found, 'tokens'):,.0f}", f"{each(found, 'busiest'):.2f}",
            f"{each(found, 'right'):.0%}")  # fmt: skip


def _claims(where: _Where, find: _Run, gather: _Run, sizes: Sequence[int]) -> tuple[Claim, ...]:
    top = sizes[-1]
    busiest = {way: find(way, top) for way in WAYS}
    relief = {way: against(busiest[way], "busiest", busiest[LEADS]) for way in (FLAT, DIRECTORY, TREE)}
    wide = {size: against(gather(LEADS, size), "right", gather(FLAT, size)) for size in sizes}
    pays = [(*key, metric, one) for key, found in where.items() for metric, one in zip(METRICS, found, strict=True)]
    return (
        judge(
            f"From some size of team on, up to {top} agents, a layer of leads takes fewer messages and tokens.",
            "; ".join(f"than a {rival} at {rate} changes a task, in {metric}: {one:.0f}"
                      for rate, rival, metric, one in pays if metric != "busiest"),
            (comes(one) for *_, metric, one in pays if metric != "busiest"),
        ),
        judge(
            "A layer takes load from the busiest agent.",
            f"messages a task through the busiest of {top}: "
            + ", ".join(f"{each(found, 'busiest'):.2f} in a {way}" for way, found in busiest.items()),
            (above(one, 0) for one in relief.values()),
        ),
        judge(
            "Where everybody has to be asked, more is right with a layer than without.",
            "; ".join(f"{size} agents: {each(gather(LEADS, size), 'right'):.0%} right with leads, "
                      f"{each(gather(FLAT, size), 'right'):.0%} in a flat mesh" for size in sizes[-3:]),
            (above(wide[size], 0) for size in sizes[-3:]),
        ),
    )  # fmt: skip
