"""The guard end to end, simulated: false alarms of clean runs, collapse, platitudes, a harmful lesson, slow drift.

Reflections, aggregators and scores are simulated (simulated forgetting, as the paper's two points: a lesson entering a
call of m stays with probability exp(-m/40)); the guard is the real one. All seeds are held out: the guard's limits were
set with seeds below 1,000. Run: python -m benchmarks.bench_guard
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from combee.kernel.guard import (
    Evidence,
    GuardLimits,
    GuardState,
    Rows,
    Spending,
    Trial,
    Verdict,
    after,
    compare,
    follow,
    judge,
)
from combee.kernel.guard.erosion import is_proven
from combee.kernel.guard.regression import p_not_above
from combee.kernel.playbook import (
    Add,
    Bullet,
    Delta,
    Merge,
    Operation,
    Playbook,
    Remove,
    Update,
    Vote,
    VoteKind,
    apply,
    delta_of,
    says,
)

Aggregator = Callable[[Mapping[str, str], int, random.Random], Delta]
STEPS = 8
FEW = (16, 24)
HELD_OUT = 1_000_000


def reflections(n: int, rng: random.Random) -> dict[str, str]:
    """One precise lesson each: a tag of forty and an amount."""
    made = {}
    for i in range(n):
        kind = rng.choice(["Debt", "Lease", "Equity", "Tax", "Stock"])
        tag = f"{kind}Instrument{rng.choice(['Face', 'Rate', 'Term', 'Value'])}{rng.randrange(1, 3)}"
        made[f"r{i:03}"] = f"The answer was wrong. For the amount {rng.randint(10**4, 10**7)} the tag is {tag}."
    return made


def lesson(source: str, text: str) -> Add:
    return Add("OTHERS", text.split(". ", 1)[1], (source,))


def forgetting(items: Mapping[str, str], max_items: int, rng: random.Random, chances: int = 2) -> Delta:
    """Leaves of at most `max_items`, merged by code; what was lost gets a second chance."""
    left, kept = list(items), []
    for _ in range(chances):
        groups = [left[at : at + max_items] for at in range(0, len(left), max_items)]
        found = {each for group in groups for each in group if rng.random() < math.exp(-len(group) / 40)}
        kept += sorted(found)
        left = [each for each in left if each not in found]
    return Delta(tuple(lesson(each, items[each]) for each in kept))


def one_pass(items: Mapping[str, str], max_items: int, rng: random.Random) -> Delta:
    return forgetting(items, max_items, rng, chances=1)


def collapsing(items: Mapping[str, str], max_items: int, rng: random.Random) -> Delta:
    """An aggregator that is overloaded from nine items a call on, and sound below."""
    if max_items <= 8:
        return forgetting(items, max_items, rng)
    return Delta(tuple(lesson(each, items[each]) for each in items if rng.random() < 0.1))


def platitudes(items: Mapping[str, str], _max_items: int, _rng: random.Random) -> Delta:
    """Cites everything and says nothing, at the usual number of entries."""
    words = ["Check", "Verify", "Review", "Read", "Repeat", "Consider", "Remember", "Compare", "Weigh"]
    texts = [f"{a} your work and {b.lower()} the answer carefully before you finish." for a in words for b in words]
    return Delta(tuple(Add("OTHERS", text, tuple(items)) for text in texts[: len(items)]))


def verified(items: Mapping[str, str], delta: Delta) -> frozenset[str]:
    return frozenset(
        s for op in delta if isinstance(op, Add) and len(op.sources) == 1 for s in op.sources if s in items
    )


def next_scores(
    rows: Rows, rng: random.Random, *, skill: float = 0.6, churn: float = 0.05, drop: float = 0.0
) -> dict[str, tuple[int, int]]:
    """Scores of the next book: parts change both ways about the score `skill`, and `drop` more of all are lost."""
    right, parts = (sum(column) for column in zip(*rows.values(), strict=True))
    lose, gain = churn / 2 / skill + drop * parts / max(right, 1), churn / 2 / (1 - skill)
    new = {}
    for name, (hits, total) in rows.items():
        lost = sum(rng.random() < lose for _ in range(hits))
        won = sum(rng.random() < gain for _ in range(total - hits))
        new[name] = (hits - lost + won, total)
    return new


@dataclass(frozen=True)
class Plan:
    """What a simulated run does; drops are shares of the score."""

    aggregator: Aggregator = forgetting
    collapse_at: int | None = None
    bad: Aggregator = collapsing
    harm_at: int | None = None
    harm: float = 0.0
    drift: float = 0.0
    steps: int = STEPS
    rows: int = 220
    parts: int = 1
    batch: tuple[int, int] = (16, 80)


@dataclass(frozen=True)
class Event:
    """One verdict of a simulated run."""

    step: int
    attempt: int
    verdict: Verdict


def run(plan: Plan, seed: int) -> list[Event]:
    """Play the loop's part: reduce, judge, retry smaller, score, judge again, learn the usual."""
    rng = random.Random(seed)
    state, events = GuardState(), []
    base: Rows = {f"q{i}": (sum(rng.random() < 0.6 for _ in range(plan.parts)), plan.parts) for i in range(plan.rows)}
    right, parts = (sum(column) for column in zip(*base.values(), strict=True))
    skill = min(max(right / parts, 0.05), 0.95)  # a clean run neither gains nor loses on the book it began with
    old = stable = base
    for step in range(plan.steps):
        items = reflections(rng.randint(*plan.batch), rng)
        aggregate = plan.bad if step == plan.collapse_at else plan.aggregator
        size, attempt = 16, 0
        while True:
            delta = aggregate(items, size, rng)
            seen = Evidence(step, items, delta, covered=verified(items, delta), max_items=size, attempt=attempt)
            verdict = judge(seen, state)
            if verdict.action != "retry_smaller":
                break
            events.append(Event(step, attempt, verdict))
            state = after(state, seen, verdict)
            size, attempt = verdict.max_items or 1, attempt + 1
        if verdict.applies:
            drop = plan.harm if step == plan.harm_at else plan.drift
            skill = max(skill - drop, 0.05)  # what is lost stays lost
            new = next_scores(old, rng, skill=skill, drop=drop)
            trials = [Trial("old", new, old)] + ([Trial("stable", new, stable)] if old is not stable else [])
            verdict = judge(seen, state, trials=trials)
            old = new if verdict.applies else stable if verdict.rollback else old
            stable = new if verdict.promote else stable
        events.append(Event(step, attempt, verdict))
        state = after(state, seen, verdict)
    return events


def alarmed(plan: Plan, runs: int) -> int:
    """Return how many runs had any verdict but accept."""
    return sum(any(e.verdict.action != "accept" for e in run(plan, seed)) for seed in seeds(runs))


def seeds(runs: int) -> range:
    return range(HELD_OUT, HELD_OUT + runs)


def first_alarm(plan: Plan, seed: int) -> Event | None:
    return next((event for event in run(plan, seed) if event.verdict.action != "accept"), None)


def _clean() -> None:
    print(f"clean runs of {STEPS} steps, 500 each, seeds from {HELD_OUT:,}: runs with any alarm (wanted: at most 4)")
    for name, plan in {
        "second chance, 220 rows": Plan(),
        "no second chance, 220 rows": Plan(aggregator=one_pass, batch=(16, 48)),
        "second chance, 100 rows of 4 parts": Plan(rows=100, parts=4, batch=FEW),
        "small batches of 4 to 12": Plan(batch=(4, 12)),
    }.items():
        began = time.perf_counter()
        print(f"  {name:<36} {alarmed(plan, 500):>3}   ({time.perf_counter() - began:.0f} s)")


def _planted(runs: int = 200) -> None:
    print(f"planted faults, {runs} runs each")
    for k in (0, 3, 6):
        events = [run(Plan(collapse_at=k, batch=(40, 80), steps=k + 1), seed) for seed in seeds(runs)]
        first = [next(e for e in each if e.step == k) for each in events]
        caught = sum(e.verdict.action == "retry_smaller" for e in first)
        healed = sum(any(e.step == k and e.attempt > 0 and e.verdict.applies for e in each) for each in events)
        print(
            f"  collapse at step {k}: caught at once {caught / runs:.1%}, healed by smaller groups {healed / runs:.1%}"
        )
        events = [run(Plan(collapse_at=k, bad=platitudes, steps=k + 1), seed) for seed in seeds(runs)]
        caught = sum(any(e.step == k and e.verdict.action == "reject" for e in each) for each in events)
        print(f"  platitudes at step {k}: rejected {caught / runs:.1%}")
    for harm in (0.05, 0.1, 0.15, 0.2):
        hits = [first_alarm(Plan(harm_at=4, harm=harm, steps=5, batch=FEW), seed) for seed in seeds(runs)]
        caught = sum(hit is not None and hit.step == 4 and hit.verdict.action == "reject" for hit in hits)
        print(f"  harmful lesson of -{100 * harm:.0f} points at step 4: rejected there {caught / runs:.1%}")
    for rows, parts in ((100, 4), (220, 4), (500, 1), (1000, 1)):
        plan = Plan(harm_at=4, harm=0.05, steps=5, batch=FEW, rows=rows, parts=parts)
        hits = [first_alarm(plan, seed) for seed in seeds(runs)]
        caught = sum(hit is not None and hit.step == 4 and hit.verdict.action == "reject" for hit in hits)
        print(f"  the one of -5 points on {rows} rows of {parts} parts: rejected there {caught / runs:.1%}")
    for drift in (0.01, 0.02, 0.03):
        found = [first_alarm(Plan(drift=drift, steps=10, batch=FEW), seed) for seed in seeds(runs)]
        steps = sorted(hit.step for hit in found if hit is not None)
        late = f", median at step {steps[len(steps) // 2] + 1}" if steps else ""
        print(f"  drift of -{100 * drift:.0f} points a step over 10: caught {len(steps) / runs:.1%}{late}")


def _power() -> None:
    print("smallest drop found with 80 % power at the first look (points)")
    rng = random.Random(0)
    for rows in (3, 20, 50, 100, 220, 500, 1000):
        base = {f"q{i}": (int(rng.random() < 0.6), 1) for i in range(rows)}
        result = compare(Trial("old", next_scores(base, rng), base), GuardState().spending.alpha())
        print(f"  {rows:>5} rows: " + (f"{100 * result.smallest:.1f}" if result.smallest else "no power"))


def evaluations(rows: int, steps: int, rng: random.Random, *, anew: bool, harm: float) -> list[Rows]:
    """Scores of `steps` books and of the one before them; from the first on, `harm` of all rows are lost for good.

    Five rows in a hundred change from book to book: for good, as the start of another change, or (`anew`) because a
    tenth of the rows is answered by chance each time.
    """
    truth = {f"q{i}": (int(rng.random() < 0.6), 1) for i in range(rows)}
    if not anew:
        found: list[Rows] = [truth]
        for step in range(steps):
            lost = 0.0 if step else harm
            found.append(next_scores(found[-1], rng, skill=0.6 - harm, drop=lost))
        return found
    by_chance = {name for name in truth if rng.random() < 0.1}
    harmed = {name for name, (hits, _) in truth.items() if hits and rng.random() < harm / 0.6}

    def scored(bad: set[str]) -> Rows:
        odds = {name: 0.0 if name in bad else 0.5 if name in by_chance else hits for name, (hits, _) in truth.items()}
        return {name: (int(rng.random() < chance), 1) for name, chance in odds.items()}

    return [scored(set()), *(scored(harmed) for _ in range(steps))]


def looks_at(found: Sequence[Rows], pooled: int) -> Iterator[list[list[int]]]:
    """Yield the comparisons after each book: as the guard makes them, or of the last few books together."""
    first = found[0]
    for step, new in enumerate(found[1:], start=1):
        last = found[max(1, step - pooled + 1) : step + 1] if pooled else [new]
        stable = [sum(book[name][0] for book in last) - len(last) * first[name][0] for name in first]
        old = [new[name][0] - found[step - 1][name][0] for name in first]
        yield [stable] if pooled or step == 1 else [stable, old]


def first_below(found: Sequence[Rows], pooled: int) -> int | None:
    """Return the number of the book, from 1, at which a comparison falls below its level."""
    spending = Spending()
    for step, looks in enumerate(looks_at(found, pooled), start=1):
        for differences in looks:
            if p_not_above(differences) <= spending.alpha():
                return step
            spending = Spending(looks=spending.looks + 1)
    return None


def _evaluations(runs: int = 200) -> None:
    print(f"a lesson of -5 points in the first of 5 books: found by the 1st, 3rd, 5th evaluation; {runs} runs each")
    for anew in (False, True):
        for rows in (100, 220, 500, 1000):
            shown = []
            for pooled in (0, 3):
                at = [
                    first_below(evaluations(rows, 5, random.Random(seed), anew=anew, harm=0.05), pooled)
                    for seed in seeds(runs)
                ]
                shares = [sum(step is not None and step <= most for step in at) / runs for most in (1, 3, 5)]
                clean = [
                    first_below(evaluations(rows, 8, random.Random(seed), anew=anew, harm=0.0), pooled)
                    for seed in seeds(runs)
                ]
                false = sum(step is not None for step in clean)
                shown.append(" / ".join(f"{share:.0%}" for share in shares) + f" ({false} false)")
            name = "by chance each time" if anew else "for good"
            print(
                f"  rows change {name:<20} {rows:>5} rows: guard {shown[0]:<32} last three pooled {shown[1]}",
                flush=True,
            )


def voted_book(rng: random.Random) -> Playbook:
    """Sixty bullets; two in three are well-voted, some have harmful votes."""
    texts = [text.split(". ", 1)[1] for text in reflections(60, rng).values()]
    rows = [
        Bullet(f"misc-{n:05d}", "OTHERS", text, rng.choice([0, 1, 4, 6, 9, 11]), rng.choice([0] * 9 + [3]))
        for n, text in enumerate(texts, 1)
    ]
    return Playbook(tuple(rows), high_water=60)


def _honest(book: Playbook, rng: random.Random) -> list[Operation]:
    """Merges two into one text, says one better, takes out one that harms: a curator that keeps house."""
    one, other, better = rng.sample(book.bullets, 3)
    tidy: list[Operation] = [Merge((one.id, other.id), f"{one.text} Likewise: {other.text}", ())]
    tidy.append(Update(better.id, f"{better.text} Look at the unit first.", ()))
    harmful = [each for each in book if each.harmful > each.helpful and each not in (one, other, better)]
    return [*tidy, *(Remove(each.id, ()) for each in harmful[:1])]


ERODERS: dict[str, Callable[[Playbook, random.Random], list[Operation]]] = {
    "takes out the first 40 %": lambda book, _: [Remove(b.id, ()) for b in book.bullets[: 2 * len(book) // 5]],
    "takes out two at random": lambda book, rng: [Remove(b.id, ()) for b in rng.sample(book.bullets, 2)],
    "rewrites five as platitudes": lambda book, rng: [
        Update(b.id, "Check your work carefully.", ()) for b in rng.sample(book.bullets, 5)
    ],
    "merges ten into a platitude": lambda book, rng: [
        Merge(tuple(b.id for b in rng.sample(book.bullets, 10)), "Check your work carefully.", ())
    ],
}


def eroded(
    curate: Callable[[Playbook, random.Random], list[Operation]], seed: int, steps: int = STEPS
) -> tuple[int | None, float]:
    """Return the first step with an alert of erosion, and the share of the well-voted bullets still said at the end."""
    rng = random.Random(seed)
    state, book = GuardState(), voted_book(rng)
    proven = [bullet.text for bullet in book if is_proven(bullet)]
    first = None
    for step in range(steps):
        items = reflections(24, rng)
        delta = delta_of([*forgetting(items, 16, rng), *curate(book, rng)])
        votes = tuple(
            Vote(rng.choice(sorted(items)), bullet.id, VoteKind.HELPFUL if rng.random() < 0.9 else VoteKind.HARMFUL)
            for bullet in rng.sample(book.bullets, 12)
        )
        seen = Evidence(step, items, delta, covered=verified(items, delta), before=book, votes=votes)
        verdict = judge(seen, state)
        new = apply(book, verdict.delta, votes=votes, step=step).playbook
        standing, findings = follow(state.standing, seen, verdict.delta, new, GuardLimits())
        told = [one for one in (*verdict.findings, *findings) if one.check == "erosion" and one.level == "alert"]
        first = step if told and first is None else first
        state, book = after(replace(state, standing=standing), seen, verdict), new
    kept = sum(any(says(bullet.text, text) for bullet in book) for text in proven)
    return first, kept / len(proven)


def _erosion(runs: int = 200) -> None:
    print(
        f"erosion of a book of 60 over {STEPS} steps, {runs} runs each: alerted, first at step, well-voted bullets kept"
    )
    for name, curate in {"an honest curator that keeps house": _honest, **ERODERS}.items():
        found = [eroded(curate, seed) for seed in seeds(runs)]
        steps = sorted(step + 1 for step, _ in found if step is not None)
        when = f"step {steps[len(steps) // 2]}" if steps else "-"
        kept = sum(share for _, share in found) / runs
        print(f"  {name:<36} {len(steps) / runs:>6.1%}   {when:<7} {kept:.1%}", flush=True)


def main() -> None:
    """Print the tables."""
    _clean()
    _erosion()
    _planted()
    _power()
    _evaluations()


if __name__ == "__main__":
    main()
