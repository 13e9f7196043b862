"""`combee doctor`: is this installation whole, and does the model answer?"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from combee import __version__
from combee.errors import CombeeError, how_to_install
from combee.kernel.journal import Journal
from combee.kernel.runner import run_sync
from combee.run.environments import environment_named
from combee.run.methods import worker_kind
from combee.run.options import over_options
from combee.run.settings import Settings, read_settings
from combee.terminal.options import config_option, endpoint_options, setting

if TYPE_CHECKING:
    from combee.model import EndpointReport, LocalModel, OpenAIModel, Price, RoleModel

_MARKS = {True: "ok ", None: "-- ", False: "NO "}
EXTRAS = {
    "embedding": "numpy",
    "gepa": "gepa",
    "local": "xllamacpp",
    "mcp": "mcp",
    "ray": "ray",
    "serve": "prometheus_client",
    "socks": "aiohttp_socks",
    "swarm": "pydantic_ai",
}


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
@setting("--appworld", "environment.url", "An AppWorld server: what does it lack?", metavar="URL")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def doctor_command(as_json: bool, **options: Any) -> int:
    """Check this installation and, if one is named or configured, the model: does it answer, and what can it do?"""
    checks = [_python(), _sqlite(), _disk(), *_extras(), *_models(options), *_workers(options)]
    checks += _environment(options)
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


def _workers(options: Mapping[str, Any]) -> list[Check]:
    spec = read_settings(options["config_path"])
    try:
        kind = worker_kind(spec)
        return [] if kind is None else [Check("workers", ok=True, found=kind.look(spec.workers))]
    except CombeeError as error:
        return [Check("workers", ok=False, found=error.message, fix=error.hint or "")]


def _environment(options: Mapping[str, Any]) -> list[Check]:
    """Look at the environment that the settings name, and at an AppWorld server that was asked for."""
    spec = read_settings(options["config_path"])
    if (url := options["environment__url"]) is not None:
        spec = spec.over({"environment": {"kind": "appworld", "url": [url]}})
    kind = spec.environment.kind
    try:
        found = [] if kind is None else environment_named(kind).look(spec)
    except CombeeError as error:
        return [Check("environment", ok=False, found=error.message, fix=error.hint or "")]
    return [Check(one.name, one.ok, one.found, one.fix) for one in found]


def _models(options: Mapping[str, Any]) -> list[Check]:
    spec = over_options(read_settings(options["config_path"]), {**options, "environment__url": None})
    if not spec.calls_models and spec.model_name is None:
        place = (os.environ.get("OPENAI_BASE_URL") and "OPENAI_BASE_URL is set") or spec.origin("model")
        if not place:
            return [Check("endpoint", ok=True, found="none configured; the embedded agent needs none")]
        fix = "Give --model NAME, or name = ... below [model] in combee.toml."
        return [Check("endpoint", ok=False, found=f"{place}, but no model is named", fix=fix)]
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
