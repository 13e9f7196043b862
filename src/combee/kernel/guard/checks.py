"""The checks of one reduce that need no score: entries, verified coverage, specificity, sources, tokens.

What is usual is learned from the accepted steps of this run alone, so that a collapse never becomes the new usual; how
far below it chance can reach is computed. Specificity tells a lesson from a platitude: a curator can cite everything
and write "check your work" at the usual rate, and counts and citations do not show that.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from combee.kernel.guard.evidence import Evidence, GuardFinding, GuardLimits, Level, lessons
from combee.kernel.playbook import Delta, distinct_terms

MIN_STEPS = 3  # accepted steps before "usual" means anything
RECENT = 16  # a book fills up and lessons get rarer; only recent steps count
DEVIATIONS = 4.0  # standard deviations below the usual that chance is allowed


@dataclass(frozen=True, slots=True)
class Yield:
    """One accepted step in counts: reflections, lessons, reflections verified as covered, lessons that are specific."""

    items: int
    entries: int
    covered: int | None = None
    specific: int | None = None


def lowest_usual(pairs: Sequence[tuple[int, int]], n: int) -> tuple[float, float] | None:
    """Return (expected, lowest explainable) count for `n` trials, from earlier (count, trials) pairs.

    The usual rate is the median of the last 16. The tolerance is four standard deviations: chance within the step (as
    a binomial for rates below 1, half a Poisson above) and the spread of the rate between steps. None with fewer than
    three pairs.
    """
    rates = [count / trials for count, trials in pairs[-RECENT:] if trials > 0]
    if len(rates) < MIN_STEPS:
        return None
    usual = median(rates)
    within = usual * (1 - usual) if usual < 0.95 else 0.05 if usual <= 1 else usual / 2
    deviation = 1.4826 * median(abs(rate - usual) for rate in rates)
    between = max(deviation, (0.15 if len(rates) < 5 else 0.1) * usual)
    return usual * n, usual * n - DEVIATIONS * math.sqrt(n * within + (n * between) ** 2)


_MARKED = re.compile(r"\d|_|[a-z][A-Z]|[A-Z]{2}|\w[.:/\\]+\w|\w\(")
_NAME = re.compile(r"(?<=[^\s.!?:] )[A-Z]\w+")
_CODE = re.compile(r"`([^`\n]+)`")
SUPPORT = 4  # a lesson must share a term with at least one in four of the reflections it cites


def specific_terms(text: str) -> frozenset[str]:
    """Return the terms of a text that carry information by their form: numbers, identifiers, code, names."""
    marked = {term for term in distinct_terms(text) if _MARKED.search(term)}
    return frozenset(marked.union(_NAME.findall(text), _CODE.findall(text)))


def count_specific(delta: Delta, items: Mapping[str, str]) -> int:
    """Return how many lessons say something of what they cite.

    A lesson counts when it shares a distinctive term (`distinct_terms`, negation aside) with at least a quarter of the
    reflections it cites. From four reflections on, a term that more than half of all reflections hold does not count:
    it belongs to the subject, not to a lesson. A lesson that cites no reflection of this step counts by its form alone.
    """
    terms, common = _terms(items)
    count = 0
    for lesson in lessons(delta):
        cited = [terms[source] for source in lesson.sources if source in terms]
        if not cited:
            count += bool(specific_terms(lesson.text))
            continue
        own = distinct_terms(lesson.text) - common
        count += sum(not own.isdisjoint(theirs) for theirs in cited) * SUPPORT >= len(cited)
    return count


def echoed(delta: Delta, items: Mapping[str, str]) -> frozenset[str]:
    """Return the items of which a lesson that cites them holds a distinctive term, in the sense of `count_specific`.

    For items whose own terms need not stand in a good lesson, such as the right answer to a single case.
    """
    terms, common = _terms(items)
    echoing: set[str] = set()
    for lesson in lessons(delta):
        own = distinct_terms(lesson.text) - common
        echoing.update(source for source in lesson.sources if source in terms and not own.isdisjoint(terms[source]))
    return frozenset(echoing)


def _terms(items: Mapping[str, str]) -> tuple[dict[str, frozenset[str]], set[str]]:
    """Return the terms of each item, and those that belong to the subject: more than half of four or more have them."""
    terms = {item: distinct_terms(text) - {"not"} for item, text in items.items()}
    if len(items) < 4:
        return terms, set()
    held = Counter(term for held_by_one in terms.values() for term in held_by_one)
    return terms, {term for term, count in held.items() if count > len(items) / 2}


FEW = 3  # with fewer reflections nothing can be said about a share
SOME = 8  # from here on shares of reflections mean something
LONG = 200  # tokens of a text from which losing half of it is a loss and not a better wording


def yield_of(evidence: Evidence) -> Yield:
    """Return the step in counts, as the history keeps it."""
    covered = None if evidence.covered is None else len(evidence.covered & evidence.items.keys())
    specific = count_specific(evidence.delta, evidence.items)
    return Yield(len(evidence.items), len(lessons(evidence.delta)), covered, specific)


def check(evidence: Evidence, usual: Sequence[Yield], limits: GuardLimits) -> tuple[GuardFinding, ...]:
    """Return all that the checks see; `usual` are the accepted steps of this run, oldest first."""
    got = yield_of(evidence)
    findings = [
        *_coverage(got, usual, limits),
        *_entries(got, usual, limits),
        *_specificity(got, usual, limits),
        *_sources(evidence, limits),
        *_sizes(evidence, limits),
    ]
    return tuple(findings)


def _entries(got: Yield, usual: Sequence[Yield], limits: GuardLimits) -> list[GuardFinding]:
    if got.items < FEW:
        return []
    least = min(limits.min_entries, got.items)
    floor = max(least, math.ceil(limits.min_rate * got.items))
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
    # The floor that somebody has set holds all the same.
    whole = got.covered is not None and got.covered >= 0.8 * got.items and got.entries >= max(1, least)
    if whole:
        message += f"; but {got.covered} of {got.items} reflections are verified to be in them"
    return [GuardFinding("entries", "note" if whole else "retry", message, float(got.entries), wanted)]


def _coverage(got: Yield, usual: Sequence[Yield], limits: GuardLimits) -> list[GuardFinding]:
    if got.covered is None or got.items < FEW:
        return []
    chance = 2 * math.sqrt(got.items * limits.min_coverage * (1 - limits.min_coverage))
    floor = limits.min_coverage * got.items - chance
    share = got.covered / got.items
    known = [(each.covered, each.items) for each in usual if each.covered is not None]
    expected = lowest_usual(known, got.items)
    text = f"{got.covered} of {got.items} reflections are verified to be in the lessons"
    if got.covered <= floor or got.covered == 0:
        return [
            GuardFinding("coverage", "retry", f"{text}, under {limits.min_coverage:.0%}", share, limits.min_coverage)
        ]
    if expected and got.covered < min(expected[1], 1.2 * limits.usual_share * expected[0]):
        wanted = expected[0] / got.items
        return [GuardFinding("coverage", "retry", f"{text} where {wanted:.0%} is usual", share, wanted)]
    return []


def _specificity(got: Yield, usual: Sequence[Yield], limits: GuardLimits) -> list[GuardFinding]:
    if got.specific is None or got.entries < FEW:
        return []
    share = got.specific / got.entries
    known = [(each.specific, each.entries) for each in usual if each.specific is not None]
    expected = lowest_usual(known, got.entries)
    text = f"{got.specific} of {got.entries} lessons hold a number, identifier, name or rare word of what they cite"
    if expected:
        if got.specific < min(expected[1], limits.usual_share * expected[0]):
            wanted = expected[0] / got.entries
            return [GuardFinding("specificity", "retry", f"{text} where {wanted:.0%} is usual", share, wanted)]
    elif share < limits.min_specific:
        return [GuardFinding("specificity", "retry", f"{text}: the rest are platitudes", share, limits.min_specific)]
    return []


def _sources(evidence: Evidence, limits: GuardLimits) -> list[GuardFinding]:
    n, made = len(evidence.items), lessons(evidence.delta)
    if n < SOME or not made:
        return []
    findings = []
    cited = Counter(source for operation in made for source in operation.sources)
    unknown = sum(count for source, count in cited.items() if source not in evidence.items)
    if unknown:
        findings.append(
            GuardFinding("sources", "note", f"{unknown} citations name no reflection of this step", float(unknown))
        )
    share = sum(source in evidence.items for source in cited) / n
    if share < limits.min_cited:
        message = f"the lessons rest on {share:.0%} of {n} reflections"
        findings.append(GuardFinding("sources", "retry", message, share, limits.min_cited))
    if len(made) >= SOME:
        widths = sorted(len(operation.sources) for operation in made)
        if widths[len(widths) // 2] > n / 2:
            message = "most lessons cite more than half of all reflections: claimed coverage says nothing"
            findings.append(GuardFinding("sources", "note", message, float(widths[len(widths) // 2]), n / 2))
        weight: Counter[str] = Counter()
        for operation in made:
            weight.update({source: 1 / len(operation.sources) for source in operation.sources})
        effective = sum(weight.values()) ** 2 / max(sum(value**2 for value in weight.values()), 1e-9)
        if effective < 0.1 * n:
            message = f"the lessons rest on about {effective:.1f} of {n} reflections"
            findings.append(GuardFinding("sources", "retry", message, effective, 0.1 * n))
    return findings


def _sizes(evidence: Evidence, limits: GuardLimits) -> list[GuardFinding]:
    tokens, before, budget = evidence.tokens, evidence.tokens_before, evidence.token_budget
    findings: list[GuardFinding] = []
    if (share := evidence.window) is not None:
        message = f"an aggregating call used {share:.0%} of the model's window"
        level: Level = "alert" if share > limits.max_window else "note"
        findings += [GuardFinding("window", level, message, share, limits.max_window)] if share > 0.5 else []
    if tokens is None:
        return findings
    if before is not None and budget:
        before = min(before, budget)  # what the budget takes out of a book over it is no loss of this step
    if before is not None and before >= LONG and tokens < limits.min_left * before:
        message = f"of {before} tokens {tokens} would be left"
        findings.append(GuardFinding("tokens", "retry", message, tokens / before, limits.min_left))
    if budget and tokens > budget:
        message = f"the book would have {tokens} tokens, over the budget of {budget}"
        findings.append(GuardFinding("tokens", "reject", message, tokens / budget, 1.0))
    elif budget and tokens > 0.9 * budget:
        share = tokens / budget
        findings.append(GuardFinding("tokens", "note", f"the book uses {share:.0%} of its {budget} tokens", share, 1.0))
    return findings
