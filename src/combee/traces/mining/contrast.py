"""What tests and verdicts show: tests that failed and later passed, and runs that passed beside runs that failed.

Only judged outcomes count; a success that the agent alone states is none. A difference is stated as what was seen, with
its numbers, not as a cause.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from posixpath import basename

from combee.redaction import Trace
from combee.redaction.orders import orders
from combee.traces.mining.attempts import Attempt, changed_files, made_files, sets_up
from combee.traces.mining.lesson import MinedLesson
from combee.traces.mining.missing import installed
from combee.traces.mining.programs import READERS
from combee.traces.mining.quoting import error_form, is_test_name, quoted
from combee.traces.mining.shell import call_hash

_RUNNER = re.compile(
    r"\b(?:pytest|tox|nosetests|unittest|(?:npm|yarn|pnpm)(?: run)? test|cargo test|go test|jest|vitest|rspec|ctest|"
    r"mvn test|gradle test|make (?:test|check)|phpunit|dotnet test)\b"
)
_FAILED = re.compile(
    r"^(?:FAILED (?P<a>\S+)(?: - (?P<why>.+))?|(?:FAIL|ERROR): (?P<b>\w+ \([\w.]+\))|"
    r"--- FAIL: (?P<c>\S+)(?: \([\d.]+m?s\))?|"
    r"test (?P<d>\S+) \.\.\. FAILED|(?P<e>\S+) FAILED(?:\s+\[.*\])?|"
    r"\s*FAIL\s+(?P<f>\S+\.(?:test|spec)\.\w{2,4})(?: .*)?|\s*Failed (?P<g>[\w.]+) \[[^\]\n]*\]|"
    r"\[ERROR\]\s+(?P<h>[\w.]+(?:Test|IT|Tests)\.\w+):\d.*|\s*\d+ - (?P<i>\S+) \(Failed\)|"
    r"\d+\) (?P<j>[\w\\]+::\w+)|"
    r"rspec (?P<k>\./\S+:\d+)(?: #.*)?)$",
    re.MULTILINE,
)
_SUMMARY = re.compile(
    r"\b[1-9]\d* passed\b|^OK\b|\btest result: ok\b|^ok\s|^PASS\b|\bTests:.{0,200}?\b\d{1,9} passed", re.MULTILINE
)
_ANY_FAILED = re.compile(r"\b[1-9]\d* (?:failed|errors?)\b|^FAILED\b|^FAIL\b", re.MULTILINE)
_ENDINGS = """
.py .js .ts .tsx .jsx .go .rs .java .c .h .cc .cpp .rb .php .cs .sh .toml .cfg .ini .json .yaml .yml .sql Makefile
Dockerfile file
"""
_CODE = tuple(_ENDINGS.split())
_MOST = 3
_FILES = re.compile(r"[\w.-]+\.\w{1,4}(?=$|::)")


def find_flips(row: Sequence[Attempt]) -> list[MinedLesson]:
    """Return the tests that failed and later passed, with the one file that was written between."""
    red: dict[str, tuple[int, int, str]] = {}
    found: list[MinedLesson] = []
    for place, attempt in enumerate(row):
        if attempt.command is None or not _RUNNER.search(attempt.command):
            continue
        failing = _failing(attempt.output)
        if not failing and _SUMMARY.search(attempt.output) and not _ANY_FAILED.search(attempt.output):
            for test, (since, step, why) in list(red.items())[:_MOST]:
                between = row[since + 1 : place]
                files = set().union(*map(changed_files, between))
                if len(files) != 1 or any(map(sets_up, between)) or not (file := files.pop()).endswith(_CODE):
                    continue
                form = error_form(why)
                tested = _FILES.findall(test)
                if _says_nothing(form) or file in tested or {file, *tested} & made_files(row[:since]):
                    continue  # a test that is being written, or one that gives no reason
                said = f"The test {quoted(test, 120)} failed with {quoted(form, 120)}"
                text = f"{said}; it passed after a change in `{file}`."
                found.append(MinedLesson("flip", f"flip/{test}", text, (step, attempt.step)))
            red.clear()
        for test, why in failing.items():
            red[test] = (place, attempt.step, why)  # the last failure counts: what stands between is what mended it
    return found


def _says_nothing(reason: str) -> bool:
    """Whether a reason is empty, cut off inside its first word, or only the name of an exception."""
    return len(re.sub(r"\w*\.\.\.$|…|^\w+(?:Error|Exception|ed): *", "", reason).strip(" .:")) < 4


def _failing(output: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for match in _FAILED.finditer(output):
        name = next(match[key] for key in "abcdefghijk" if match[key])
        why = match["why"] or ""
        if is_test_name(name):
            out[name] = why
    return out


_LEAST = 2
_LEAST_FAILED = 3
_LEAST_CHECKS = 3
_MOST_ACTIONS = 2
_DULL = READERS | {"python3", "bash", "sh", "submit", "git status", "git log", "git diff", "apt-get update", "apt-get"}
_IMPORTED = re.compile(r"(?:\bimport|\bfrom|\s-m)\s+(\w+)")
_OPTION = re.compile(r"--?[a-z][\w-]{1,30}")


@dataclass(frozen=True, slots=True)
class Outline:
    """What a run looked like from afar: enough to compare runs, small enough to keep for many of them."""

    trace: str
    task: str
    name: str
    passed: bool | None
    actions: tuple[tuple[str, int], ...]
    """Action and option pairs that worked, with the first step that shows them."""
    failed_tests: tuple[str, ...] = ()
    checks: int = 0
    """How many tests judged the run."""
    worked: frozenset[int] = frozenset()
    """Hashes of what was called and may have worked, in whatever way: another run's failure is no rule then."""
    past: frozenset[str] = frozenset()
    """Keys of failures that the run got past, or may have: of those it is not said that no run did."""
    tried: frozenset[str] = frozenset()
    """Programs and options that occur in any command of the run, whether they surely ran and worked or not."""
    installs: tuple[tuple[str, str], ...] = ()
    """What was installed, by action and package, and the command that did it."""
    used: frozenset[tuple[str, bool]] = frozenset()
    """Programs and Python modules that were there (`command/jq`, `module/numpy`), and whether that is sure."""
    began: bool = False
    """Whether a call is recorded; some runs stopped before the agent began, of others only the end is known."""


def outline(trace: Trace, row: Sequence[Attempt], past: Iterable[str] = ()) -> Outline:
    """Return the outline of one run; `past` are the keys of failures that it got past."""
    outcome = trace.outcome
    passed = None if outcome is None or outcome.claimed else outcome.success
    good = [(attempt.step, part) for attempt in row if attempt.worked for part in attempt.parts if part.sure]
    seen: dict[str, int] = {}
    installs: dict[str, str] = {}
    for step, part in good:
        line = part.line
        for package in installed(part):
            thing = f"{part.action} {package}"
            installs[thing] = min(installs.get(thing, line), line, key=len)
        if not {part.action, part.program} & _DULL and not part.program.startswith("./"):
            seen.setdefault(part.action, step)
            for word in part.arguments:
                if _OPTION.fullmatch(word):
                    seen.setdefault(f"{part.action} {word}", step)
    tests = () if outcome is None else tuple(sorted(name for name, good in outcome.tests.items() if not good))
    name = trace.meta.get("task_id", "")
    lines = frozenset(call_hash(part) for attempt in row if attempt.worked is not False for part in attempt.parts)
    tried = frozenset(word for attempt in row for word in _programs(attempt))
    made = tuple(installs.items())
    count = 0 if outcome is None else len(outcome.tests)
    key, actions = _task_key(trace), tuple(seen.items())
    seen_past, used = frozenset(past), frozenset(thing for attempt in row for thing in _used(attempt))
    return Outline(trace.id, key, name, passed, actions, tests, count, lines, seen_past, tried, made, used, bool(row))


def _used(attempt: Attempt) -> set[tuple[str, bool]]:
    # a program that was alone in a call which the time limit killed was there, and ran until then
    killed = attempt.fault is not None and attempt.fault.kind == "timeout" and len(attempt.parts) == 1
    if attempt.command is None or (not killed and (attempt.worked is False or attempt.fault is not None)):
        return set()
    found: set[tuple[str, bool]] = set()
    for part in attempt.parts:
        sure = (attempt.worked is True and part.sure) or killed
        found.add((f"command/{basename(part.words[0])}", sure))
        if part.program == "python3":
            code = " ".join(part.words)
            sure = sure and "except" not in code
            found |= {(f"module/{name}", sure) for name in _IMPORTED.findall(code)}
    return found


def _programs(attempt: Attempt) -> set[str]:
    """Return what may be a program in a command, and its options: of one that cannot be taken apart, every word."""
    if attempt.command is None:
        return set()
    if attempt.parts:
        return {word for part in attempt.parts for word in (part.program, *filter(_OPTION.fullmatch, part.arguments))}
    return set(re.findall(r"[\w./+-]+", attempt.command[:4000]))


def _task_key(trace: Trace) -> str:
    task = " ".join(trace.task.split()).casefold()
    return task or trace.meta.get("task_id", "")


def contrast(outlines: Iterable[Outline]) -> dict[str, list[MinedLesson]]:
    """Return findings by trace id, for tasks with two or more passed and two or more failed runs."""
    by_task: dict[str, list[Outline]] = defaultdict(list)
    for each in outlines:
        if each.task and each.passed is not None:
            by_task[each.task].append(each)
    found: dict[str, list[MinedLesson]] = defaultdict(list)
    for runs in by_task.values():
        good = [run for run in runs if run.passed]
        failed = [run for run in runs if not run.passed]
        bad = [run for run in failed if run.began]  # also those in which nothing worked: they failed too
        more = len(failed) - len(bad)
        which = f"that failed (of {more} more no call is recorded)" if more else "that failed"
        if len(good) >= _LEAST and sum(bool(run.actions) for run in bad) >= _LEAST:
            _compare(good, bad, which, found)
        if len(bad) >= (_LEAST if len(good) >= _LEAST else _LEAST_FAILED):
            _same_check(bad, which, found)
    return found


def _compare(good: Sequence[Outline], bad: Sequence[Outline], which: str, found: dict[str, list[MinedLesson]]) -> None:
    name = _shown_task(good[0])
    if name is None:
        return
    in_good = [dict(run.actions) for run in good]
    in_bad = Counter(action for run in bad for action in dict(run.actions))
    common = set(in_good[0]).intersection(*in_good[1:])
    tried = set().union(*(run.tried for run in bad))  # what a failed run tried in any way makes no contrast
    only = sorted(action for action in common if not in_bad[action] and not tried.issuperset(_distinctive(action)))
    only = [each for each in only if not any(other != each and each.startswith(f"{other} ") for other in only)]
    for action in only[:_MOST_ACTIONS]:
        text = f"In the task {name}, all {len(good)} runs that passed used `{action}`, none of the {len(bad)} {which}."
        for run, actions in zip(good, in_good, strict=True):
            found[run.trace].append(
                MinedLesson("contrast", f"contrast/{good[0].task}/{action}", text, (actions[action],))
            )


def _distinctive(action: str) -> list[str]:
    """Return the words that a run must hold to have tried an action: the program, and the option where there is one."""
    program, *rest = action.split()
    return [program, *(word for word in rest if word.startswith("-"))]


def _same_check(bad: Sequence[Outline], which: str, found: dict[str, list[MinedLesson]]) -> None:
    """Say which one of several checks all failed runs failed."""
    name, failed, checks = _shown_task(bad[0]), bad[0].failed_tests, bad[0].checks
    if name is None or len(failed) != 1 or checks < _LEAST_CHECKS:
        return
    if any((run.failed_tests, run.checks) != (failed, checks) for run in bad):
        return
    (test,) = failed
    if test.count("_") >= 2 and is_test_name(test):
        text = f"In the task {name}, all {len(bad)} runs {which} did so in one of {checks} checks: {quoted(test)}."
        for run in bad:
            found[run.trace].append(MinedLesson("contrast", f"check/{bad[0].task}/{test}", text, ()))


def _shown_task(run: Outline) -> str | None:
    """Return what to call a task: its name, or the beginning of its text; None where that orders something."""
    text = run.name or " ".join(run.task.split()[:12])
    return None if orders(text.replace("_", " ").replace("-", " ")) else quoted(text, 90)
