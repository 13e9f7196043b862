"""`combee doctor`: is this installation whole, and does the model answer? `combee mock`: an endpoint to rehearse with.

The mock is OpenAI-compatible, on the loopback address, and answers as told.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import platform
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from combee import __version__
from combee.ace import Student, lesson_of
from combee.errors import CombeeError, DataError, UsageError, how_to_install
from combee.files import read_regular
from combee.kernel.journal import Journal
from combee.kernel.runner import run_sync
from combee.model.mock import FAULTS, PROVIDERS, MockConfig, MockServer, Rules, Scripted
from combee.model.mock import parse_latency as read_latency
from combee.run.options import over_options
from combee.run.settings import Settings, read_settings
from combee.run.words import counted
from combee.tasks import load
from combee.terminal.options import NumberType, PathType, config_option, endpoint_options, print_json

if TYPE_CHECKING:
    from combee.model import EndpointReport, LocalModel, OpenAIModel, Price, RoleModel

__all__ = ["config_of", "doctor_command", "mock_command", "student_for"]

_MARKS = {True: "ok ", None: "-- ", False: "NO "}
EXTRAS = {"gepa": "gepa", "local": "xllamacpp", "mcp": "mcp", "ray": "ray", "swarm": "pydantic_ai"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `ok` is None where it is not as it might be, but does no harm; `fix` says what to do."""

    name: str
    ok: bool | None
    found: str
    fix: str = ""


@click.command(name="doctor")
@endpoint_options
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def doctor_command(as_json: bool, **options: Any) -> int:
    """Check this installation and, if one is named or configured, the model: does it answer, and what can it do?"""
    checks = [_python(), _sqlite(), _disk(), *_extras(), *_models(options)]
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], ensure_ascii=False))
    else:
        click.echo(f"combee {__version__}")
        for check in checks:
            click.echo(f"{_MARKS[check.ok]} {check.name:<12} {check.found}")
            if check.ok is False and check.fix:
                click.echo(f"    {check.fix}")
    return 1 if any(check.ok is False for check in checks) else 0


def _python() -> Check:
    return Check("python", sys.version_info >= (3, 11), platform.python_version(), "Install Python 3.11 or later.")


def _sqlite() -> Check:
    found = sqlite3.sqlite_version_info
    return Check("sqlite", found >= (3, 35), sqlite3.sqlite_version, "Use a Python with SQLite 3.35 or later.")


def _disk() -> Check:
    try:
        with tempfile.TemporaryDirectory(dir=".") as folder, Journal.open(Path(folder)):
            return Check("disk", ok=True, found="a run can be written here")
    except OSError as error:
        return Check("disk", ok=False, found=str(error), fix="Change to a folder you may write to.")


def _extras() -> list[Check]:
    return [
        Check(
            name,
            ok=True,
            found="installed"
            if importlib.util.find_spec(module)
            else f"not installed (optional). {how_to_install(name)}",
        )
        for name, module in EXTRAS.items()
    ]


def _models(options: Mapping[str, Any]) -> list[Check]:
    spec = over_options(read_settings(options["config_path"]), options)
    if spec.origin("model") is None:
        return [Check("endpoint", ok=True, found="none configured; the embedded agent needs none")]
    try:
        return run_sync(_reach(spec))
    except CombeeError as error:
        return [Check("endpoint", ok=False, found=error.message, fix=error.hint or "")]


async def _reach(spec: Settings) -> list[Check]:
    """Make a few small calls to each model that the roles use, once where they are the same."""
    from combee.model import open_models
    from combee.model.clients import place_of

    models = open_models(spec.models())
    seen: dict[tuple[str, str], list[str]] = {}
    for role, model in models.by_role.items():
        seen.setdefault((place_of(model.inner), model.name), []).append(role)
    found: list[Check] = []
    try:
        for (place, name), roles in seen.items():
            report = await _report(models.by_role[roles[0]])
            where = f"at {place}" if "://" in place else f"in {place}"
            found.append(Check("endpoint", report.ok, f"{name} {where} for {', '.join(roles)}"))
            for check in report.checks:
                follows = f". {check.hint}" if check.ok is None and check.hint else ""
                found.append(Check(check.name, check.ok, check.detail + follows, check.hint or ""))
            found += _cost_of_a_call(models.by_role[roles[0]].inner.price)
    finally:
        await models.aclose()
    return found


def _cost_of_a_call(price: Price | None) -> list[Check]:
    """Say what one call of a usual size costs; prompts of a grown playbook are the larger part of it."""
    if price is None:
        return []
    from combee.model import Usage

    small, large = price.cost(Usage(2_000, 300)), price.cost(Usage(20_000, 300))
    found = f"${small:.5f} with 2,000 tokens in, ${large:.5f} with 20,000, and 300 out"
    return [Check("a call costs", ok=True, found=found)]


async def _report(model: RoleModel) -> EndpointReport:
    from combee.model.doctor import check_endpoint, check_local
    from combee.model.local import is_local

    if is_local(model.name):
        return await check_local(cast("LocalModel", model.inner))
    return await check_endpoint(cast("OpenAIModel", model.inner))


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
@click.option(
    "--memory", type=NumberType(0), default=40.0, show_default=True, help="m0 of the student's curator; 0 forgets none."
)
@click.option("--data-dir", help="Folder that holds finer/ and formula/. [$COMBEE_DATA]")
@click.option("--options", "options_path", type=PathType(), help="JSON file with every setting.")
@click.option("--seed", type=int, help="Decides faults and latencies. [0]")
@click.option(
    "--json", "as_json", is_flag=True, help="Print two lines of JSON: the address, and at the end the counts."
)
def mock_command(**options: Any) -> None:
    """Serve until Ctrl-C or SIGTERM, then say what was asked and what would have been paid. Listens on 127.0.0.1 only.

    With --json, standard output is JSON lines: {"url": ...} as soon as calls are taken, and at the end the counts
    (requests, paid, tokens by kind, outcomes). A script reads the first line and then goes on.
    """
    config, reply = config_of(options), _reply(options)

    async def serve() -> None:
        stop = asyncio.Event()
        with suppress(NotImplementedError):  # a script ends its server so, and wants the counts too; not on Windows
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
        memory = options["memory"] or None
        return student_for(options["student"], data_dir=options["data_dir"], m0=memory, seed=options["seed"] or 0)
    return None if options["script"] is None else Rules.load(options["script"])


def student_for(source: str, *, data_dir: str | None, m0: float | None, seed: int) -> Student:
    """Return the scripted student of a task set: for `formula` it needs the formulas, else one lesson a task."""
    tasks = load(source, data_dir=data_dir, seed=seed)
    shown = (
        {task.id: task for task in load(source, data_dir=data_dir, seed=seed, options=True)}
        if source == "formula"
        else {}
    )
    lessons = {task.id: lesson_of(task, shown.get(task.id)) for task in tasks}
    return Student(tasks, lessons, m0=m0, seed=seed)
