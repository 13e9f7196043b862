"""Scorers compare an answer with a target as text or as plain decimal numbers; neither is ever run as code.

A number is ASCII digits with at most one sign, point and exponent, and finite: `0x10`, `nan`, `1e400`, `1_000`,
full-width digits, `$5` and `5%` are text. The FiNER and Formula rules are those of ACE (arXiv 2510.04618), without its
`eval`.

The regex scorer. A pattern may take exponential time on short text, so it runs in its own process with a time limit.
The process starts at the first use and belongs to one scorer. A pattern that hangs ends it: the answer counts as not
matching, `Score.detail` says so, and the next answer gets a new process.

A scorer that is a function of the user's, named `package.module:function`. It is imported and called like any code the
user runs; answers and targets are passed to it as plain text.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from combee.errors import CombeeError, RunError, UsageError, did_you_mean
from combee.kernel.learn.roles import Score, Scorer, Task
from combee.tasks.rows import normal_form

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_MAX_DIGITS = 400  # a float holds 309 digits before the point; longer text is compared as text


def number_of(text: str) -> float | None:
    """Return the plain decimal number that the text is, or None; never an infinity and never NaN."""
    text = text.strip(" \t\n")
    if len(text) > _MAX_DIGITS or _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def _one(right: bool, detail: str = "") -> Score:
    return Score(1 if right else 0, 1, detail)


def _target(task: Task) -> str:
    if task.target is None:
        raise UsageError(
            f"task {task.id} has no target to score against", hint="Name the column of answers with --answer."
        )
    return task.target


@dataclass(frozen=True, slots=True)
class Exact:
    """Right when the answer is the target in `normal_form`."""

    def __call__(self, task: Task, answer: str) -> Score:
        """Score 1 of 1 or 0 of 1."""
        return _one(normal_form(answer) == normal_form(_target(task)))


@dataclass(frozen=True, slots=True)
class FormulaNumber:
    """Right when both are equal as numbers after commas are removed; else when they are equal as text."""

    def __call__(self, task: Task, answer: str) -> Score:
        """Score 1 of 1 or 0 of 1."""
        target = _target(task).strip()
        answer = answer.strip()
        left, right = number_of(answer.replace(",", "")), number_of(target.replace(",", ""))
        if left is None or right is None:
            return _one(answer == target)
        return _one(left == right)


@dataclass(frozen=True, slots=True)
class Number:
    """Right when the numbers differ by no more than the tolerance; where the target is no number, as `Exact`.

    Commas count only where they part thousands (`1,5` is text), one currency sign before the number is dropped, and a
    percentage equals only a percentage.
    """

    absolute: float = 0.0
    relative: float = 0.0

    def __call__(self, task: Task, answer: str) -> Score:
        """Score 1 of 1 or 0 of 1."""
        target = _target(task)
        right, right_unit = _quantity(target)
        left, left_unit = _quantity(answer)
        if right is None:
            return Exact()(task, answer)
        if left is None or left_unit != right_unit:
            return _one(False, "the answer is not a number" if left is None else "one of the two is a percentage")
        # The last digit of a decimal is not exact in binary: 1.1 - 1.0 is to be within 0.1.
        slack = max(self.absolute, self.relative * abs(right)) * (1 + 1e-9) + 1e-12 * abs(right)
        return _one(abs(left - right) <= slack)


def _quantity(text: str) -> tuple[float | None, str]:
    text = text.strip(" \t\n").removesuffix(".")
    unit = "%" if text.endswith("%") else ""
    text = text.removesuffix("%").rstrip(" ")
    sign = text[:1] if text[:1] in ("-", "+") else ""
    text = sign + text[len(sign) :].lstrip("$\N{EURO SIGN}\N{POUND SIGN}\N{YEN SIGN}").lstrip(" ")
    if _THOUSANDS.match(text):
        text = text.replace(",", "")
    return number_of(text), unit


@dataclass(frozen=True, slots=True)
class TagList:
    """Comma-separated tags in order, case ignored: one part a tag; extra answers are ignored, missing ones wrong."""

    def __call__(self, task: Task, answer: str) -> Score:
        """Score as many parts as the target has tags."""
        target = _target(task).strip().rstrip(",")
        wanted = [tag.strip().casefold() for tag in target.split(",")]
        given = [tag.strip().casefold() for tag in answer.split(",")]
        wrong = [place for place, tag in enumerate(wanted, 1) if place > len(given) or given[place - 1] != tag]
        detail = f"wrong: {', '.join(map(str, wrong))}" if wrong and len(wanted) > 1 else ""
        return Score(len(wanted) - len(wrong), len(wanted), detail)


def _number_scorer(option: str) -> Scorer:
    percent = option.endswith("%")
    value = 0.0 if not option else number_of(option.removesuffix("%"))
    if value is None or value < 0:
        raise UsageError(
            f"{option!r} is not a tolerance", hint="Write number, number:0.01 (absolute) or number:1% (of the target)."
        )
    return Number(relative=value / 100) if percent else Number(absolute=value)


_TAKES_OPTION = {"number", "numeric", "regex"}


def scorer(spec: str) -> Scorer:
    """Return the scorer that a spec names.

    Args:
        spec: `exact`, `tags`, `formula`, `number`, `number:0.01` (absolute tolerance), `number:1%` (of the target;
            also written `numeric`),
            `regex` (each target is a pattern), `regex:PATTERN` (finds the answer in longer text), or
            `package.module:function` (a function of yours: `(task, answer) -> bool | float | Score`).

    Raises:
        UsageError: no such scorer, a bad option, an invalid pattern, or a function that cannot be imported.
    """
    name, colon, option = spec.strip().partition(":")
    make = _BUILT_IN.get(name)
    if make is not None:
        if colon and name not in _TAKES_OPTION:
            raise UsageError(f"scorer {name!r} takes no option, got {option!r}", hint=f"Write just {name}.")
        return make(option)
    if colon:
        return PythonScorer(spec.strip(), import_function(spec.strip()))
    hint = f"{did_you_mean(name, _BUILT_IN)} A function of yours is written package.module:function."
    raise UsageError(f"no scorer is called {spec!r}", hint=hint)


MAX_ANSWER = 20_000
"""Characters of an answer that are searched, counted from its end, where final answers stand."""

MAX_PATTERN = 2_000
"""Characters of a pattern."""

SECONDS = 1.0
"""Time that one search may take."""

# The watchdog is a thread in C: a search holds the interpreter's lock, so no Python code could stop it.
_CHILD = """
import faulthandler, json, os, re, sys
limit = float(sys.argv[1])
nowhere = open(os.devnull, "w")
for line in sys.stdin:
    pattern, text = json.loads(line)
    faulthandler.dump_traceback_later(limit, exit=True, file=nowhere)
    found = None
    for match in re.finditer(pattern, text):
        found = match.group(1 if match.re.groups else 0) or ""
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps([found]), flush=True)
"""


class _Searcher:
    """The process that searches; started when needed, ended with this object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def last(self, pattern: str, text: str) -> tuple[bool, str | None]:
        """Return whether the search ended in time, and the last match (its first group where it has one)."""
        with self._lock:
            process = self._process or self._start()
            if process.stdin is None or process.stdout is None:  # never so: both were asked for as pipes
                raise RunError("the regex process has no pipes")
            try:
                process.stdin.write(json.dumps([pattern, text]) + "\n")
                process.stdin.flush()
                reply = process.stdout.readline()
            except BrokenPipeError:
                reply = ""
            if not reply.endswith("\n"):
                self._process = None
                _stop(process)
                return False, None
            match: str | None = json.loads(reply)[0]
            return True, match

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603 our own interpreter with our own text; patterns travel as data
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _CHILD, str(SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self._process = process
        weakref.finalize(self, _stop, process)
        return process


def _stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # what was left in the buffer has no reader any more


@dataclass(frozen=True, slots=True)
class PatternScorer:
    """With a pattern: its last match in the answer (the first group, where there is one) is compared with the target.

    Without one every target is a pattern, and the answer is right when the pattern is found in it.
    """

    pattern: str = ""
    _searcher: _Searcher = field(default_factory=_Searcher, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.pattern:
            _check(self.pattern, "")

    def __call__(self, task: Task, answer: str) -> Score:
        """Score 1 of 1 or 0 of 1.

        Raises:
            UsageError: the task has no target, or its target is not a pattern.
        """
        if task.target is None:
            raise UsageError(f"task {task.id} has no target", hint="Name the column of answers with --answer.")
        if not self.pattern:
            _check(task.target, f" (the target of task {task.id})")
        in_time, match = self._searcher.last(self.pattern or task.target, answer[-MAX_ANSWER:])
        if not in_time:
            return Score(0, 1, f"the pattern was stopped after {SECONDS:g} s")
        if match is None:
            return Score(0, 1, "the pattern is not in the answer")
        right = not self.pattern or normal_form(match) == normal_form(task.target)
        return Score(1 if right else 0, 1)


def _check(pattern: str, where: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise UsageError(f"a pattern of {len(pattern)} characters{where}; the limit is {MAX_PATTERN}")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"invalid pattern {pattern!r}{where}: {error}",
            hint="Python's regular expressions are meant; check it there.",
        ) from None


PARTS = 100
"""A float from a function counts as that many hundredths of 100 parts."""


@dataclass(frozen=True, slots=True)
class PythonScorer:
    """Calls the function with `(task, answer)`: it returns a bool (1 part), a float to 1 (100 parts) or a `Score`."""

    spec: str
    function: Callable[[Task, str], object] = field(compare=False)

    def __call__(self, task: Task, answer: str) -> Score:
        """Score one answer.

        Raises:
            UsageError: the function raised, or returned something else.
        """
        try:
            value = self.function(task, answer)
        except CombeeError:
            raise
        except Exception as error:  # the function is the user's: whatever comes out of it is theirs to mend
            raise UsageError(
                f"scorer {self.spec} raised {type(error).__name__} on task {task.id}: {error}",
                hint="It is called with (task, answer) and returns a bool, a float from 0 to 1, or a combee Score.",
            ) from error
        return self._score(task, value)

    def _score(self, task: Task, value: object) -> Score:
        if isinstance(value, Score):
            if 0 <= value.hits <= value.total and value.total > 0:
                return value
            raise self._bad(task, f"{value.hits} hits of {value.total}")
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return Score(int(value), 1)
        if isinstance(value, float) and math.isfinite(value) and 0 <= value <= 1:
            hits = PARTS if value == 1 else min(round(value * PARTS), PARTS - 1)  # only a full 1.0 passes
            return Score(hits, PARTS)
        if inspect.iscoroutine(value):
            value.close()
            raise self._bad(task, "a coroutine (write a plain function, not an async one)")
        raise self._bad(task, repr(value)[:80])

    def _bad(self, task: Task, what: str) -> UsageError:
        return UsageError(
            f"scorer {self.spec} returned {what} on task {task.id}",
            hint="Return a bool, a float from 0 to 1, or a combee Score.",
        )


def import_function(spec: str, what: str = "scorer") -> Callable[..., Any]:
    """Import the function that `package.module:function` names; modules in the current directory are found too.

    Raises:
        UsageError: the spec has another form, or the module or function cannot be imported; it says for `what`.
    """
    module_name, _, function_name = spec.partition(":")
    parts = [*module_name.split("."), *function_name.split(".")]
    if not all(part.isidentifier() for part in parts):
        raise UsageError(f"{spec!r} does not name a function", hint="Write package.module:function.")
    function: object = _import(f"{what} {spec}", module_name)
    for name in function_name.split("."):
        known = [known for known in dir(function) if not known.startswith("_")]
        if not hasattr(function, name):
            raise UsageError(f"{what} {spec}: {module_name} has no {name!r}", hint=did_you_mean(name, known))
        function = getattr(function, name)
    if not callable(function):
        raise UsageError(f"{what} {spec}: {function_name} is {type(function).__name__}, not a function")
    return function


def _import(for_what: str, module_name: str) -> ModuleType:
    here = str(Path.cwd())
    added = here not in sys.path  # an installed command does not look into the current directory by itself
    if added:
        sys.path.insert(0, here)
    try:
        importlib.invalidate_caches()
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            hint = "It must be installed, or be a file in the current directory."
            raise UsageError(f"{for_what}: no module {error.name!r}", hint=hint) from error
        raise UsageError(f"{for_what}: {module_name} needs a module that is missing: {error.name}") from error
    except Exception as error:  # importing runs the user's module: anything may come out of it
        raise UsageError(f"{for_what}: importing {module_name} raised {type(error).__name__}: {error}") from error
    finally:
        if added and here in sys.path:
            sys.path.remove(here)


_BUILT_IN: Mapping[str, Callable[[str], Scorer]] = {
    "exact": lambda _: Exact(),
    "formula": lambda _: FormulaNumber(),
    "number": _number_scorer,
    "numeric": _number_scorer,
    "regex": PatternScorer,
    "tags": lambda _: TagList(),
}
