"""Dead ends: what failed again and again with the same fault, and never worked in the run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from posixpath import basename

from combee.traces.mining.attempts import Attempt
from combee.traces.mining.faults import Fault, quoted
from combee.traces.mining.finding import Finding
from combee.traces.mining.missing import installed
from combee.traces.mining.repairs import culprit
from combee.traces.mining.shell import Part, written_files
from combee.traces.mining.ways import call_hash, carried, core, names, other_options, places, ran, similar
from combee.traces.mining.words import READERS, RUNNERS

__all__ = ["find_dead_ends", "find_errors", "find_unmended", "installs_in_one"]

_LEAST = 3
_LEAST_INSTALLS = 2
_LONGEST_SHOWN = 240
_GENERAL = frozenset({"python3", "node", "bash", "sh", "gcc", "g++", "make", "cargo", "ruby", "perl", "java"})
_SPECIFIC = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception): .*['\"`(\d]|^ERROR: .{30}|^No space left")
_TOLD = frozenset({"command", "module"})
_MENDED = frozenset({"missing", "repair", "until", "shell", "hang"})


def find_dead_ends(row: Sequence[Attempt]) -> list[Finding]:
    """Return the calls that a run tried again and again in vain: three times, or two ways to install one thing."""
    tried: dict[tuple[str, str], list[tuple[Attempt, str]]] = defaultdict(list)
    worked: set[str] = set()
    for attempt in row:
        if attempt.worked:
            worked |= {_thing(part, name) for part in attempt.parts for name in installed(part) or ("",)}
            worked |= {basename(core(part)[0]) for part in attempt.parts}
        part, fault = _culprit(attempt)
        if part is not None and fault is not None:
            for name in installed(part) or ("",):
                tried[_thing(part, name), fault.signature].append((attempt, part.line))
    found = [
        finding
        for (thing, sign), failures in tried.items()
        if not {thing, basename(thing)} & worked and (finding := _dead_end(thing, sign, failures)) is not None
    ]
    return sorted(found, key=lambda finding: finding.steps)


def find_unmended(row: Sequence[Attempt], handled: Sequence[Finding]) -> tuple[list[Finding], set[str]]:
    """Return failures of calls that the run did not write itself: of use where many runs have the very same.

    With them come the keys of those that a run got past, or may have: of those it must not be said that no run did.
    """
    told = _told(handled)
    mended = {each.steps[0] for each in handled if each.kind in _MENDED and not each.key.endswith("/asks")}
    written = {name for attempt in row if attempt.command for name in written_files(attempt.command)}
    found: dict[str, Finding] = {}
    came = {
        name for attempt in row if attempt.worked is not False for part in attempt.parts for name in installed(part)
    }
    past: set[str] = set()
    where = places(row)
    for attempt in row:
        part, fault = _culprit(attempt)
        if part is None or fault is None:
            continue
        line = part.line
        key = f"unmended/{part.program} {line.removeprefix(part.words[0]).strip()}/{fault.signature}"
        if attempt.step in told:
            past |= {key} if attempt.step in mended else set()
            continue
        packages = installed(part)
        others = (row[at] for at in where.get(basename(core(part)[0]), ()))
        if packages <= came if packages else any(_may_be_past(part, fault, other) for other in others):
            past.add(key)
        if part.fed and part.program in RUNNERS:
            continue  # what it ran stands before the pipe
        if not any(name in line for name in written) and part.program not in {"python3", "node"}:
            text = f"{quoted(line)} failed with {quoted(fault.line)} in run after run; no run got past it that way."
            found.setdefault(key, Finding("unmended", key, text, (attempt.step,), call_hash(part)))
    return list(found.values()), past


def _may_be_past(part: Part, fault: Fault, other: Attempt) -> bool:
    """Whether a call did what a failed one was to do, or may have: in another way, or inside something that runs it."""
    if other.command is None or (other.worked is False and other.fault and other.fault.signature == fault.signature):
        return False
    blamed = culprit(other) if other.worked is False else None
    name, *rest = core(part)
    for each in other.parts:
        same = each is not blamed and names(core(each)[0], name) and part.verbs == each.verbs
        if same and (similar(part, each) or set(rest) <= set(core(each))):
            return True
        if same and other_options(part, each) and ran(other, each):
            return True
    inside = carried(other, name, besides=blamed)
    return bool(inside) and (not rest or any(word in inside for word in rest))


def find_errors(row: Sequence[Attempt], handled: Sequence[Finding]) -> list[Finding]:
    """Return the errors that name what was wrong: of use where many runs meet the same one by different calls."""
    told = _told(handled)
    again = {(attempt.command, attempt.fault) for attempt in row if attempt.step in told}
    found: dict[str, Finding] = {}
    for attempt in row:
        fault = attempt.fault
        if not attempt.failed or fault is None or (attempt.command, fault) in again or not _SPECIFIC.search(fault.line):
            continue
        if fault.kind not in {"exception", "tool", "disk"} or attempt.command is None:
            continue
        if len(attempt.command) <= _LONGEST_SHOWN:
            text = f"{quoted(fault.line)} was met in run after run, as after {quoted(attempt.command)}."
            key = f"error/{fault.line}"
            found.setdefault(key, Finding("error", key, text, (attempt.step,)))
    return list(found.values())


def _told(handled: Sequence[Finding]) -> set[int]:
    """Return the steps whose failure is told already; the later steps of a finding show what worked."""
    return {step for each in handled for step in (each.steps if each.kind == "dead_end" else each.steps[:1])}


def installs_in_one(by_trace: Mapping[str, tuple[Finding, ...]]) -> dict[str, tuple[Finding, ...]]:
    """Say once what many kinds of installs have in common: that they were killed by the time limit, run after run."""
    killed = [each for found in by_trace.values() for each in found if _is_killed_install(each)]
    lines = list(
        dict.fromkeys(each.text.split(" failed with ")[0] for each in sorted(killed, key=lambda each: each.key))
    )
    if len(lines) < _LEAST:
        return dict(by_trace)
    text = (
        f"Installs that were killed by the time limit in run after run and never came through: {', '.join(lines[:6])}"
        f"{' and others' if len(lines) > 6 else ''}."
    )
    out = {}
    for name, found in by_trace.items():
        mine = [each for each in found if _is_killed_install(each)]
        one = [Finding("unmended", "unmended/installs", text, mine[0].steps)] if mine else []
        out[name] = (*(each for each in found if each not in mine), *one)
    return out


def _is_killed_install(finding: Finding) -> bool:
    return finding.kind == "unmended" and " install " in finding.key and "timed out and was killed" in finding.text


def _culprit(attempt: Attempt) -> tuple[Part | None, Fault | None]:
    fault = attempt.fault
    if not attempt.failed or fault is None or fault.kind in _TOLD:
        return None, None
    part = culprit(attempt)
    if part is None or len(part.text) > 160 or "\n" in part.text or part.program in READERS:
        return None, None
    return part, fault


def _thing(part: Part, package: str) -> str:
    return f"{part.action} {package}".strip()


def _dead_end(thing: str, sign: str, failures: Sequence[tuple[Attempt, str]]) -> Finding | None:
    texts = list(dict.fromkeys(text for _, text in failures))
    fault = failures[-1][0].fault
    package = thing.rpartition(" ")[2] if any(installed(part) for part in failures[0][0].parts) else ""
    alone = [text for attempt, text in failures for part in attempt.parts if installed(part) == {package}]
    enough = bool(alone) and len(texts) >= _LEAST_INSTALLS if package else len(failures) >= _LEAST
    if not enough or fault is None or (not package and thing.split(maxsplit=1)[0] in _GENERAL):
        return None
    variants = ", then ".join(dict.fromkeys(quoted(text, 90) for text in [*alone, *texts][:1] + texts[-2:]))
    what = f"installing `{package}` with `{thing.rpartition(' ')[0]}`" if package else f"`{thing}`"
    times = "twice or more" if package else "three times or more"
    text = (
        f"A dead end: {what}, tried {times} in one run, failed each time with {quoted(fault.line, 120)} ({variants})."
    )
    steps = tuple(attempt.step for attempt, _ in failures)
    return Finding("dead_end", f"dead end/{thing}/{sign}", text, steps)
