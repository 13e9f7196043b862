"""Tree against mesh: tables and verdicts."""

from __future__ import annotations

from combee.swarm.measure.load import Load, run_load
from combee.swarm.measure.result import Claim, Curve, Experiment, Table
from combee.swarm.measure.setting import Setting, verdict

__all__ = ["loads"]


_Cell = tuple[str, bool, int]


def loads(setting: Setting) -> Experiment:
    """Tree against mesh."""
    sizes = (10, 100) if setting.quick else (10, 100, 1000, 10_000)
    questions = 100 if setting.quick else 400
    cells: dict[_Cell, Load] = {}
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
        (name, f"{load.agents:,}", f"{load.messages:.2f}", f"{load.busiest:.3f}", f"{load.tokens:.1f}",
         f"{load.compactions}",
         (load.busiest_name == "a00000" and "root") or load.busiest_name)
        for name, load in [*named, *((f"{name}, Zipf", load) for name, load in cures.items())]
    )  # fmt: skip
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
        _claims(cells, cures, sizes, questions),
    )  # fmt: skip


def _claims(
    cells: dict[_Cell, Load], cures: dict[str, Load], sizes: tuple[int, ...], questions: int
) -> tuple[Claim, ...]:
    top = sizes[-1]
    small = cells["tree", False, sizes[0]]
    tree_, straight = cells["tree", False, top], cells["directory", False, top]
    hot, plain = cells["directory", True, top], cells["directory", False, top]
    return (
        Claim(
            "A tree sends every conversation between branches through its root.",
            verdict(tree_.busiest > 1 and tree_.busiest_name == "a00000", tree_.busiest > 10 * straight.busiest),
            f"{tree_.busiest:.2f} messages a question through the root of {top:,} agents, "
            f"{straight.busiest:.3f} through the busiest peer of a mesh; the root compacted "
            f"{tree_.compactions} times in "
            f"{questions} questions",
        ),
        Claim(
            "The more agents, the worse for the tree.",
            verdict(tree_.busiest * top > 2 * small.busiest * sizes[0], tree_.messages > 1.5 * small.messages),
            f"if every agent asks once, {small.busiest * sizes[0]:,.0f} messages pass the root of "
            f"{sizes[0]} agents and "
            f"{tree_.busiest * top:,.0f} that of {top:,}; a question takes {small.messages:.1f} and "
            f"{tree_.messages:.1f} "
            "messages",
        ),
        Claim(
            "In a mesh no agent is a bottleneck.",
            verdict(hot.busiest < 2 * plain.busiest, min(one.busiest for one in cures.values()) < hot.busiest / 2),
            f"demand is spread or the hot knowledge is: by Zipf's law the hot expert takes "
            f"{hot.busiest:.3f} messages a "
            f"question (uniform {plain.busiest:.3f}); "
            + ", ".join(f"{name.split(', ')[1]} {load.busiest:.3f}" for name, load in cures.items()),
        ),
        Claim(
            "Peers find each other and need no centre.",
            verdict(cells["no directory", False, 100].messages < 4, straight.messages < 4),
            f"there is a directory, which is shared: {cells['no directory', False, 100].messages:.0f} "
            f"messages a question "
            f"among 100 peers without one, {cells['directory', False, 100].messages:.1f} with it",
        ),
    )
