"""`combee export`: a playbook in the form that an agent reads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from combee.errors import UsageError
from combee.export import FORMS, Change, File, changes, export, slug, write
from combee.files import read_regular
from combee.kernel.playbook import Playbook, tokens
from combee.run.folders import open_book
from combee.run.words import counted
from combee.terminal.options import Place

__all__ = ["Excerpt", "command", "excerpt_options"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Which version of a playbook is exported, how much of it, and under which name; the options of two commands."""

    version: str
    max_tokens: int | None
    name: str | None
    description: str | None

    def files(self, what: str | None, form: str) -> tuple[Playbook, str, tuple[File, ...]]:
        """Return the playbook of `what`, how it is called, and its files in that form."""
        book, called = open_book(what, self.version)
        name = self.name_for(called)
        files = export(book, form, name=name, description=self.description, max_tokens=self.max_tokens)
        return book, called, files

    def name_for(self, called: str) -> str:
        """Return the name that was given, else one made from what the playbook is called."""
        if self.name is not None:
            return self.name
        path = Path(called.split("@", maxsplit=1)[0])
        return slug(path.parent.name if path.stem == "playbook" and path.parent.name else path.stem)


def excerpt_options(command: F) -> F:
    """Add the options of an excerpt; the command makes one of them."""
    for option in (
        click.option("--description", help="When the lessons are of use; agents choose skills by it."),
        click.option("--name", help="Name of the skill or rule. [from the run]"),
        click.option(
            "--max-tokens",
            type=click.IntRange(1),
            help="Take the most valuable bullets that fit; marks and legend (about 60 tokens) come on top.",
        ),
        click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest."),
    ):
        command = option(command)
    return command


@click.command(name="export")
@click.argument("what", required=False)
@click.option("--to", "form", type=click.Choice(list(FORMS)), required=True, help="What to write.")
@click.option("--out", type=Place(), help="File, or folder for a skill. [stdout; a skill: ./NAME/]")
@excerpt_options
@click.option("--force", is_flag=True, help="Write over a file that is not ours.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(what: str | None, form: str, out: Path | None, *, force: bool, as_json: bool, **chosen: Any) -> None:
    """Write the playbook of WHAT (a run, default the latest; RUN@VERSION; or a file) in another form.

    What stands in the file is, byte for byte, the text that was scored.
    """
    excerpt = Excerpt(**chosen)
    book, called, files = excerpt.files(what, form)
    facts = {"form": form, "name": excerpt.name_for(called), "bullets": len(book)}
    if out is None and form != "skill":
        text = files[0].text
        click.echo(json.dumps({**facts, "text": text}, ensure_ascii=False) if as_json else text, nl=as_json)
        return
    written = [_put(_target(file, form, out), file.text, force=force, block=form == "agents") for file in files]
    if as_json:
        click.echo(json.dumps({**facts, "files": written}))
    else:
        click.echo("\n".join(f"wrote {path}" for path in written))
        click.echo(f"from {called}: {counted(len(book), 'bullet')}, {tokens(book)} tokens")
        if form in {"skill", "cursor"} and excerpt.description is None:
            click.echo(
                "agents choose by the description, and it names only the run: say when to use it with --description"
            )


def _target(file: File, form: str, out: Path | None) -> Path:
    """Return where a file goes: `--out` itself, or below it (a skill: without its own folder's name)."""
    if out is None:
        return Path(file.path)
    return out / file.path.split("/", maxsplit=1)[1] if form == "skill" else out


def _put(target: Path, text: str, *, force: bool, block: bool) -> str:
    """Write one file, in one step; what is there and not ours is left alone."""
    if target.is_dir():
        raise UsageError(f"{target} is a folder.", hint="Name a file with --out.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{target.parent} is a file.", hint="Name a folder with --out.") from error
    if force and not block:
        old = read_regular(target) if os.path.lexists(target) else None
        write([Change(target.name, target.resolve(), old, text.encode())], target.parent)
    else:
        write(changes(target.parent, [File(target.name, text)], into_block=block), target.parent)
    return str(target)
