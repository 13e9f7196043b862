"""`combee export`: a playbook in the form that an agent reads."""

from __future__ import annotations

import json
from pathlib import Path

import click

from combee.cli.rundir import open_book
from combee.errors import UsageError
from combee.export import FORMS, Change, changes, export, slug, write
from combee.playbook import tokens

__all__ = ["command", "name_of"]


def name_of(given: str | None, what: str) -> str:
    """Return the name that was given, else one made from what the playbook is called."""
    if given is not None:
        return given
    path = Path(what.split("@", maxsplit=1)[0])
    return slug(path.parent.name if path.stem == "playbook" and path.parent.name else path.stem)


@click.command(name="export")
@click.argument("what", required=False)
@click.option("--to", "form", type=click.Choice(list(FORMS)), required=True, help="What to write.")
@click.option("--out", type=click.Path(path_type=Path), help="File, or folder for a skill. [stdout; a skill: ./NAME/]")
@click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest.")
@click.option("--max-tokens", type=click.IntRange(1), help="Take the most valuable bullets that fit.")
@click.option("--name", help="Name of the skill or rule. [from the run]")
@click.option("--description", help="When the lessons are of use; agents choose skills by it.")
@click.option("--force", is_flag=True, help="Write over a file that is not ours.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(what: str | None, form: str, out: Path | None, version: str, *, as_json: bool, **options: object) -> None:
    """Write the playbook of WHAT (a run, default the latest; RUN@VERSION; or a file) in another form.

    What stands in the file is, byte for byte, the text that was scored.
    """
    book, called = open_book(what, version)
    name = name_of(_text(options["name"]), called)
    limit = options["max_tokens"]
    files = export(
        book,
        form,
        name=name,
        description=_text(options["description"]),
        max_tokens=limit if isinstance(limit, int) else None,
    )
    if out is None and len(files) == 1 and form != "skill":
        whole = {"form": form, "name": name, "bullets": len(book), "text": files[0].text}
        click.echo(json.dumps(whole, ensure_ascii=False) if as_json else files[0].text, nl=as_json)
        return
    base = Path() if out is None else out
    written = []
    for file in files:
        target = base / file.path.split("/", maxsplit=1)[1] if form == "skill" and out is not None else base
        target = base / file.path if form == "skill" and out is None else target
        written.append(_put(target, file.text, force=bool(options["force"]), block=form == "agents"))
    if as_json:
        click.echo(json.dumps({"form": form, "name": name, "bullets": len(book), "files": written}))
    else:
        click.echo("\n".join(f"wrote {path}" for path in written))
        click.echo(f"from {called}: {len(book)} bullets, {tokens(book)} tokens")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _put(target: Path, text: str, *, force: bool, block: bool) -> str:
    """Write one file, in one step; what is there and not ours is left alone."""
    from combee.export import File

    if target.is_dir():
        raise UsageError(f"{target} is a folder.", hint="Name a file with --out.")
    target.parent.mkdir(parents=True, exist_ok=True)
    if force and not block:
        old = target.read_bytes() if target.exists() else None
        write([Change(target.name, target.resolve(), old, text.encode())], target.parent)
    else:
        write(changes(target.parent, [File(target.name, text)], into_block=block), target.parent)
    return str(target)
