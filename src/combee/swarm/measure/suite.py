"""The experiments with their settings, tables and verdicts. A verdict is computed from the numbers, never written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from combee.errors import UsageError, did_you_mean
from combee.swarm.measure.capacity import Outcome, chain, disk, fresh, joint, largest, mesh, persistent
from combee.swarm.measure.growth import edits, specialise, stale
from combee.swarm.measure.load import Load, run_load
from combee.swarm.measure.result import Claim, Curve, Experiment, Table, Verdict
from combee.swarm.world import Returns

__all__ = ["EXPERIMENTS", "measure"]


@dataclass(frozen=True, slots=True)
class _Setting:
    """How large: the seeds, the limit of capacity in windows, and whether the small sizes are enough."""

    seeds: tuple[int, ...]
    limit: float
    quick: bool


def _verdict(held: bool, partly: bool) -> Verdict:
    return "held" if held else "held only if" if partly else "did not hold"


def _size(found: tuple[float, Outcome, bool]) -> str:
    return f"{'≥ ' if found[2] else ''}{found[0]:.2f}"


def capacity(setting: _Setting) -> Experiment:
    """Context capacity by way of keeping it."""

    def run(way: Callable[[int, int], Outcome], limit: float = setting.limit) -> tuple[float, Outcome, bool]:
        return largest(way, limit, setting.seeds)

    ways = {
        f"compaction, {foreseen:.0%} foreseeable, {share:.0%} needed": run(chain(foreseen, share))
        for foreseen in (1.0, 0.5, 0.0)
        for share in (0.01, 0.05, 0.2)
    }
    ways["disk, question can be searched for"] = run(disk(addressable=True))
    ways["disk, question cannot be searched for"] = run(disk(addressable=False))
    ways["fresh sub-agents"] = run(fresh)
    counts = (1, 4) if setting.quick else (1, 4, 16, 64)
    hired = {n: run(persistent(n), 2 * n) for n in counts}
    ways |= {f"persistent, {n} agents": found for n, found in hired.items()}
    alone = run(persistent(4, one_at_a_time=True), 8)
    ways["persistent, 4 agents, one at a time"] = alone
    peers = {n: run(mesh(n), 2 * n) for n in counts[1:3]}
    ways |= {f"mesh, {n} peers who ask each other": found for n, found in peers.items()}
    rows = tuple(
        (name, _size(found), f"{found[1].right:.1%}", f"{found[1].tokens:,.0f}", f"{found[1].compactions}")
        for name, found in ways.items()
    )
    best, worst = ways["compaction, 100% foreseeable, 1% needed"][0], ways["compaction, 0% foreseeable, 1% needed"][0]
    much = ways["compaction, 100% foreseeable, 20% needed"][0]
    per_agent = [found[0] / n for n, found in hired.items()]
    claims = (
        Claim(
            "Compaction raises capacity above one window, and by how much depends on what must survive.",
            _verdict(min(best, worst, much) > 2, best > 2),
            f"what matters is foreseeable and little: {best:.2f} windows with 1 % needed, {much:.2f} with 20 %, "
            f"{worst:.2f} when nothing can be foreseen",
        ),
        Claim(
            "On disk nothing is lost, but it has to be found and read back.",
            _verdict(ways["disk, question cannot be searched for"][0] > 2, ways["disk, question can be searched for"][0] > 2),
            "the question names what a search can find: "
            f"{_size(ways['disk, question can be searched for'])} windows against "
            f"{_size(ways['disk, question cannot be searched for'])}, reading back one window at most",
        ),
        Claim(
            "A fresh sub-agent need not guess what matters; it pays with reading everything again.",
            _verdict(
                ways["fresh sub-agents"][0] > 2 and ways["fresh sub-agents"][1].tokens > 2 * hired[4][1].tokens,
                ways["fresh sub-agents"][0] > 2,
            ),
            f"{_size(ways['fresh sub-agents'])} windows at {ways['fresh sub-agents'][1].tokens:,.0f} tokens a question; "
            f"four persistent agents take {hired[4][1].tokens:,.0f}",
        ),
        Claim(
            "With persistent agents capacity grows to about one window an agent.",
            _verdict(min(per_agent) > 0.8, min(per_agent) > 0.5),
            f"{min(per_agent):.2f} to {max(per_agent):.2f} windows an agent, for {', '.join(map(str, hired))} agents",
        ),
        Claim(
            "That holds also when they take turns, one at a time.",
            _verdict(abs(alone[0] - hired[4][0]) < 0.26, alone[0] > 2),
            f"{alone[0]:.2f} windows one at a time, {hired[4][0]:.2f} at once",
        ),
    )  # fmt: skip
    series = (
        ("persistent agents", tuple((float(n), found[0]) for n, found in hired.items())),
        ("one window each", tuple((float(n), float(n)) for n in hired)),
    )
    return Experiment(
        "capacity",
        f"Windows of text at which 95 % of the answers are right; {len(setting.seeds)} seeds; ≥: the limit of the search.",
        (Table("Capacity", ("way", "windows", "right", "tokens a question", "compactions"), rows),),
        (Curve("capacity", "Capacity of persistent agents", "agents", "windows at 95 % right", series),),
        claims,
    )


def joints(setting: _Setting) -> Experiment:
    """Questions about everything at once."""
    counts = (2, 8) if setting.quick else (2, 4, 8, 16, 32)
    small = {n: largest(joint(n, compresses=True), 2 * n, setting.seeds)[0] for n in counts}
    large = {n: largest(joint(n, compresses=False), 2 * n, setting.seeds)[0] for n in counts}
    rows = tuple((str(n), f"{small[n]:.2f}", f"{large[n]:.2f}") for n in counts)
    top = max(large.values())
    gain = large[counts[-1]] / counts[-1]
    claim = Claim(
        "Where the parts of a task do not compress, splitting it does not help.",
        _verdict(gain < 0.5 and small[counts[-1]] / counts[-1] > 0.8, gain < small[counts[-1]] / counts[-1]),
        f"what the parts must send no longer fits one window: {top:.2f} windows at most however many agents, against "
        f"{small[counts[-1]]:.2f} where each part is one number; below that size splitting helped",
    )
    series = tuple(
        (name, tuple((float(n), found[n]) for n in counts))
        for name, found in (("one number a part", small), ("every fact of a part", large))
    )
    return Experiment(
        "joint",
        "A lead asks all agents. The last key (each part answers with one fact), or the two documents with equal values.",
        (Table("Capacity in windows", ("agents", "one number a part", "every fact of a part"), rows),),
        (Curve("joint", "Tasks about everything at once", "agents", "windows at 95 % right", series),),
        (claim,),
    )


def loads(setting: _Setting) -> Experiment:
    """Tree against mesh."""
    sizes = (10, 100) if setting.quick else (10, 100, 1000, 10_000)
    questions = 100 if setting.quick else 400
    cells: dict[tuple[str, bool, int], Load] = {}
    for size in sizes:
        for zipf in (False, True):
            for way in ("tree", "directory"):
                cells[way, zipf, size] = run_load(way, size, questions, 0, zipf=zipf)
        if size <= 100:
            cells["no directory", False, size] = run_load("no directory", size, 100, 0)
    top = sizes[-1]
    cures = {
        "directory, 8 replicas": run_load("directory", top, questions, 0, zipf=True, replicas=8),
        "directory, answers kept by who asked": run_load("directory", top, questions, 0, zipf=True, cached=True),
    }
    named = [(f"{way}, {'Zipf' if zipf else 'uniform'}", load) for (way, zipf, _), load in cells.items()]
    rows = tuple(
        (name, f"{load.agents:,}", f"{load.messages:.2f}", f"{load.busiest:.3f}", f"{load.tokens:.1f}", f"{load.compactions}",
         (load.busiest_name == "a00000" and "root") or load.busiest_name)
        for name, load in [*named, *((f"{name}, Zipf", load) for name, load in cures.items())]
    )  # fmt: skip
    tree_, straight = cells["tree", False, top], cells["directory", False, top]
    hot, plain = cells["directory", True, top], cells["directory", False, top]
    claims = (
        Claim(
            "A tree sends every conversation between branches through its root.",
            _verdict(tree_.busiest > 1 and tree_.busiest_name == "a00000", tree_.busiest > 10 * straight.busiest),
            f"{tree_.busiest:.2f} messages a question through the root of {top:,} agents, "
            f"{straight.busiest:.3f} through the busiest peer of a mesh; the root compacted {tree_.compactions} times in "
            f"{questions} questions",
        ),
        Claim(
            "The more agents, the worse for the tree.",
            _verdict(
                tree_.busiest > 2 * cells["tree", False, sizes[0]].busiest,
                tree_.messages > 1.5 * cells["tree", False, sizes[0]].messages,
            ),
            f"it is the length of the way that grows ({cells['tree', False, sizes[0]].messages:.1f} messages a question at "
            f"{sizes[0]} agents, {tree_.messages:.1f} at {top:,}); the root's share of a question hardly does "
            f"({cells['tree', False, sizes[0]].busiest:.2f} to {tree_.busiest:.2f})",
        ),
        Claim(
            "In a mesh no agent is a bottleneck.",
            _verdict(hot.busiest < 2 * plain.busiest, min(one.busiest for one in cures.values()) < hot.busiest / 2),
            f"demand is spread or the hot knowledge is: by Zipf's law the hot expert takes {hot.busiest:.3f} messages a "
            f"question (uniform {plain.busiest:.3f}); "
            + ", ".join(f"{name.split(', ')[1]} {load.busiest:.3f}" for name, load in cures.items()),
        ),
        Claim(
            "Peers find each other and need no centre.",
            _verdict(cells["no directory", False, 100].messages < 4, straight.messages < 4),
            f"there is a directory, which is shared: {cells['no directory', False, 100].messages:.0f} messages a question "
            f"among 100 peers without one, {cells['directory', False, 100].messages:.1f} with it",
        ),
    )
    series = tuple(
        (name, tuple((float(size), cells[way, zipf, size].busiest) for size in sizes))
        for name, way, zipf in (
            ("root of a tree", "tree", False),
            ("busiest peer, uniform", "directory", False),
            ("busiest peer, Zipf", "directory", True),
        )
    )
    return Experiment(
        "load",
        f"{questions} questions between random agents; question 30 tokens, answer 60; ten children a node in the tree. "
        "Without a directory peers are asked in random order (100 questions, up to 100 agents).",
        (Table("Load", ("way", "agents", "messages a question", "through the busiest", "its tokens a question",
                        "its compactions", "busiest"), rows),),
        (Curve("load", "Messages through the busiest agent", "agents", "messages a question", series),),
        claims,
    )  # fmt: skip


def returns(setting: _Setting) -> Experiment:
    """What copies bring back."""
    questions = 60 if setting.quick else 240
    kinds: tuple[Returns, ...] = ("none", "digest", "full")
    grown = {kind: [specialise(kind, questions, seed) for seed in setting.seeds] for kind in kinds}
    means = {
        kind: {name: mean(float(getattr(one, name)) for one in ones) for name in ("right", "cold", "entropy", "tokens", "fresh", "compactions")}
        for kind, ones in grown.items()
    }  # fmt: skip
    rows = tuple(
        (kind, f"{one['right']:.1%}", f"{one['cold']:.1%}", f"{one['entropy']:.2f}", f"{one['tokens']:,.0f}",
         f"{one['fresh']:,.0f}", f"{one['compactions']:.1f}")
        for kind, one in means.items()
    )  # fmt: skip
    none, digest, full = means["none"], means["digest"], means["full"]
    claims = (
        Claim(
            "Roles arise by themselves: who happened to look first is asked again.",
            _verdict(none["entropy"] < 0.3, digest["entropy"] < 0.3),
            "something of an answer comes back to the agent, so that the directory knows of it: entropy of who answers a "
            f"topic {none['entropy']:.2f} with nothing, {digest['entropy']:.2f} with a digest, {full['entropy']:.2f} in full",
        ),
        Claim(
            "Every answer makes an expert better at its field.",
            _verdict(digest["cold"] < 0.5 * none["cold"], full["cold"] < 0.5 * none["cold"]),
            f"what a copy read comes back in full: documents had to be read for {full['cold']:.0%} of the questions, with "
            f"a digest for {digest['cold']:.0%}, with nothing for {none['cold']:.0%}",
        ),
    )
    columns = ("return", "right", "cold starts", "entropy of roles", "tokens a question", "fresh tokens", "compactions")
    setup = f"12 agents, 6 topics of 20 documents, nobody knows anything at first; {questions} questions, "
    return Experiment("returns", f"{setup}{len(setting.seeds)} seeds.", (Table("Return", columns, rows),), (), claims)


def staleness(setting: _Setting) -> Experiment:
    """Notes that rest on what has changed."""
    shares = (0.0, 0.3) if setting.quick else (0.0, 0.1, 0.3, 0.5)
    cells = {(share, stamps): stale(share, 0, stamps=stamps) for share in shares for stamps in (True, False)}
    rows = tuple(
        (f"{share:.0%}", f"{cells[share, False][0]:.1%}", f"{cells[share, True][0]:.1%}", f"{cells[share, False][1]:.0f}",
         f"{cells[share, True][1]:.0f}")
        for share in shares
    )  # fmt: skip
    worst = shares[-1]
    claim = Claim(
        "Files on disk go stale unnoticed.",
        _verdict(cells[worst, False][0] < 0.99 and cells[worst, True][0] < 0.99, cells[worst, False][0] < 0.99),
        f"notes carry no stamp of the version read: {cells[worst, False][0]:.0%} right when {worst:.0%} has changed, "
        f"{cells[worst, True][0]:.0%} with stamps, for {cells[worst, True][1] - cells[worst, False][1]:.0f} more fresh tokens a question",
    )
    columns = ("changed", "right without stamps", "right with stamps", "fresh tokens without", "fresh tokens with")
    return Experiment(
        "staleness",
        "60 notes; then documents change; each is asked for.",
        (Table("Stale notes", columns, rows),),
        (),
        (claim,),
    )


def structure(setting: _Setting) -> Experiment:
    """Edges that agents propose."""
    kinds = ("fixed", "random", "agents")
    seeds = setting.seeds if setting.quick else tuple(range(8))
    found = {kind: [edits(kind, seed) for seed in seeds] for kind in kinds}
    cost = {kind: mean(one[0] for one in found[kind]) for kind in kinds}
    wins = sum(a[0] < r[0] for a, r in zip(found["agents"], found["random"], strict=True))
    rows = tuple(
        (kind, f"{cost[kind]:.2f}", f"{min(one[0] for one in found[kind]):.2f} to {max(one[0] for one in found[kind]):.2f}",
         f"{mean(one[1] for one in found[kind]):.1f}")
        for kind in kinds
    )  # fmt: skip
    claim = Claim(
        "Agents can improve the structure they were given.",
        _verdict(wins > 0.75 * len(seeds) and cost["agents"] < cost["fixed"], cost["agents"] < cost["fixed"]),
        f"{cost['fixed']:.2f} messages a question in the tree they began with, {cost['random']:.2f} after random edits, "
        f"{cost['agents']:.2f} after their own, better than random in {wins} of {len(seeds)} seeds at equal budget",
    )
    columns = ("edits by", "messages a question", "range", "edits kept")
    setup = f"30 agents in a tree of two; ten pairs make 70 % of the demand; 8 proposals, each measured; {len(seeds)} seeds; demand held out."
    return Experiment("structure", setup, (Table("Structure", columns, rows),), (), (claim,))


EXPERIMENTS: dict[str, Callable[[_Setting], Experiment]] = {
    "capacity": capacity,
    "joint": joints,
    "load": loads,
    "returns": returns,
    "staleness": staleness,
    "structure": structure,
}


def measure(names: Sequence[str] = (), *, quick: bool = False) -> Iterator[Experiment]:
    """Run experiments, all by default, one after the other. Quick: small sizes and one seed, about ten seconds.

    Raises:
        UsageError: There is no such experiment.
    """
    for name in names:
        if name not in EXPERIMENTS:
            raise UsageError(f"there is no experiment {name!r}", hint=did_you_mean(name, EXPERIMENTS))
    setting = _Setting((0,) if quick else (0, 1, 2), 4 if quick else 32, quick)
    for name in names or EXPERIMENTS:
        yield EXPERIMENTS[name](setting)
