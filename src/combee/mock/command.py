"""Serve a mock of a model endpoint for tests and rehearsals."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import click

from combee.errors import DataError, UsageError
from combee.files import read_regular
from combee.kernel.runner import run_sync
from combee.mock import FAULTS, PROVIDERS, MockConfig, MockServer, Rules, Scripted
from combee.mock import parse_latency as read_latency
from combee.mock.student import lesson_of, student_of
from combee.run.words import counted
from combee.tasks import Fields, load
from combee.terminal.options import NumberType, PathType, print_json


@click.command(name="mock")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
@click.option(
    "--like", type=click.Choice(sorted(PROVIDERS)), help="Play this provider's shapes: errors, refusals, usage."
)
@click.option("--latency", default="0", show_default=True, help="0.2, lognormal:0.2:0.6, linear:0.1:0.001[/items].")
@click.option("--rate", type=NumberType(0, min_open=True), help="Calls a second that are allowed; more get a 429.")
@click.option("--burst", type=NumberType(1), help="Size of the bucket behind --rate. [50]")
@click.option("--fault", "faults", multiple=True, metavar="KIND=SHARE", help=f"Kinds: {', '.join(FAULTS)}.")
@click.option("--key", help="The one key that is accepted. [any]")
@click.option("--context", type=click.IntRange(1), help="Tokens of the window.")
@click.option("--script", type=PathType(), help="JSON file of rules: match and reply.")
@click.option("--student", metavar="TASKS", help="Answer as a scripted student of a task set (formula, tags, a file).")
@click.option("--question", help="Column of its file with the question.")
@click.option("--answer", help="Column with the right answer.")
@click.option(
    "--memory", type=NumberType(0), default=40.0, show_default=True, help="m0 of the student's curator; 0 forgets none."
)
@click.option("--data-dir", help="Folder that holds finer/ and formula/. [$COMBEE_DATA]")
@click.option("--options", "options_path", type=PathType(), help="JSON file with every setting.")
@click.option("--seed", type=int, help="Decides faults and latencies. [0]")
@click.option(
    "--json", "as_json", is_flag=True, help="Print two lines of JSON: the address, and at the end the counts."
)
def command(**options: Any) -> None:
    """Serve until Ctrl-C or SIGTERM, then say what was asked and what would have been paid. Listens on 127.0.0.1 only.

    With --json, standard output is JSON lines: {"url": ...} as soon as calls are taken, and at the end the counts
    (requests, paid, tokens by kind, outcomes). A script reads the first line and then goes on.
    """
    config, reply = config_of(options), _reply(options)

    async def serve() -> None:
        stop = asyncio.Event()
        with suppress(NotImplementedError):  # scripts end the server with it and want the counts too; not on Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with MockServer(config, reply, port=options["port"]) as server:
            click.echo(json.dumps({"url": server.url}) if options["as_json"] else f"listening on {server.url}")
            try:
                await stop.wait()
            finally:
                counts = server.stats.to_json()
                if options["as_json"]:
                    print_json(counts)
                else:
                    paid, tokens = counts["paid"], counts["prompt"] + counts["completion"]
                    click.echo(
                        f"{counted(counts['requests'], 'request')}, {paid} to be paid, {counted(tokens, 'token')}"
                    )

    try:
        run_sync(serve())
    except KeyboardInterrupt:
        return


def config_of(options: dict[str, Any]) -> MockConfig:
    """Return what the options and the file they name make of the mock."""
    config = MockConfig()
    if options["key"] == "":
        raise UsageError("--key is empty.", hint="Name the key that is accepted, or leave the option out: any is.")
    if options["options_path"] is not None:
        path = options["options_path"]
        try:
            config = MockConfig.from_json(json.loads(read_regular(path).decode("utf-8")))
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"cannot be read as settings of the mock: {error}", path=path) from None
    return replace(
        config,
        latency=read_latency(options["latency"]) if options["latency"] != "0" else config.latency,
        like=options["like"] or config.like,
        rate=options["rate"] if options["rate"] is not None else config.rate,
        burst=config.burst if options["burst"] is None else options["burst"],
        faults={**config.faults, **dict(map(_fault, options["faults"]))},
        key=options["key"] or config.key,
        context=options["context"] or config.context,
        seed=config.seed if options["seed"] is None else options["seed"],
    )


def _fault(text: str) -> tuple[str, float]:
    kind, _, share = text.partition("=")
    try:
        return kind, float(share)
    except ValueError:
        raise UsageError(f"{text!r} is not KIND=SHARE.", hint="Write for example --fault server=0.1.") from None


def _reply(options: dict[str, Any]) -> Scripted | None:
    if options["script"] is not None and options["student"] is not None:
        raise UsageError("--script and --student exclude each other.")
    if options["student"] is not None:
        return _student_for(options["student"], options)
    return None if options["script"] is None else Rules.load(options["script"])


def _student_for(source: str, options: Mapping[str, Any]) -> Scripted:
    """Return the scripted student of a task set: for `formula` it needs the formulas, else one lesson a task."""
    seed, columns = options["seed"] or 0, (options["question"], options["answer"])
    read_tasks = partial(
        load, source, data_dir=options["data_dir"], seed=seed, fields=Fields(*columns) if any(columns) else None
    )
    tasks = read_tasks()
    shown = {task.id: task for task in read_tasks(options=True)} if source == "formula" else {}
    lessons = {task.id: lesson_of(task, shown.get(task.id)) for task in tasks}
    return student_of(tasks, lessons, m0=options["memory"] or None, seed=seed)
