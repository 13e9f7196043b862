"""Scorers: they compare an answer with a target as text or as plain decimal numbers. Neither is ever run as code.

A number is ASCII digits with at most one sign, point and exponent, and finite: `0x10`, `nan`, `1e400`, `1_000`,
full-width digits, `$5` and `5%` are text. The FiNER and Formula rules are those of ACE (arXiv 2510.04618), without its
`eval`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from combee.errors import UsageError, did_you_mean
from combee.kernel.learn.roles import Score, Scorer, Task
from combee.tasks.custom import python_scorer
from combee.tasks.pattern import PatternScorer
from combee.tasks.text import normal_form

__all__ = ["Exact", "FormulaNumber", "Number", "TagList", "number_of", "scorer"]

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


_BUILT_IN: Mapping[str, Callable[[str], Scorer]] = {
    "exact": lambda _: Exact(),
    "formula": lambda _: FormulaNumber(),
    "number": _number_scorer,
    "numeric": _number_scorer,
    "regex": PatternScorer,
    "tags": lambda _: TagList(),
}
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
        return python_scorer(spec.strip())
    hint = f"{did_you_mean(name, _BUILT_IN)} A function of yours is written package.module:function."
    raise UsageError(f"no scorer is called {spec!r}", hint=hint)
