"""One pass over many runs: the findings of each, the same lessons of different runs under one text, and contrasts.

It holds findings and outlines, never traces: some kilobytes a run. What a lesson says is settled over all runs (the
shortest text of its key), so that a lesson that recurs is one bullet with many sources, not many bullets.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from combee.redaction import Trace
from combee.traces.mining.attempts import attempts
from combee.traces.mining.contrast import Outline, contrast, find_flips, outline
from combee.traces.mining.dead_ends import (
    find_dead_ends,
    find_errors,
    find_hangs,
    find_slow,
    find_unmended,
    said_once,
)
from combee.traces.mining.lesson import HeldBack, MinedLesson, Standing, sifted
from combee.traces.mining.missing import find_absent, find_missing
from combee.traces.mining.quoting import quoted
from combee.traces.mining.repairs import find_quoting, find_repairs
from combee.traces.mining.setups import find_setups
from combee.traces.mining.shell import hash_of
from combee.traces.mining.stored import spread_over, trace_of
from combee.traces.mining.tools import find_refusals, find_tool_repairs
from combee.traces.mining.users import Users, users_of, what_users_said

_MOST_A_RUN = 24
_SAID_OFTEN = 3
_NO_MATTER = ("-q", "-v", "-y", "--quiet", "--no-cache-dir", "--timeout", "--retries", "--progress-bar", "--verbose")
_MANY_RUNS = 20
_ANYONE_WOULD = re.compile(
    r"module `(\w+)` .*: `(?:pip3?|python3? -m pip|uv pip) install (?:-q )?\1` brought it\.\Z", re.IGNORECASE
)
"""One run of many installed a module under its own name: nobody needs to be told."""
_LEAST_RUNS = {"absent": 3, "unmended": 3, "error": 3, "slow": 3, "refusal": 3}
"""Kinds that say something only where several runs agree."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found in each run, by trace id; the texts are those that all runs share."""

    by_trace: Mapping[str, tuple[MinedLesson, ...]]
    held: tuple[HeldBack, ...] = ()
    """What was left out because another one than the agent wrote it."""

    def support(self) -> dict[str, int]:
        """Return in how many runs each lesson was found."""
        counts: dict[str, int] = defaultdict(int)
        for found in self.by_trace.values():
            for text in {each.text for each in found}:
                counts[text] += 1
        return dict(counts)


_Found = tuple[tuple[str, str], str, tuple[MinedLesson, ...], tuple[HeldBack, ...], Outline]


def findings(trace: Trace, users: Users | None = None) -> tuple[tuple[MinedLesson, ...], tuple[HeldBack, ...], Outline]:
    """Return what one run teaches by itself, what of it is held back, and its outline for comparing it with others."""
    row = attempts(trace)
    who = users or users_of(trace)
    standing, turns = Standing(trace, who), what_users_said(trace, who)
    missing = find_missing(row)
    absent, past = find_absent(row, missing)
    found = [
        *missing,
        *absent,
        *find_repairs(row),
        *find_tool_repairs(row, who),
        *find_quoting(row),
        *find_hangs(row),
        *find_flips(row),
        *find_dead_ends(row),
        *turns.corrections,
    ]
    found += find_setups(row, found)
    unmended, more = find_unmended(row, found)
    found += unmended
    found += find_errors(row, found)
    found += find_refusals(row, found)
    found += find_slow(row, trace.meta.get("task_id", ""), found)
    said, held = sifted(found[:_MOST_A_RUN], standing)
    errors = ((each.step, each.fault.line, each.form) for each in row if each.failed and each.fault)
    held += [*turns.held, *standing.unquoted(errors), *standing.called_out()]
    return tuple(said), tuple(dict.fromkeys(held)), outline(trace, row, past | more)


@dataclass(frozen=True, slots=True)
class _Finding:
    """What is done to each run of a survey: it may be done in another process."""

    users: Users | None

    def __call__(self, trace: Trace | str) -> _Found:
        trace = trace_of(trace)
        group = (trace.labels.get("tenant", ""), trace.labels.get("clearance", ""))
        return group, trace.id, *findings(trace, self.users)


def survey(traces: Iterable[Trace | str], users: Users | None = None, *, processes: int = 1) -> Survey:
    """Look through runs (or their lines in a file of stored ones) one by one; they are to be redacted before.

    Runs of different tenants or clearances are never compared: no text of the ones gets into a lesson of the others.
    """
    own: dict[tuple[str, str], dict[str, tuple[MinedLesson, ...]]] = defaultdict(dict)
    outlines: dict[tuple[str, str], list[Outline]] = defaultdict(list)
    held: list[HeldBack] = []
    for group, name, found_here, kept_back, seen in spread_over(_Finding(users), traces, processes):
        own[group][name] = found_here
        held += kept_back
        outlines[group].append(seen)
    found: dict[str, tuple[MinedLesson, ...]] = {}
    for group, by_trace in own.items():
        across = contrast(outlines[group])
        merged = {name: (*alone, *across.get(name, ())) for name, alone in by_trace.items()}
        found |= said_once(_settled(_true_across(merged, outlines[group])))
    return Survey(found, tuple(held))


def _true_across(
    by_trace: Mapping[str, Sequence[MinedLesson]], outlines: Sequence[Outline]
) -> dict[str, tuple[MinedLesson, ...]]:
    """Drop what another run proves wrong; a dead end that another run got past becomes a repair."""
    worked: set[int] = set().union(*(run.worked for run in outlines))
    past: set[str] = set().union(*(run.past for run in outlines))
    installs: dict[str, str] = {}
    for thing, line in (pair for run in outlines for pair in run.installs):
        installs[thing] = min(installs.get(thing, line), line, key=lambda each: (len(each), each))
    has = Counter(thing for run in outlines for thing, sure in run.used if sure)
    perhaps = {thing for run in outlines for thing, _ in run.used}
    missed = Counter(key for found in by_trace.values() for key in {each.key for each in found})
    fed = {each.key: each for found in by_trace.values() for each in found if each.key.endswith("/fed")}
    feedable = {each.line for each in fed.values()}

    def as_others_have_it(each: MinedLesson) -> MinedLesson | None:
        if each.kind == "hang" and (mended := fed.get(f"{each.key.removesuffix('/asks')}/fed")) is not None:
            return replace(mended, steps=each.steps)
        if each.kind == "dead_end" and (thing := each.key.split("/")[1]) in installs:
            return _got_past(each, thing, installs[thing])
        if each.key in past:
            return None
        if each.kind == "absent" and (thing := each.key.removeprefix("absent/")) in perhaps:
            return _absent_in_some(each, missed[each.key], has[thing]) if thing in has else None
        program = hash_of(each.key.split("/", 1)[1].split(" ")[0])
        return None if each.kind == "unmended" and (each.line in worked or program in feedable) else each

    return {name: tuple(filter(None, map(as_others_have_it, found))) for name, found in by_trace.items()}


def _absent_in_some(each: MinedLesson, missed: int, there: int) -> MinedLesson:
    """Return that something was missing in some runs and used in others: then nobody can plan without it."""
    head = each.text.partition(" in run after run")[0]
    others = "another one" if there == 1 else f"{there} others"
    return replace(each, text=f"{head} in {missed} runs, and there in {others}: look before you count on it.")


def _got_past(end: MinedLesson, thing: str, line: str) -> MinedLesson | None:
    """Return what worked elsewhere, if it differs in more than flags that change nothing about what is installed."""
    words = [word for word in line.split() if not word.startswith(_NO_MATTER) and not word.isdigit()]
    if len(words) > 6 or not any(word.startswith("-") for word in words):
        return None  # the same command worked elsewhere: chance, not a lesson
    package = thing.rpartition(" ")[2]
    said, tried = end.quotes
    text = f"Installing `{package}` failed again and again with {said} ({tried}); in another run {quoted(line)} worked."
    return replace(end, kind="repair", key=f"repair/{thing}/{line}", text=text)


def _settled(by_trace: Mapping[str, Sequence[MinedLesson]]) -> dict[str, tuple[MinedLesson, ...]]:
    texts: dict[str, str] = {}
    runs: dict[str, set[str]] = defaultdict(set)
    for name, found in by_trace.items():
        for each in found:
            runs[each.key].add(name)
            known = texts.get(each.key)
            if known is None or (len(each.text), each.text) < (len(known), known):
                texts[each.key] = each.text
    beaten = {f"absent/{'/'.join(key.split('/')[1:3])}" for key in runs if key.startswith("missing/")}
    settled: dict[str, tuple[MinedLesson, ...]] = {}
    for name, found in by_trace.items():
        kept: dict[str, MinedLesson] = {}
        for each in found:
            # what a "user" says in three runs or more is a harness speaking
            if each.kind == "correction" and len(runs[each.key]) >= _SAID_OFTEN:
                continue
            if len(runs[each.key]) < _LEAST_RUNS.get(each.kind, 1) or each.key in beaten:
                continue
            if len(by_trace) >= _MANY_RUNS and len(runs[each.key]) == 1 and _ANYONE_WOULD.search(texts[each.key]):
                continue
            kept.setdefault(each.key, replace(each, text=texts[each.key]))
        settled[name] = tuple(kept.values())
    return settled
