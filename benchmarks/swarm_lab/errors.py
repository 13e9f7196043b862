"""Errors with and without a verifying centre: how they multiply along a chain, and from what length checking pays."""

from __future__ import annotations

from benchmarks.swarm_lab.chains import CENTRE, NONE, REUSED, TRIES, VOTE, Chains, Slips, Work, run_chains
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, judge

__all__ = ["errors", "pays_from"]

_Cells = dict[tuple[Slips, str], Chains]


def pays_from(one: Chains, other: Chains) -> int | None:
    """Return the depth from which on the first gives more right answers for the same tokens, None if never."""
    better = [one.yielded(depth) > other.yielded(depth) for depth in range(1, len(one.right) + 1)]
    losses = [n for n, win in enumerate(better) if not win]
    start = losses[-1] + 2 if losses else 1
    return start if start <= len(better) else None


def errors(setting: Setting) -> Experiment:
    """Answers that rest on answers."""
    depth, chains = setting.pick((5, 3), (20, 16))
    kinds = [Slips(rate) for rate in setting.pick((0.2,), (0.02, 0.05, 0.1, 0.2))]
    kinds.append(Slips(0.1, shared=0.5))
    cells = {
        (slips, way): run_chains(Work(way, slips, chains, depth))
        for slips in kinds
        for way in ((NONE, CENTRE, VOTE) if slips == kinds[-2] else (NONE, CENTRE))
    }
    uses, trunk = setting.pick((1, 4), (1, 4, 16)), 4
    again = {
        (many, way): run_chains(Work(way, Slips(0.1), chains, trunk, many))
        for many in uses
        for way in (NONE, CENTRE, REUSED)
    }
    series = {
        f"{way}, {_name(slips)}": list(enumerate(cells[slips, way].right, 1))
        for slips in kinds[-3:-1]
        for way in (NONE, CENTRE)
    }
    return Experiment(
        "errors",
        f"{chains} chains of {depth} steps; each step, by another agent, adds what a source says to the answer "
        f"before it. The centre reads the source again and slips as often as others; an answer has {TRIES} tries. "
        "Pays: more right answers for the same tokens than without a check, from that depth on.",
        (_along(cells, depth), _used(again, trunk)),
        (Curve("errors", "Right answers along a chain", "depth", "share right", series, log_x=False, log_y=False),),
        (*_claims(cells, kinds, depth), _reuse(again, uses[-1], trunk + 1)),
    )


def _along(cells: _Cells, depth: int) -> Table:
    marks = (1, depth // 2, depth)
    columns = ("slips", "way", *(f"right at depth {mark}" for mark in marks), "messages a step", "tokens a step",
               *(f"right for 1M tokens at {mark}" for mark in marks), "pays from depth")  # fmt: skip
    rows = tuple(
        (_name(slips), way, *(f"{one.right[mark - 1]:.0%}" for mark in marks), f"{one.messages:.1f}",
         f"{one.tokens[-1] / depth:,.0f}", *(f"{one.yielded(mark):,.1f}" for mark in marks),
         "" if way == NONE else str(pays_from(one, cells[slips, NONE]) or "never"))
        for (slips, way), one in cells.items()
    )  # fmt: skip
    return Table("Errors along a chain", columns, rows)


def _used(again: dict[tuple[int, str], Chains], trunk: int) -> Table:
    rows = tuple(
        (str(many), way, f"{one.right[-1]:.0%}", f"{one.tokens[-1]:,.0f}", f"{many * one.yielded(trunk + 1):,.0f}")
        for (many, way), one in again.items()
    )
    columns = ("uses", "way", "right", "tokens in all", "right for 1M tokens")
    return Table(f"An answer at depth {trunk} on which others rest, slips of 10%", columns, rows)


def _name(slips: Slips) -> str:
    return f"{slips.rate:.0%}" + (f", {slips.shared:.0%} of them in the source" if slips.shared else "")


def _claims(cells: _Cells, kinds: list[Slips], depth: int) -> tuple[Claim, ...]:
    own = kinds[:-1]
    wrong = {slips: [1 - cells[slips, NONE].right[at] for at in (0, -1)] for slips in own}
    kept = {slips: cells[slips, CENTRE].right[-1] for slips in kinds}
    pays = {slips: pays_from(cells[slips, CENTRE], cells[slips, NONE]) for slips in own}
    most = own[-1]
    vote, checked = cells[most, VOTE], cells[most, CENTRE]
    return (
        judge(
            "Where nobody checks, errors multiply along a chain.",
            "; ".join(
                f"slips of {_name(slips)}: {first:.0%} wrong at depth 1, {last:.0%} at {depth}"
                for slips, (first, last) in wrong.items()
            ),
            held=all(last > 4 * slips.rate for slips, (_, last) in wrong.items()),
            partly=any(last > 2 * slips.rate for slips, (_, last) in wrong.items()),
        ),
        judge(
            "A centre that checks answers against their sources stops errors before they spread.",
            "the slip is the reader's own and seldom: "
            + ", ".join(f"{right:.0%} right at depth {depth} with {_name(slips)}" for slips, right in kept.items()),
            held=min(kept.values()) >= 0.95, partly=kept[own[0]] >= 0.95,
        ),
        judge(
            "At equal tokens checking saves more than it costs.",
            "errors are frequent and chains long: "
            + ", ".join(
                f"slips of {_name(slips)}: " + (f"it pays from depth {pays[slips]}" if pays[slips] else "it never pays")
                for slips in own
            )
            + f"; a checked step takes {cells[own[0], CENTRE].tokens[-1] / cells[own[0], NONE].tokens[-1]:.1f} times "
            "the tokens",
            held=all(one == 1 for one in pays.values()), partly=any(pays.values()),
        ),
        judge(
            "Peers who do the work three times and take the majority need no centre.",
            f"with slips of {_name(most)} {vote.right[-1]:.0%} right at depth {depth}, {vote.yielded(depth):,.1f} for "
            f"1M tokens, with a centre {checked.right[-1]:.0%} and {checked.yielded(depth):,.1f}",
            held=vote.yielded(depth) >= checked.yielded(depth), partly=vote.right[-1] >= checked.right[-1],
        ),
    )  # fmt: skip


def _reuse(again: dict[tuple[int, str], Chains], most: int, depth: int) -> Claim:
    once, often = ({way: n * again[n, way].yielded(depth) for way in (NONE, CENTRE, REUSED)} for n in (1, most))
    return judge(
        "Answers that are used again are worth checking, the others are not.",
        f"right answers for 1M tokens when one at depth {depth - 1} has one use: {once[NONE]:,.0f} without a check, "
        f"{once[REUSED]:,.0f} with what is used again checked, {once[CENTRE]:,.0f} with all; {most} uses: "
        f"{often[NONE]:,.0f}, {often[REUSED]:,.0f} and {often[CENTRE]:,.0f}",
        held=often[REUSED] > often[NONE] > often[CENTRE], partly=often[REUSED] > often[NONE],
    )  # fmt: skip
