"""`combee init` and `combee config`: a commented combee.toml; the settings in force, their origins and JSON schema."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from combee.errors import StorageError, UsageError
from combee.model.settings import ROLES
from combee.run.settings import CONFIG_NAME, Settings, read_settings
from combee.run.settings_tables import SettingsTable
from combee.run.words import typed
from combee.terminal.options import PathType, config_option, json_option, print_json


@click.group(name="config")
def command() -> None:
    """Show the settings in force and where each comes from; print the JSON schema of combee.toml."""


@command.command("schema", short_help="Print the JSON schema of combee.toml, for editors.")
def schema() -> None:
    """Print the JSON schema of combee.toml: every key with its type, range, default and meaning.

    Editors take it from a file that the first line of combee.toml names: `#:schema combee.schema.json`.
    """
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Settings.model_json_schema()}
    click.echo(json.dumps(whole, indent=1))


@command.command("show", short_help="Show the settings in force and where each comes from.")
@config_option
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Any setting, like learn.near=0.8.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def show(config_path: Path | None, sets: tuple[str, ...], *, as_json: bool) -> None:
    """Show each setting, as in combee.toml, with where it comes from: default, FILE:LINE, --set or a variable.

    Of keys and logins only the names of the variables are shown that hold them.
    """
    spec = read_settings(config_path).with_set(sets)
    tables = {name: list(_rows(spec, name)) for name in _names(spec)}
    if as_json:
        print_json(
            {name: {key: {"value": v, "from": origin} for key, v, origin in rows} for name, rows in tables.items()}
        )
        return
    for name, rows in tables.items():
        click.echo(f"\n[{name}]")
        for key, value, origin in rows:
            said = f"# {key} is not set" if value is None else f"{_key(key)} = {_toml(value)}"
            click.echo(said if value is None else f"{said:<48} # {origin}")


def _names(spec: Settings) -> Iterator[str]:
    for name in type(spec).model_fields:
        if name == "start":
            continue
        yield name
        table = getattr(spec, name)
        yield from (f"{name}.{role}" for role in ROLES if getattr(table, role, None) is not None)


def _rows(spec: Settings, name: str) -> Iterator[tuple[str, Any, str]]:
    """Yield key, value and origin of a table. Of one of a role only what it has of its own."""
    table, _, role = name.partition(".")
    content: Any = getattr(spec, table)
    values: Mapping[str, Any] = content if isinstance(content, dict) else content.model_dump(mode="json")
    values = values[role] if role else values
    for key, value in values.items():
        origin = spec.origin(*((table, role, key) if role else (table, key)))
        if (role and origin is None) or key in ROLES:
            continue
        url = os.environ.get("OPENAI_BASE_URL") if key == "base_url" and value is None else None
        if url is not None:
            parts = urlsplit(url)  # its login and query stay unseen
            yield key, f"{parts.scheme}://{parts.hostname}{parts.path}", "$OPENAI_BASE_URL"
            continue
        remark = f", a variable that is {'' if value in os.environ else 'not '}set" if key == "api_key_env" else ""
        plain = value.model_dump() if isinstance(value, SettingsTable) else value
        yield key, plain, (origin or "default") + remark


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = [f"{_key(key)} = {_toml(one)}" for key, one in value.items() if one is not None]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)


@click.command(name="init")
@click.argument("folder", type=PathType(), default=Path())
@json_option
def init_command(folder: Path, as_json: bool) -> None:
    """Write a commented combee.toml into FOLDER (default: here)."""
    path = folder / CONFIG_NAME
    text = resources.files("combee.cli").joinpath("combee.toml").read_text(encoding="utf-8")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file.", hint="Name a folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{path} is there already.", hint="Edit it, or move it away first.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    if as_json:
        print_json({"written": str(path)})
    else:
        click.echo(
            f"Wrote {path}. Next: name your file in it as source (without one the built-in practice tasks are learned) "
            f"and, for a language model, fill [model]; then: {typed('learn')}"
        )
