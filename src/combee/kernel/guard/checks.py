"""The checks of one reduce that need no score: entries, verified coverage, specificity, sources, tokens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from combee.kernel.guard.evidence import Evidence, Finding, Limits, lessons
from combee.kernel.guard.history import Yield, lowest_usual
from combee.kernel.guard.specific import count_specific

__all__ = ["check", "yield_of"]

FEW = 3  # with fewer reflections nothing can be said about a share
SOME = 8  # from here on shares of reflections mean something
LONG = 200  # tokens of a text from which losing half of it is a loss and not a better wording


def yield_of(evidence: Evidence) -> Yield:
    """Return the step in counts, as the history keeps it."""
    covered = None if evidence.covered is None else len(evidence.covered & evidence.items.keys())
    specific = count_specific(evidence.delta, evidence.items)
    return Yield(len(evidence.items), len(lessons(evidence.delta)), covered, specific)


def check(evidence: Evidence, usual: Sequence[Yield], limits: Limits) -> tuple[Finding, ...]:
    """Return all that the checks see; `usual` are the accepted steps of this run, oldest first."""
    got = yield_of(evidence)
    found = [
        *_coverage(got, usual, limits),
        *_entries(got, usual, limits),
        *_specificity(got, usual, limits),
        *_sources(evidence, limits),
        *_sizes(evidence, limits),
    ]
    return tuple(found)


def _entries(got: Yield, usual: Sequence[Yield], limits: Limits) -> list[Finding]:
    if got.items < FEW:
        return []
    floor = max(limits.min_entries, math.ceil(limits.min_rate * got.items))
    expected = lowest_usual([(each.entries, each.items) for each in usual], got.items)
    lessons = f"{got.entries} lesson{'' if got.entries == 1 else 's'}"
    if got.entries < floor:
        message = f"{lessons} from {got.items} reflections, under the floor of {floor}"
        wanted = float(floor)
    elif expected and got.entries < min(expected[1], limits.usual_share * expected[0]):
        message = f"{lessons} from {got.items} reflections where about {expected[0]:.0f} are usual"
        wanted = expected[0]
    else:
        return []
    # Reflections that say the same make few lessons: then most of them are in those, which is verified.
    whole = got.covered is not None and got.covered >= 0.8 * got.items and got.entries > 0
    if whole:
        message += f"; but {got.covered} of {got.items} reflections are verified to be in them"
    return [Finding("entries", "note" if whole else "retry", message, float(got.entries), wanted)]


def _coverage(got: Yield, usual: Sequence[Yield], limits: Limits) -> list[Finding]:
    if got.covered is None or got.items < FEW:
        return []
    chance = 2 * math.sqrt(got.items * limits.min_coverage * (1 - limits.min_coverage))
    floor = limits.min_coverage * got.items - chance
    share = got.covered / got.items
    known = [(each.covered, each.items) for each in usual if each.covered is not None]
    expected = lowest_usual(known, got.items)
    text = f"{got.covered} of {got.items} reflections are verified to be in the lessons"
    if got.covered <= floor or got.covered == 0:
        return [Finding("coverage", "retry", f"{text}, under {limits.min_coverage:.0%}", share, limits.min_coverage)]
    if expected and got.covered < min(expected[1], 1.2 * limits.usual_share * expected[0]):
        wanted = expected[0] / got.items
        return [Finding("coverage", "retry", f"{text} where {wanted:.0%} is usual", share, wanted)]
    return []


def _specificity(got: Yield, usual: Sequence[Yield], limits: Limits) -> list[Finding]:
    if got.specific is None or got.entries < FEW:
        return []
    share = got.specific / got.entries
    known = [(each.specific, each.entries) for each in usual if each.specific is not None]
    expected = lowest_usual(known, got.entries)
    text = f"{got.specific} of {got.entries} lessons hold a number, identifier, name or rare word of what they cite"
    if expected:
        if got.specific < min(expected[1], limits.usual_share * expected[0]):
            wanted = expected[0] / got.entries
            return [Finding("specificity", "retry", f"{text} where {wanted:.0%} is usual", share, wanted)]
    elif share < limits.min_specific:
        return [Finding("specificity", "retry", f"{text}: the rest are platitudes", share, limits.min_specific)]
    return []


def _sources(evidence: Evidence, limits: Limits) -> list[Finding]:
    n, made = len(evidence.items), lessons(evidence.delta)
    if n < SOME or not made:
        return []
    found = []
    cited = Counter(source for operation in made for source in operation.sources)
    unknown = sum(count for source, count in cited.items() if source not in evidence.items)
    if unknown:
        found.append(Finding("sources", "note", f"{unknown} citations name no reflection of this step", float(unknown)))
    share = sum(source in evidence.items for source in cited) / n
    if share < limits.min_cited:
        message = f"the lessons rest on {share:.0%} of {n} reflections"
        found.append(Finding("sources", "retry", message, share, limits.min_cited))
    if len(made) >= SOME:
        widths = sorted(len(operation.sources) for operation in made)
        if widths[len(widths) // 2] > n / 2:
            message = "most lessons cite more than half of all reflections: claimed coverage says nothing"
            found.append(Finding("sources", "note", message, float(widths[len(widths) // 2]), n / 2))
        weight: Counter[str] = Counter()
        for operation in made:
            weight.update({source: 1 / len(operation.sources) for source in operation.sources})
        effective = sum(weight.values()) ** 2 / max(sum(value**2 for value in weight.values()), 1e-9)
        if effective < 0.1 * n:
            message = f"the lessons rest on about {effective:.1f} of {n} reflections"
            found.append(Finding("sources", "retry", message, effective, 0.1 * n))
    return found


def _sizes(evidence: Evidence, limits: Limits) -> list[Finding]:
    tokens, before, budget = evidence.tokens, evidence.tokens_before, evidence.token_budget
    found: list[Finding] = []
    if tokens is None:
        return found
    if before is not None and budget:
        before = min(before, budget)  # what the budget takes out of a book over it is no loss of this step
    if before is not None and before >= LONG and tokens < limits.min_left * before:
        message = f"of {before} tokens {tokens} would be left"
        found.append(Finding("tokens", "retry", message, tokens / before, limits.min_left))
    if budget and tokens > budget:
        message = f"the book would have {tokens} tokens, over the budget of {budget}"
        found.append(Finding("tokens", "reject", message, tokens / budget, 1.0))
    elif budget and tokens > 0.9 * budget:
        share = tokens / budget
        found.append(Finding("tokens", "note", f"the book uses {share:.0%} of its {budget} tokens", share, 1.0))
    return found
