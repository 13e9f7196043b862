"""Capacity of a task by way of keeping context, and tasks that do not split: tables and verdicts."""

from __future__ import annotations

from collections.abc import Callable

from combee.swarm.measure.capacity import Outcome, chain, disk, fresh, largest, mesh, persistent
from combee.swarm.measure.joint import joint
from combee.swarm.measure.result import Claim, Curve, Experiment, Table
from combee.swarm.measure.setting import Setting, verdict

__all__ = ["capacity", "joints"]


def _size(found: tuple[float, Outcome, bool]) -> str:
    return f"{'≥ ' if found[2] else ''}{found[0]:.2f}"


_Found = tuple[float, Outcome, bool]


def capacity(setting: Setting) -> Experiment:
    """Context capacity by way of keeping it."""
    ways, hired = _ways(setting)
    rows = tuple(
        (name, _size(found), f"{found[1].right:.1%}", f"{found[1].tokens:,.0f}", f"{found[1].compactions}")
        for name, found in ways.items()
    )
    series = (
        ("persistent agents", tuple((float(n), found[0]) for n, found in hired.items())),
        ("one window each", tuple((float(n), float(n)) for n in hired)),
    )
    return Experiment(
        "capacity",
        f"Windows of text at which 95 % of the answers are right; seeds: {len(setting.seeds)}; ≥: the "
        f"limit of the search.",
        (Table("Capacity", ("way", "windows", "right", "tokens a question", "compactions"), rows),),
        (Curve("capacity", "Capacity of persistent agents", "agents", "windows at 95 % right", series),),
        _capacity_claims(ways, hired),
    )


def _ways(setting: Setting) -> tuple[dict[str, _Found], dict[int, _Found]]:
    """Return what every way of keeping context can hold, and persistent agents by their number."""

    def run(way: Callable[[int, int], Outcome], limit: float = setting.limit) -> _Found:
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
    ways[_TURNS] = run(persistent(4, one_at_a_time=True), 8)
    ways |= {f"mesh, {n} peers who ask each other": run(mesh(n), 2 * n) for n in counts[1:3]}
    return ways, hired


_TURNS = "persistent, 4 agents, one at a time"


def _capacity_claims(ways: dict[str, _Found], hired: dict[int, _Found]) -> tuple[Claim, ...]:
    best, worst = ways["compaction, 100% foreseeable, 1% needed"][0], ways["compaction, 0% foreseeable, 1% needed"][0]
    much = ways["compaction, 100% foreseeable, 20% needed"][0]
    blind = ways["disk, question cannot be searched for"]
    per_agent = [found[0] / n for n, found in hired.items()]
    once, alone = ways["fresh sub-agents"], ways[_TURNS]
    return (
        Claim(
            "Compaction raises capacity above one window, and by how much depends on what must survive.",
            verdict(min(best, worst, much) > 2, best > 2),
            f"what matters is foreseeable and little: {best:.2f} windows with 1 % needed, {much:.2f} with 20 %, "
            f"{worst:.2f} when nothing can be foreseen",
        ),
        Claim(
            "On disk nothing is lost, but it has to be found and read back.",
            verdict(blind[0] > 2, ways["disk, question can be searched for"][0] > 2),
            "the question names what a search can find: "
            f"{_size(ways['disk, question can be searched for'])} windows against "
            f"{_size(blind)}, reading back one window at most",
        ),
        Claim(
            "A fresh sub-agent need not guess what matters; it pays with reading everything again.",
            verdict(
                once[0] > 2 and once[1].tokens > 2 * hired[4][1].tokens,
                once[0] > 2,
            ),
            f"{_size(once)} windows at {once[1].tokens:,.0f} "
            f"tokens a question; "
            f"four persistent agents take {hired[4][1].tokens:,.0f}",
        ),
        Claim(
            "With persistent agents capacity grows to about one window an agent.",
            verdict(min(per_agent) > 0.8, min(per_agent) > 0.5),
            f"{min(per_agent):.2f} to {max(per_agent):.2f} windows an agent, for {', '.join(map(str, hired))} agents",
        ),
        Claim(
            "That holds also when they take turns, one at a time.",
            verdict(abs(alone[0] - hired[4][0]) < 0.26, alone[0] > 2),
            f"{alone[0]:.2f} windows one at a time, {hired[4][0]:.2f} at once",
        ),
    )  # fmt: skip


def joints(setting: Setting) -> Experiment:
    """Questions about everything at once."""
    counts = (2, 24) if setting.quick else (2, 4, 8, 16, 32)
    small = {n: largest(joint(n, compresses=True), 2 * n, setting.seeds)[0] for n in counts}
    large = {n: largest(joint(n, compresses=False), 2 * n, setting.seeds)[0] for n in counts}
    rows = tuple((str(n), f"{small[n]:.2f}", f"{large[n]:.2f}") for n in counts)
    top = max(large.values())
    gain = large[counts[-1]] / counts[-1]
    claim = Claim(
        "Where the parts of a task do not compress, splitting it does not help.",
        verdict(gain < 0.5 and small[counts[-1]] / counts[-1] > 0.8, gain < small[counts[-1]] / counts[-1]),
        f"what the parts must send no longer fits one window: {top:.2f} windows at most however many agents, against "
        f"{small[counts[-1]]:.2f} where each part is one number; below that size splitting helped",
    )
    series = tuple(
        (name, tuple((float(n), found[n]) for n in counts))
        for name, found in (("one number a part", small), ("every fact of a part", large))
    )
    return Experiment(
        "joint",
        "A lead asks all agents. The last key (each part answers with one fact), or the two "
        "documents with equal values.",
        (Table("Capacity in windows", ("agents", "one number a part", "every fact of a part"), rows),),
        (Curve("joint", "Tasks about everything at once", "agents", "windows at 95 % right", series),),
        (claim,),
    )
