"""`combee doctor`: is this installation whole, and does the configured endpoint answer?"""

from __future__ import annotations

import importlib.util
import json
import platform
import sqlite3
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from combee import __version__
from combee.cli.config import ProjectConfig, read_config
from combee.errors import CombeeError
from combee.journal import Journal
from combee.runner import run_sync

__all__ = ["command"]

EXTRAS = {"gepa": "gepa", "local": "xllamacpp", "mcp": "mcp", "swarm": "pydantic_ai"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `fix` says what to do when it is not well."""

    name: str
    ok: bool
    found: str
    fix: str = ""


@click.command(name="doctor")
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="Settings file. [combee.toml if there]")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def command(config_path: Path | None, as_json: bool) -> int:
    """Check this installation and, if one is configured, the model endpoint."""
    checks = [_python(), _sqlite(), _disk(), *_extras(), *_endpoint(config_path)]
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], ensure_ascii=False))
    else:
        click.echo(f"combee {__version__}")
        for check in checks:
            click.echo(f"{'ok ' if check.ok else 'NO '} {check.name:<12} {check.found}")
            if not check.ok and check.fix:
                click.echo(f"    {check.fix}")
    return 0 if all(check.ok for check in checks) else 1


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
            else f"not installed (optional: pip install 'combee-learn[{name}]', in a clone -e '.[{name}]')",
        )
        for name, module in EXTRAS.items()
    ]


def _endpoint(config_path: Path | None) -> list[Check]:
    config = read_config(config_path)
    if not config.model:
        return [Check("endpoint", ok=True, found="none configured; the embedded agent needs none")]
    try:
        return run_sync(_reach(config))
    except CombeeError as error:
        return [Check("endpoint", ok=False, found=error.message, fix=error.hint or "")]


async def _reach(config: ProjectConfig) -> list[Check]:
    """Make a few small calls to each endpoint that the roles use, once where they are the same."""
    from combee.ace import open_models
    from combee.model import check_endpoint

    models = open_models(config.model, prices=config.prices)
    seen: dict[tuple[str, str], list[str]] = {}
    for role, model in models.by_role.items():
        seen.setdefault((model.inner.endpoint.base_url, model.name), []).append(role)
    found: list[Check] = []
    try:
        for (url, name), roles in seen.items():
            report = await check_endpoint(models.by_role[roles[0]].inner)
            found.append(Check("endpoint", report.ok, f"{name} at {url} for {', '.join(roles)}"))
            for check in report.checks:
                found.append(Check(check.name, check.ok is not False, check.detail, check.hint or ""))  # noqa: PERF401
    finally:
        await models.aclose()
    return found
