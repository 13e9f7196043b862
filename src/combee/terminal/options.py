"""Options that several commands share, their types, and what is said beside a result."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from combee.errors import UsageError
from combee.run.estimates import Forecast
from combee.run.words import with_program

__all__ = [
    "BatchSize",
    "NumberType",
    "PathType",
    "budget_options",
    "endpoint_options",
    "mend_options",
    "model_options",
    "patterns_of",
    "print_forecast",
    "print_json",
    "say_aside",
    "task_options",
]

F = TypeVar("F", bound=Callable[..., Any])


class BatchSize(click.ParamType[int | str]):
    """A whole number of at least 1, or the word auto."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the size, or "auto"."""
        if value == "auto":
            return "auto"
        try:
            size = int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number nor 'auto'.", param, ctx)
        if size < 1:
            self.fail(f"{size} is below 1.", param, ctx)
        return size


class NumberType(click.FloatRange):
    """A number in a range; neither `nan` nor an infinity, which click lets through every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class PathType(click.Path):
    """The path of a file or folder. `-` is refused: no command takes it for standard input or output."""

    def __init__(self, **more: Any) -> None:
        super().__init__(path_type=Path, **more)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "-":
            self.fail("'-' does not stand for standard input or output here. A file of that name is ./-.", param, ctx)
        return super().convert(value, param, ctx)


def task_options(command: F) -> F:
    """Add the options that say how a file of tasks is read."""
    options = [
        click.option("--question", help="Column with the question."),
        click.option("--answer", help="Column with the right answer."),
        click.option("--id", help="Column with the row's id."),
        click.option("--scorer", help="exact, numeric:0.01, tags, regex, or package.module:function."),
        click.option("--train", type=click.IntRange(1), help="Training rows to use."),
        click.option("--val", type=click.IntRange(0), help="Validation rows to use."),
        click.option("--test", type=click.IntRange(0), help="Test rows to use."),
        click.option("--data-dir", help="Folder that holds finer/ and formula/. [$COMBEE_DATA]"),
    ]
    return _with(command, options)


def say_aside(sentence: str) -> None:
    """Say something to the person who waits, beside the result: on standard error."""
    click.echo(with_program(sentence), err=True)


def model_options(command: F) -> F:
    """Add the options that say which model is called, and how."""
    options = [
        click.option("--max-in-flight", type=click.IntRange(1), help="Calls in flight at most. [found by itself]"),
        click.option("--prompts", type=PathType(), help="Folder with prompts of your own."),
    ]
    return endpoint_options(_with(command, options))


def endpoint_options(command: F) -> F:
    """Add the options that say which model is called, and where."""
    options = [
        click.option(
            "--model",
            "model_name",
            metavar="NAME",
            help="Model, as the endpoint names it, or local/smollm2, which runs in this process.",
        ),
        click.option("--base-url", help="Endpoint, like https://api.deepseek.com/v1. [$OPENAI_BASE_URL]"),
        click.option("--api-key-env", metavar="VARIABLE", help="NAME of the variable with the key. [OPENAI_API_KEY]"),
        click.option("--price", metavar="IN/OUT", help="US dollars per million tokens, like 0.28/0.42[/cached]."),
    ]
    return _with(command, options)


def budget_options(command: F) -> F:
    """Add the options that limit a run."""
    options = [
        click.option("--max-cost", type=NumberType(0, min_open=True), help="US dollars the run may cost."),
        click.option("--max-calls", type=int, help="Calls the run may make."),
        click.option("--max-tokens", type=int, help="Prompt and reply tokens the run may take."),
        click.option("--max-minutes", type=NumberType(0, min_open=True), help="Minutes of work, over all resumes."),
    ]
    return _with(command, options)


def mend_options(command: F) -> F:
    """Add the options that put a run's settings right."""
    options = [
        click.option("--base-url", help="Another place of the same model."),
        click.option("--api-key-env", metavar="VARIABLE", help="NAME of the variable with the key."),
        click.option("--price", metavar="IN/OUT", help="US dollars per million tokens, for the calls still to come."),
        click.option("--max-in-flight", type=click.IntRange(1), help="Calls in flight at most."),
        click.option(
            "--config",
            "config_path",
            type=PathType(),
            help="Settings file: its endpoints, keys, paces, prices and limits; nothing else of it.",
        ),
    ]
    return _with(command, options)


def _with(command: F, options: Sequence[Callable[[Any], Any]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def patterns_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Read `KIND=REGEX` options.

    Raises:
        UsageError: one names no kind, or a kind is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        kind, equals, expression = text.partition("=")
        if not equals or not expression or not re.fullmatch(r"[\w-]+", kind):
            raise UsageError(f"--redact {text!r} names no kind.", hint=r"Write KIND=REGEX, like ticket='T-\d+'.")
        if kind in found:
            raise UsageError(f"--redact names the kind {kind!r} twice.", hint="Join the two with |, or name another.")
        found[kind] = expression
    return found


def print_json(data: object) -> None:
    """Print one JSON value on a line."""
    click.echo(json.dumps(data, ensure_ascii=False))


def print_forecast(found: Forecast, *, as_json: bool) -> None:
    """Print what a command would take."""
    click.echo(json.dumps(found.data) if as_json else "\n".join(found.lines))
