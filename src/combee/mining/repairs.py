"""Failure and fix: a call that failed, and the later one of the same intent that worked.

Two shapes are lessons: the call was changed in a few words (`repair`), or the same call worked after one other command
(`until`). What changed in many places at once teaches nothing that could be said in a line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from posixpath import basename

from combee.mining.attempts import Attempt
from combee.mining.changes import changed_files, edits_in_place, sets_up
from combee.mining.faults import Fault, quotable, quoted
from combee.mining.finding import Finding
from combee.mining.missing import INSTALLERS, installed
from combee.mining.shell import Part
from combee.mining.words import ALIKE, READERS, RUNNERS

__all__ = ["culprit", "find_repairs"]

_WINDOW = 8
_MOST_CHANGED = 4
_LONGEST = 200
_HANDLED = frozenset({"command", "module"})  # told by `missing`
_CHANGERS = frozenset({"mkdir", "touch", "chmod", "chown", "rm", "cp", "mv", "ln", "export", "source", "kill", "pkill"})


def culprit(attempt: Attempt) -> Part | None:
    """Return the simple command that failed, or None where more than one may have."""
    fault = attempt.fault
    telling = [part for part in attempt.parts if part.program not in READERS]
    if len(telling) == 1:
        return telling[0]
    if fault is None:
        return None
    named = [part for part in telling if re.match(rf"{re.escape(part.program)}\b[^\n]{{0,20}}:", fault.line)]
    if len(named) == 1:
        return named[0]
    for start, actions in (("E: ", {"apt-get install", "apt-get update"}), ("externally-managed", {"pip install"})):
        hit = [part for part in telling if part.action in actions and start in fault.line]
        if len(hit) == 1:
            return hit[0]
    return None


def find_repairs(row: Sequence[Attempt]) -> list[Finding]:
    """Return the repairs of one run, each failure mended once."""
    found: list[Finding] = []
    mended: set[tuple[str, str]] = set()
    for place, attempt in enumerate(row):
        fault = attempt.fault
        if not attempt.failed or fault is None or fault.kind in _HANDLED:
            continue
        finding = _shell(place, row, fault) if attempt.command is not None else _tool(place, row, fault)
        if finding is not None and (finding.key, finding.text) not in mended:
            mended.add((finding.key, finding.text))
            found.append(finding)
    return found


def _shell(place: int, row: Sequence[Attempt], fault: Fault) -> Finding | None:
    part = culprit(row[place])
    if part is None or len(part.text) > _LONGEST or "\n" in part.text:
        return None
    for offset, attempt in enumerate(row[place + 1 : place + 1 + _WINDOW], place + 1):
        if attempt.command is None or attempt.worked is None:
            continue
        same = [each for each in attempt.parts if _alike(part, each) and _same_intent(part, each)]
        if attempt.worked is False:
            if any(each.words == part.words for each in same):
                return None  # it failed again as it was: the next failure is looked at on its own
            continue
        same = [each for each in same if each.sure and len(each.text) <= _LONGEST and "\n" not in each.text]
        if not same or (attempt.fault is not None and attempt.fault.signature == fault.signature):
            continue
        if same[0].words == part.words:
            return _until(place, offset, row, part, fault)
        return _changed(place, offset, row, part, same[0], fault)
    return None


def _alike(one: Part, other: Part) -> bool:
    return one.action == other.action or any({one.program, other.program} <= group for group in ALIKE)


def _same_intent(one: Part, other: Part) -> bool:
    if one.words == other.words:
        return True
    mine, theirs = installed(one), installed(other)
    if mine or theirs:
        return bool(mine & theirs)
    if one.program in RUNNERS:
        return bool(one.arguments[:1]) and one.arguments[:1] == other.arguments[:1] and one.arguments[0] != "-c"
    a, b = list(one.arguments), list(other.arguments)
    if not a and not b:
        return True
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() >= 0.4 or bool(
        one.targets and one.targets == other.targets
    )


def _changes(one: Part, other: Part) -> tuple[list[str], list[str]]:
    """Return the words that were taken out, and those that were put in."""
    out: list[str] = []
    into: list[str] = []
    matcher = difflib.SequenceMatcher(None, one.words, other.words, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            out += one.words[a:b]
            into += other.words[c:d]
    return out, into


def _changed(  # noqa: PLR0917 - what one pair is, passed by one caller
    place: int, offset: int, row: Sequence[Attempt], part: Part, fix: Part, fault: Fault
) -> Finding | None:
    if (
        not (quotable(part.text) and quotable(fix.text))
        or part.program in READERS
        or (fault.kind == "timeout" and len(fix.text) > 120)
    ):
        return None
    out, into = _changes(part, fix)
    if not 0 < len(out) + len(into) <= _MOST_CHANGED or _only_names(part, out, into):
        return None
    fewer = installed(part) - installed(fix)
    if fewer and installed(fix) and not any(name in fault.line for name in fewer):
        return None  # a part of the packages came: that says nothing of the others
    if _world_changed(row[place + 1 : offset]):
        return None
    change = " ".join([*(f"-{word}" for word in out), *(f"+{word}" for word in into)])
    return Finding(
        "repair",
        f"repair/{part.action}/{fault.signature}/{change}",
        f"{quoted(part.text)} failed with {quoted(fault.line)}; {quoted(fix.text)} worked.",
        (row[place].step, row[offset].step),
    )


def _only_names(part: Part, out: list[str], into: list[str]) -> bool:
    """Whether only the name of a file or a script was changed: another thing was called, not the same one better."""
    options = [word for word in (*out, *into) if word.startswith("-")]
    return part.program in RUNNERS and not options


def _world_changed(between: Sequence[Attempt]) -> bool:
    """Whether something other than the call may have mended it."""
    return any(
        attempt.worked is not False and (_acts(attempt) or changed_files(attempt) or sets_up(attempt))
        for attempt in between
    )


def _acts(attempt: Attempt) -> list[Part]:
    if attempt.command is None:
        return []
    return [part for part in attempt.parts if _changes_the_world(part)]


def _changes_the_world(part: Part) -> bool:
    return edits_in_place(part) or part.program not in READERS - _CHANGERS


def _writes(attempt: Attempt) -> bool:
    """Whether a call changed something other than by a command that can be named (`sed -i`, `export`)."""
    named = {basename(part.words[-1]) for part in attempt.parts if edits_in_place(part)}
    return bool(changed_files(attempt) - named) or (sets_up(attempt) and not _acts(attempt))


def _until(place: int, offset: int, row: Sequence[Attempt], part: Part, fault: Fault) -> Finding | None:
    """The same call failed and then worked: a lesson where one command stands between, and no file was written."""
    between = [attempt for attempt in row[place + 1 : offset] if attempt.worked is not False]
    acts: list[Part] = [act for attempt in between for act in _acts(attempt)]
    here = list(row[offset].parts)
    acts += filter(_changes_the_world, here[: [each.words for each in here].index(part.words)])
    wrote = any(attempt.command is None or _writes(attempt) for attempt in between)
    if wrote or len(acts) != 1 or len(acts[0].text) > _LONGEST or not quotable(acts[0].text):
        return None
    act = acts[0]
    if act.words == part.words or act.program in RUNNERS - {"bash"}:
        return None
    if act.action in INSTALLERS and not installed(act):
        return None
    return Finding(
        "until",
        f"until/{part.action}/{fault.signature}/{act.action}",
        f"{quoted(part.text)} failed with {quoted(fault.line)} until {quoted(act.text)} was run; then it worked.",
        (row[place].step, row[offset].step),
    )


def _tool(place: int, row: Sequence[Attempt], fault: Fault) -> Finding | None:
    """A call of a tool that is no shell: the next one of the same tool that worked, with one argument changed."""
    first = row[place]
    failures = 1
    for attempt in row[place + 1 : place + 1 + _WINDOW]:
        if attempt.tool != first.tool:
            continue
        if attempt.worked is False:
            failures += 1
            first = attempt if attempt.fault and attempt.fault.signature == fault.signature else first
            continue
        if attempt.worked is None:
            continue
        mine, theirs = first.fields, attempt.fields
        changed = [name for name in mine if name in theirs and mine[name] != theirs[name]]
        if mine.keys() != theirs.keys() or len(changed) != 1:
            return None
        said = _difference(mine[changed[0]], theirs[changed[0]])
        if said is None:
            return None
        times = "" if failures == 1 else f" {failures} times"
        return Finding(
            "repair",
            f"repair/{first.tool}/{fault.signature}/{changed[0]}/{said}",
            f"The tool `{first.tool}` failed{times} with {quoted(fault.line)}; "
            f"it worked when `{changed[0]}` was {said}.",
            (row[place].step, attempt.step),
        )
    return None


def _difference(old: str, new: str) -> str | None:
    """Return in words how an argument was changed, or None where that takes more than a line."""
    if old.strip() == new.strip():
        blanks = len(new) - len(new.lstrip(" "))
        if new.lstrip(" ") == old.lstrip(" "):
            return f"given with its {blanks} leading blanks"
        return None
    if "\n" in old or "\n" in new or max(len(old), len(new)) > 120:
        return None
    return f"{quoted(new)} instead of {quoted(old)}"
