"""`combee init`: a commented combee.toml, never over an existing file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from combee.errors import StorageError, UsageError
from combee.run.settings import CONFIG_NAME
from combee.run.words import typed
from combee.terminal.options import PathType, json_option, print_json


@click.command(name="init")
@click.argument("folder", type=PathType(), default=Path())
@json_option
def command(folder: Path, as_json: bool) -> None:
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
