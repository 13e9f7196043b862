"""Options that name a model and limit what it may cost, shared by the commands that call models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from combee.cli.options import Number, Place

__all__ = ["budget_options", "endpoint_options", "mend_options", "model_options"]

F = TypeVar("F", bound=Callable[..., Any])


def model_options(command: F) -> F:
    """Add the options that say which model is called, and how."""
    options = [
        click.option("--max-in-flight", type=click.IntRange(1), help="Calls in flight at most. [found by itself]"),
        click.option("--prompts", type=Place(), help="Folder with prompts of your own."),
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
        click.option("--max-cost", type=Number(0, min_open=True), help="US dollars the run may cost."),
        click.option("--max-calls", type=int, help="Calls the run may make."),
        click.option("--max-tokens", type=int, help="Prompt and reply tokens the run may take."),
        click.option("--max-minutes", type=Number(0, min_open=True), help="Minutes of work, over all resumes."),
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
            type=Place(),
            help="Settings file: its endpoints, keys, paces, prices and limits; nothing else of it.",
        ),
    ]
    return _with(command, options)


def _with(command: F, options: Sequence[Callable[[Any], Any]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command
