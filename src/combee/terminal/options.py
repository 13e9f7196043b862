"""Options that several commands share, their types, and what is said beside a result."""

from __future__ import annotations

import json
import math
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from combee.errors import UsageError
from combee.run.estimates import Forecast
from combee.run.words import with_program

F = TypeVar("F", bound=Callable[..., Any])


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


def setting(flags: str, key: str, help: str = "", **more: Any) -> Callable[[F], F]:  # noqa: A002 - click's word
    """Return an option over one setting: its text is read, checked and explained as in the file.

    Args:
        flags: As a person types it: "--batch", or "--guard/--no-guard" for true or false.
        key: The setting, with its table: "learn.batch".
        help: One line for `--help`; without one the option is not shown there.
        more: As for `click.option`.
    """
    return click.option(flags, key.replace(".", "__"), help=help, hidden=not help, **{"default": None, **more})


def options_of(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


task_options = options_of(
    setting("--question", "tasks.question", "Column with the question.", metavar="COLUMN"),
    setting("--answer", "tasks.answer", "Column with the right answer.", metavar="COLUMN"),
    setting("--id", "tasks.id", "Column with the row's id.", metavar="COLUMN"),
    setting("--encoding", "tasks.encoding", "Encoding of the file, such as gbk. [UTF-8]", metavar="NAME"),
    setting("--scorer", "tasks.scorer", "exact, numeric:0.01, tags, regex, or package.module:function."),
    setting("--train", "tasks.train", "Training rows to use.", metavar="N"),
    setting("--val", "tasks.val", "Validation rows to use.", metavar="N"),
    setting("--test", "tasks.test", "Test rows to use.", metavar="N"),
    setting("--data-dir", "tasks.data_dir", "Folder that holds finer/ and formula/. [$COMBEE_DATA]", type=PathType()),
)
"""The options that say how a file of tasks is read."""

price_option = click.option("--price", metavar="IN/OUT", help="US dollars per million tokens, like 0.28/0.42[/cached].")
config_option = click.option("--config", "config_path", type=PathType(), help="Settings file. [combee.toml if there]")
set_option = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Any other setting (`combee config show` lists them)."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
quiet_option = click.option("--quiet", is_flag=True, help="No progress.")
rows_options = options_of(
    click.option("--rows", type=click.IntRange(0), default=5, show_default=True, help="Rows to show, failures first."),
    click.option("--find", metavar="TEXT", help="Show only rows that hold this text."),
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what it would take, and call nothing.")

endpoint_options = options_of(
    setting("--model", "model.name", "Model, as its endpoint names it, or local/smollm2.", metavar="NAME"),
    setting("--base-url", "model.base_url", "Endpoint, like https://api.deepseek.com/v1. [$OPENAI_BASE_URL]"),
    setting("--api-key-env", "model.api_key_env", "NAME of the variable with the key.", metavar="VARIABLE"),
    price_option,
)
"""The options that say which model is called, and where."""

_in_flight = setting("--max-in-flight", "model.max_in_flight", "Calls in flight at most. [found]", metavar="N")
model_options = options_of(
    endpoint_options,
    _in_flight,
    setting("--prompts", "agent.prompts", "Folder with prompts of your own.", type=PathType()),
)
"""The options that say which model is called, and how."""

budget_options = options_of(
    setting("--max-cost", "budget.max_cost", "US dollars it may cost.", metavar="DOLLARS"),
    setting("--max-calls", "budget.max_calls", "Calls it may make.", metavar="N"),
    setting("--max-tokens", "budget.max_tokens", "Prompt and reply tokens it may take.", metavar="N"),
    setting("--max-minutes", "budget.max_minutes", "Minutes of work, over all resumes.", metavar="MINUTES"),
)
"""The options that limit a command."""

mend_options = options_of(
    setting("--base-url", "model.base_url", "Another place of the same model."),
    setting("--api-key-env", "model.api_key_env", "NAME of the variable with the key.", metavar="VARIABLE"),
    price_option,
    _in_flight,
    click.option(
        "--config",
        "config_path",
        type=PathType(),
        help="Settings file: its workers, endpoints, keys, paces, prices and limits; nothing else of it.",
    ),
)
"""The options that put a run's settings right."""


def say_aside(sentence: str) -> None:
    """Say something to the person who waits, beside the result: on standard error."""
    click.echo(with_program(sentence), err=True)


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


def listening(host: str, port: int, hint: str) -> socket.socket:
    """Return a socket that listens at an address. Raises `UsageError` where the address cannot be used."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.create_server((host, port), family=family, backlog=2048)
        # asyncio sets it only on sockets made with their protocol; without it the body of an answer waits 40 ms for the
        # receiver to acknowledge its head. Accepted connections inherit it.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound
    except (OSError, UnicodeError) as error:  # the latter: no name of a host
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{host}:{port} cannot be used: {why}.", hint=hint) from error
