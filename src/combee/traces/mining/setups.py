"""Project-wide fixes: a call failed, the project was set up (installed, synced, migrated, built), the same call passed.

The tools and the words with which they set something up are a table (`combee.traces.mining.programs`). Where anything
else was changed between, or single packages were installed, nothing is said: it may have been that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from combee.traces.mining.attempts import Attempt, acts, changed_files, ran
from combee.traces.mining.lesson import MinedLesson
from combee.traces.mining.missing import installed
from combee.traces.mining.quoting import quotable, quoted
from combee.traces.mining.repairs import culprit
from combee.traces.mining.shell import SimpleCommand, core, same_call, sets_up_project, similar

_WINDOW = 14
_LONGEST = 200
_MOST = 3
_TIDIES = re.compile(
    r"rm -r?f?r? \S*(?:node_modules|target|build|dist|\.venv|venv|vendor|\.next|out|bin|obj)\S*|mkdir .*|cd .*"
)


def find_setups(row: Sequence[Attempt], handled: Sequence[MinedLesson]) -> list[MinedLesson]:
    """Return the failed calls that passed once the project was set up; those that are told already are left out."""
    told = {each.steps[0] for each in handled if each.steps and each.kind != "dead_end"}
    found: dict[str, MinedLesson] = {}
    for place, attempt in enumerate(row):
        if attempt.worked is not False or attempt.command is None or attempt.step in told:
            continue
        lesson = _passed_after(place, row)
        if lesson is not None:
            found.setdefault(lesson.key, lesson)
    return list(found.values())


def _passed_after(place: int, row: Sequence[Attempt]) -> MinedLesson | None:
    first = row[place]
    part = culprit(first) or (first.parts[0] if len(first.parts) == 1 else None)
    done: list[SimpleCommand] = []
    for attempt in row[place + 1 : place + 1 + _WINDOW]:
        if attempt.command is None:
            if changed_files(attempt):
                return None
            continue
        same = _same(first, part, attempt)
        here = [each for each in acts(attempt) if each is not same]
        if same is not None:
            before = attempt.parts[: attempt.parts.index(same)] if same in attempt.parts else ()
            here = [each for each in here if each in before]
        if attempt.worked is False:
            if same is not None and here == []:
                return None  # it failed again: that failure is looked at on its own
            continue
        setups = [each for each in here if sets_up_project(each) and not installed(each)]
        if any(
            each not in setups and not (_TIDIES.fullmatch(each.text) or _stages(part, each)) for each in here
        ) or _writes(attempt, setups):
            return None
        done += [each for each in setups if each.text not in {one.text for one in done}]
        if same is not None and attempt.worked and done and ran(attempt, same):
            return _told(first, part, attempt, done)
    return None


def _stages(part: SimpleCommand | None, each: SimpleCommand) -> bool:
    """Whether a command only puts changed files into the commit that is to be made."""
    return part is not None and part.action == "git commit" and each.action == "git add"


def _writes(attempt: Attempt, setups: Sequence[SimpleCommand]) -> bool:
    return bool(changed_files(attempt)) and not setups


def _same(first: Attempt, part: SimpleCommand | None, later: Attempt) -> SimpleCommand | None:
    """Return the part of a later call that is the failed one again."""
    wanted = [part] if part is not None else list(first.parts)
    for one in wanted:
        for each in later.parts:
            if same_call(one, each):
                return each
    for each in later.parts if part is not None else ():
        alike = part is not None and each.action == part.action and core(each)[:2] == core(part)[:2]
        if part is not None and alike and similar(part, each):
            return each
    return None


def _told(
    first: Attempt, part: SimpleCommand | None, later: Attempt, done: Sequence[SimpleCommand]
) -> MinedLesson | None:
    shown = part.text if part is not None else first.command or ""
    fix = " && ".join(each.text for each in done)
    again = {one.text for one in done} & {shown}
    if len(done) > _MOST or again or max(len(shown), len(fix)) > _LONGEST or not (quotable(shown) and quotable(fix)):
        return None
    said = f" with {first.said()}" if first.fault is not None and first.form.strip("… ") else ""
    action = part.action if part is not None else shown
    key = f"setup/{action}/{' '.join(each.action for each in done)}"
    text = f"{quoted(shown)} failed{said} until {quoted(fix)} was run; then it worked."
    return MinedLesson("setup", key, text, (first.step, later.step))
