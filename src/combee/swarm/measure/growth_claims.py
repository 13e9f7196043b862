"""What copies bring back, notes that go stale, edges that agents propose: tables and verdicts."""

from __future__ import annotations

from statistics import mean

from combee.swarm.measure.asking import reduce_traces
from combee.swarm.measure.growth import edits, specialise, stale
from combee.swarm.measure.result import Claim, Experiment, Table
from combee.swarm.measure.setting import Setting, verdict
from combee.swarm.world import Returns

__all__ = ["asking", "returns", "staleness", "structure"]


_COLUMNS = ("right", "cold", "entropy", "tokens", "fresh", "compactions")


def returns(setting: Setting) -> Experiment:
    """What copies bring back."""
    questions = 60 if setting.quick else 240
    kinds: tuple[Returns, ...] = ("none", "digest", "full")
    grown = {kind: [specialise(kind, questions, seed) for seed in setting.seeds] for kind in kinds}
    means = {
        kind: {name: mean(float(getattr(one, name)) for one in ones) for name in _COLUMNS}
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
            verdict(none["entropy"] < 0.3, digest["entropy"] < 0.3),
            "something of an answer comes back to the agent, so that the directory knows of it: "
            "entropy of who answers a "
            f"topic {none['entropy']:.2f} with nothing, {digest['entropy']:.2f} with a digest, "
            f"{full['entropy']:.2f} in full",
        ),
        Claim(
            "Every answer makes an expert better at its field.",
            verdict(digest["cold"] < 0.5 * none["cold"], full["cold"] < 0.5 * none["cold"]),
            f"what a copy read comes back in full: documents had to be read for {full['cold']:.0%} of "
            f"the questions, with "
            f"a digest for {digest['cold']:.0%}, with nothing for {none['cold']:.0%}",
        ),
    )
    columns = ("return", "right", "cold starts", "entropy of roles", "tokens a question", "fresh tokens", "compactions")
    setup = f"12 agents, 6 topics of 20 documents, nobody knows anything at first; {questions} questions, "
    return Experiment("returns", f"{setup}{len(setting.seeds)} seeds.", (Table("Return", columns, rows),), (), claims)


def staleness(setting: Setting) -> Experiment:
    """Notes that rest on what has changed."""
    shares = (0.0, 0.3) if setting.quick else (0.0, 0.1, 0.3, 0.5)
    cells = {(share, stamps): stale(share, 0, stamps=stamps) for share in shares for stamps in (True, False)}
    rows = tuple(
        (f"{share:.0%}", f"{cells[share, False][0]:.1%}", f"{cells[share, True][0]:.1%}",
         f"{cells[share, False][1]:.0f}",
         f"{cells[share, True][1]:.0f}")
        for share in shares
    )  # fmt: skip
    worst = shares[-1]
    claim = Claim(
        "Files on disk go stale unnoticed.",
        verdict(cells[worst, False][0] < 0.99 and cells[worst, True][0] < 0.99, cells[worst, False][0] < 0.99),
        f"notes carry no stamp of the version read: {cells[worst, False][0]:.0%} right when {worst:.0%} has changed, "
        f"{cells[worst, True][0]:.0%} with stamps, for "
        f"{cells[worst, True][1] - cells[worst, False][1]:.0f} more fresh tokens a question",
    )
    columns = ("changed", "right without stamps", "right with stamps", "fresh tokens without", "fresh tokens with")
    return Experiment(
        "staleness",
        "60 notes; then documents change; each is asked for.",
        (Table("Stale notes", columns, rows),),
        (),
        (claim,),
    )


def structure(setting: Setting) -> Experiment:
    """Edges that agents propose."""
    kinds = ("fixed", "random", "agents")
    seeds = setting.seeds if setting.quick else tuple(range(8))
    found = {kind: [edits(kind, seed) for seed in seeds] for kind in kinds}
    cost = {kind: mean(one[0] for one in found[kind]) for kind in kinds}
    wins = sum(a[0] < r[0] for a, r in zip(found["agents"], found["random"], strict=True))
    rows = tuple(
        (kind, f"{cost[kind]:.2f}",
         f"{min(one[0] for one in found[kind]):.2f} to {max(one[0] for one in found[kind]):.2f}",
         f"{mean(one[1] for one in found[kind]):.1f}")
        for kind in kinds
    )  # fmt: skip
    claim = Claim(
        "Agents can improve the structure they were given.",
        verdict(wins > 0.75 * len(seeds) and cost["agents"] < cost["fixed"], cost["agents"] < cost["fixed"]),
        f"{cost['fixed']:.2f} messages a question in the tree they began with, {cost['random']:.2f} "
        f"after random edits, "
        f"{cost['agents']:.2f} after their own, better than random in {wins} of {len(seeds)} seeds at equal budget",
    )
    columns = ("edits by", "messages a question", "range", "edits kept")
    setup = (
        "30 agents in a tree of two; ten pairs make 70 % of the demand; 8 proposals, each measured; "
        f"{len(seeds)} seeds; the demand at the end is held out."
    )
    return Experiment("structure", setup, (Table("Structure", columns, rows),), (), (claim,))


def asking(setting: Setting) -> Experiment:
    """A reducer that may ask the agent that made a trace."""
    sizes = (10,) if setting.quick else (10, 100)
    cells = {
        (size, foreseen, asks): [reduce_traces(size, foreseen, seed, asks=asks) for seed in setting.seeds]
        for size in sizes
        for foreseen in (0.0, 0.5, 1.0)
        for asks in (False, True)
    }
    rows = tuple(
        (str(size), f"{foreseen:.0%}", "yes" if asks else "no", f"{mean(one.kept for one in found):.1%}",
         f"{mean(one.tokens for one in found):,.0f}")
        for (size, foreseen, asks), found in cells.items()
    )  # fmt: skip
    kept = {key: mean(one.kept for one in found) for key, found in cells.items() if key[0] == sizes[-1]}
    top = sizes[-1]
    claim = Claim(
        "Asking the agent that made a trace keeps what its summary left out.",
        verdict(
            all(kept[top, share, True] > kept[top, share, False] + 0.05 for share in (0.0, 0.5, 1.0)),
            kept[top, 0.0, True] > kept[top, 0.0, False] + 0.05,
        ),
        "what the lessons need could not be foreseen: "
        + ", ".join(
            f"{kept[top, share, False]:.0%} kept without asking and {kept[top, share, True]:.0%} with, "
            f"at {share:.0%} foreseen"
            for share in (0.0, 0.5, 1.0)
        ),
    )
    columns = ("agents", "foreseeable", "may ask", "needed facts kept", "tokens for each")
    setup = "Traces of 20 facts, reflections with room for 5, a tenth of the facts needed in the end; "
    return Experiment("asking", f"{setup}seeds: {len(setting.seeds)}.", (Table("Reduce", columns, rows),), (), (claim,))
