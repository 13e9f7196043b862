"""What a playbook is worth to the agents that live by it: views of it, against controls that can win.

`combee swarm learn` on its example, a world of its own for each seed: no lessons, a view for role and task, as many
tokens not chosen for the task, the whole playbook in the window that agents have, and in one that holds it.
"""

from __future__ import annotations

import io
import json
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from benchmarks.swarm_lab.result import Experiment, Setting, Table, judge
from benchmarks.swarm_lab.spread import above, mean_of
from combee.cli.main import run
from combee.swarm import World
from combee.swarm.config import read_swarm_file
from combee.swarm.example import DESKS, write_rehearsal

__all__ = ["NONE", "SAME", "VIEW", "WHOLE", "Learned", "controlled", "learning"]

NONE, VIEW, SAME = "no lessons", "view of 160 tokens for role and task", "same size, not chosen for the task"
FULL, WHOLE = "whole playbook, same window", "whole playbook, window larger by its size"


@dataclass(frozen=True, slots=True)
class Learned:
    """By way of showing the playbook: share right and tokens a question; handbooks found in training, and named."""

    right: dict[str, float]
    tokens: dict[str, float]
    found: float
    named: float


def controlled(seed: int, *, desks: int = len(DESKS), rounds: int = 4) -> Learned:
    """Learn in one world and test its controls."""
    with tempfile.TemporaryDirectory() as name:
        file = write_rehearsal(Path(name) / "office", seed=seed, desks=DESKS[:desks])
        said = io.StringIO()
        with redirect_stdout(said):
            run(["swarm", "learn", str(file), "--rounds", str(rounds), "--controls", "--json", "--quiet"])
        ways = {one["way"]: one for one in json.loads(said.getvalue())["controls"]}
        described = read_swarm_file(file)
        docs = described.folder / "docs"
        books = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
        with World.open(described.world, read_only=True) as world:
            found = books & {str(path) for (path,) in world.rows("SELECT subject FROM reads")}
        text = (described.learned / "playbook.md").read_text(encoding="utf-8")
    return Learned(
        {way: one["hits"] / one["total"] for way, one in ways.items()},
        {way: one["tokens"] for way, one in ways.items()},
        len(found) / len(books),
        sum(book in text for book in found) / len(found),
    )


def learning(setting: Setting) -> Experiment:
    """Views of a playbook against controls."""
    desks, rounds = setting.pick((2, 2), (len(DESKS), 4))
    found = setting.over(controlled, desks=desks, rounds=rounds)
    ways = list(found[0].right)
    right = {way: mean_of(one.right[way] for one in found) for way in ways}
    tokens = {way: mean_of(one.tokens[way] for one in found) for way in ways}
    more = {way: mean_of(one.right[VIEW] - one.right[way] for one in found) for way in ways if way != VIEW}
    price = mean_of(one.tokens[WHOLE] / one.tokens[VIEW] for one in found)
    there, named = mean_of(one.found for one in found), mean_of(one.named for one in found)
    rows = tuple(
        (way, f"{right[way]:.1%}", f"{tokens[way]:,.0f}", "" if way == VIEW else f"{more[way]:+.1%}") for way in ways
    )
    claims = (
        judge(
            "A view of the playbook for role and task gets more right than any other way of showing it, or none.",
            "; ".join(f"{one:+.1%} of the answers against: {way}" for way, one in more.items()),
            (above(one, 0) for one in more.values()),
        ),
        judge(
            "A view gives what the whole playbook gives in a window that holds it (5 points fewer at most), for fewer "
            "tokens.",
            f"{more[WHOLE]:+.1%} of the answers; the whole playbook takes {price:.1f} times the tokens",
            (above(more[WHOLE], -0.05), above(price, 1)),
        ),
        judge(
            "What one agent has found stands in the lessons of all: asking the makers of traces could add nothing.",
            f"{there:.1%} of the handbooks were found by some agent in training; lessons name {named:.1%} of these",
            [above(named, 0.99)],
        ),
    )
    return Experiment(
        "learning",
        f"`combee swarm learn` on its example, {desks} desks, {rounds} rounds, test questions on cases that no "
        "training question asked for; agents have windows of 2,000 tokens.",
        (Table("Controls", ("shown", "right", "tokens a question", "the view, more right"), rows),),
        (),
        claims,
    )
