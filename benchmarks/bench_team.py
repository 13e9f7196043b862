"""A scripted team learns its lead's rules on train repositories, judged on held-out ones; five repeats with spread.

The agents have the answer key and the reflector is a script: what is shown is that rules come through traces and
aggregation and are followed by meaning, and what delegating costs. Nothing is shown about models. Writes
docs/evidence/plots/team.md, which docs/evidence/team.md explains.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean

from benchmarks.team_lab.by_command import learn_by_command
from benchmarks.team_lab.learning import Arena, Round, learn_rules, reworded, stance_of
from benchmarks.team_lab.meaning import meanings, meanings_by_words, stance, understood
from benchmarks.team_lab.phrases import HELD_OUT, SEEN, Intent
from benchmarks.team_lab.play import Played
from benchmarks.team_lab.repositories import Broken, split
from combee.kernel.playbook import Bullet
from combee.lexical import LexicalCurator
from combee.team.score import WEIGHTS
from combee.traces.mining import MiningCurator

REPEATS = range(5)
FORGET = 6.0
READINGS: dict[str, Callable[[str], Mapping[Intent, int]]] = {
    "grammar": meanings,
    "grammar without unseen synonyms": partial(meanings, seen_only=True),
    "shared words": meanings_by_words,
}
OUT = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "plots" / "team.md"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the mean, and the least and the most where they differ."""
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    middle = f"{mean(values):.{digits}f}"
    return middle if low == high else f"{middle} ({low} to {high})"


class Arm:
    """Means of one arm, one value a repeat."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def add(self, played: Sequence[Played]) -> None:
        """Add the means of one repeat."""
        for part in ("total", *WEIGHTS):
            self._put(part, mean(float(getattr(one.score, part)) for one in played))
        for name in ("messages", "steps", "tokens"):
            self._put(name, mean(getattr(one.cost, name) for one in played))

    def _put(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)

    def row(self, name: str) -> str:
        """Return a row of the table."""
        scores = [spread(self.values[part]) for part in ("total", *WEIGHTS)]
        costs = [spread(self.values[part], 0) for part in ("messages", "steps", "tokens")]
        return "| " + " | ".join([name, *scores, *costs]) + " |"


def last(train: Sequence[Broken], arena: Arena, seed: int, aggregate: str) -> Round:
    """Return the last round of a learning whose curator forgets."""
    *_, end = learn_rules(train, LexicalCurator(forget=FORGET, seed=seed), arena, seed=seed, aggregate=aggregate)
    return end


def judged(arena: Arena, arms: dict[str, Arm], seed: int) -> list[Round]:
    """Learn once and add a value to every arm."""
    train, held_out = split(seed=seed)
    rounds = list(learn_rules(train, MiningCurator(), arena, seed=seed))
    book = rounds[-1].after
    rules = stance_of(book)
    turned = stance(reworded(book, seed, contrary=True))
    arms["no rules"].add(arena.run(held_out, {}))
    arms["no rules, edit tool removed"].add(arena.run(held_out, {}, edit_tool=False))
    arms["rules after one round"].add(arena.run(held_out, stance_of(rounds[0].after)))
    arms["rules after four rounds"].add(arena.run(held_out, rules))
    arms["the same, in held-out words"].add(arena.run(held_out, stance(reworded(book, seed))))
    unseen = stance(reworded(book, seed), seen_only=True)
    arms["the same, without unseen synonyms"].add(arena.run(held_out, unseen))
    arms["the contrary, in held-out words"].add(arena.run(held_out, turned))
    for how in ("combee", "naive"):
        learned = stance_of(last(train, arena, seed, how).after)
        arms[f"four rounds, simulated forgetting, {how}"].add(arena.run(held_out, learned))
    return rounds


def by_command() -> list[str]:
    """Return a table of what the command line learns and scores, on the first deal, a team being a program."""
    train, held_out = split(seed=0)
    ways = {"ace": ("--epochs", "4"), "gepa": ("--epochs", "6", "--batch", "6")}
    lines = [
        "| by the command line | held out (least to most) | without rules | US dollars a trial |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        for method, more in ways.items():
            found = learn_by_command(Path(name), method, train, held_out, *more)
            rows = [found["rows"], found["rows_without_playbook"]]
            scores, without = (spread([row["hits"] / row["total"] for row in some]) for some in rows)
            cost = found["summary"][-1].removeprefix("a trial: ")
            lines.append(f"| `learn --method {method} {' '.join(more)}` | {scores} | {without} | {cost} |")
    return [*lines, ""]


def report(arms: dict[str, Arm], learned: list[list[Round]], runs: int) -> str:
    """Return the tables; the same runs give the same text, so that a file that is there does not change."""
    lines = ["| held-out repositories | total | " + " | ".join(WEIGHTS) + " | messages | steps | tokens |"]
    lines += ["|---" * 9 + "|", *(arm.row(name) for name, arm in arms.items()), ""]
    weights = ", ".join(f"{part} {weight}" for part, weight in WEIGHTS.items())
    lines += [f"Weights: {weights}. Mean of {len(learned)} repeats (least to most), 12 held-out repositories each."]
    lines += [f"Cost is that of one repair. Simulated forgetting: m0 = {FORGET:g}.", ""]
    lines += [*by_command(), "| round | score on train before it | rules the lead follows after it |", "|---|---|---|"]
    for number in range(len(learned[0])):
        scores = [rounds[number].score for rounds in learned]
        held = [stance_of(rounds[number].after) for rounds in learned]
        shares = ", ".join(f"{one.name} {sum(h.get(one) == 1 for h in held)}/{len(held)}" for one in Intent)
        lines.append(f"| {number + 1} | {spread(scores)} | {shares} |")
    lines += ["", "| phrasings | all | contrary ones |", "|---|---|---|"]
    for name, phrasings in (("seen", SEEN), ("held out", HELD_OUT)):
        contrary = {meaning: texts for meaning, texts in phrasings.items() if meaning[1] < 0}
        for how, read in READINGS.items():
            right, count, _ = understood(phrasings, read)
            less, of, _ = understood(contrary, read)
            lines.append(f"| {name}, by {how} | {right} of {count} | {less} of {of} |")
    lines += [
        "",
        f"{runs} different runs; equal ones are played once. What the first repeat learned:",
        "",
    ]
    book = learned[0][-1].after
    lines += [f"- {bullet.text} ({_origin(bullet)})" for bullet in book]
    return "\n".join(lines) + "\n"


def _origin(bullet: Bullet) -> str:
    """Say how many runs a lesson is from, and whether it is the contrary of a rule."""
    runs = f"from {len(bullet.sources)} run{'s' if len(bullet.sources) != 1 else ''}"
    return f"{runs}, **wrong**" if any(sign < 0 for sign in meanings(bullet.text).values()) else runs


def main() -> None:
    """Run all repeats, print the tables and write them."""
    begun = time.perf_counter()
    arena = Arena()
    names = (
        "no rules",
        "no rules, edit tool removed",
        "rules after one round",
        "rules after four rounds",
        "the same, in held-out words",
        "the same, without unseen synonyms",
        "the contrary, in held-out words",
        "four rounds, simulated forgetting, combee",
        "four rounds, simulated forgetting, naive",
    )
    arms = {name: Arm() for name in names}
    learned = [judged(arena, arms, seed) for seed in REPEATS]
    text = report(arms, learned, len(arena.known))
    OUT.write_text(
        f"# A team learns its lead's rules\n\nWritten by `python -m benchmarks team`.\n\n{text}", encoding="utf-8"
    )
    print(f"{text}\n{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
