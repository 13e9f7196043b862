"""Support tickets whose desks follow no reason: house rules that no model can know, only learn.

Pairs of a thing and a fault are the patterns; a seed draws the desk of each. Held-out tickets say it in words
and frames that training never shows, and a part of their patterns is never trained at all.
"""

from __future__ import annotations

import itertools
import random
import tomllib
from importlib.resources import files

from combee.kernel.learn import Task
from combee.tasks.model import TaskSet
from combee.tasks.scorers import Exact

__all__ = ["NEVER_SEEN", "ticket_set"]

NEVER_SEEN = 0.15
"""Share of the patterns, and of the held-out tickets, that training never shows."""


def ticket_set(train: int = 240, test: int = 120, *, patterns: int = 60, seed: int = 0) -> TaskSet:
    """Make the set: equal seeds give equal tickets.

    Args:
        train: Training tickets.
        test: Held-out tickets.
        patterns: Pairs of a thing and a fault, each with a desk; `NEVER_SEEN` of them are held out.
        seed: Decides pairs, desks and wordings.
    """
    data = tomllib.loads(files("combee.bench").joinpath("tickets.toml").read_text(encoding="utf-8"))
    chance = random.Random(f"tickets {seed}")
    pairs = list(itertools.product(sorted(data["things"]), sorted(data["faults"])))
    chance.shuffle(pairs)
    desks = (data["desks"] * patterns)[:patterns]
    chance.shuffle(desks)
    rules = dict(zip(pairs[:patterns], desks, strict=True))
    unseen = round(patterns * NEVER_SEEN)
    seen, never = pairs[unseen:patterns], pairs[:unseen]

    def ticket(pair: tuple[str, str], number: int, split: str) -> Task:
        thing, fault = data["things"][pair[0]], data["faults"][pair[1]]
        held_out = split == "test"
        # One of the two is said in words that training has, so that there is something to recognise it by.
        new = chance.randrange(2) if held_out else None
        words = {
            "thing": thing[-1] if new == 0 else chance.choice(thing[:-1]),
            "fault": fault[-1] if new == 1 else chance.choice(fault[:-1]),
        }
        text = chance.choice(data["held_out_frames" if held_out else "frames"]).format(**words)
        return Task(f"{split}-{number}", text[0].upper() + text[1:], rules[pair])

    def tickets(split: str, chosen: list[tuple[str, str]]) -> tuple[Task, ...]:
        by_question: dict[str, Task] = {}
        for pair in itertools.islice(itertools.cycle(chosen), 50 * len(chosen)):
            if len(by_question) == len(chosen):
                break
            task = ticket(pair, len(by_question), split)
            by_question.setdefault(task.question, task)
        return tuple(by_question.values())

    def spread(count: int, among: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return list(itertools.islice(itertools.cycle(among), count))

    trained = spread(train, seen)
    chance.shuffle(trained)
    tested = spread(round(test * (1 - NEVER_SEEN)), seen) + spread(round(test * NEVER_SEEN), never)
    chance.shuffle(tested)
    about = (
        f"{train} support tickets made for Combee: {patterns} patterns go to {len(set(desks))} desks by rules without "
        f"reason. Held-out tickets are worded anew; {NEVER_SEEN:.0%} of them follow patterns that training never shows."
    )
    return TaskSet(
        "tickets", "rows", tickets("train", trained), (), tickets("test", tested), Exact(), tuple(data["desks"]), about
    )
