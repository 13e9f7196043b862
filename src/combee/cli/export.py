"""A playbook for agents: as files (`combee export`), in a repository (`apply`), over a protocol (`mcp`)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from combee.errors import UsageError, how_to_install
from combee.export import FORMS, Change, File, Risk, changes, diff_of, export, own_skill, risks, slug, write
from combee.files import read_regular, real_path
from combee.kernel.guard import Policy
from combee.kernel.playbook import Playbook, to_text, tokens
from combee.mcp import LessonStore
from combee.run.folders import find_run, open_book
from combee.run.words import counted, typed
from combee.terminal.options import PathType, print_json, say_aside

F = TypeVar("F", bound=Callable[..., Any])

_READ_BYTES = 32_768  # of an AGENTS.md that Codex reads by default; others cut at the same length or earlier
_SKILL_TOKENS = 5_000  # of a file of a skill, as the format's own pages advise


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Which version of a playbook is exported, how much of it, and under which name; the options of two commands."""

    version: str
    max_tokens: int | None
    name: str | None
    description: str | None
    accept_risky: bool

    def risks(self, what: str | None) -> tuple[Risk, ...]:
        """Return the lessons of the excerpt that a person should look at before agents read them."""
        return risks(open_book(what, self.version)[0], self.max_tokens)

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


def look_at(found: Sequence[Risk], *, accepted: bool) -> None:
    """Show the risky lessons, and ask whether to write them.

    Raises:
        UsageError: They were not accepted.
    """
    if not found:
        return
    head = (
        f"{counted(len(found), 'lesson')} to look at first: they come from runs or models, and agents will follow them"
    )
    click.echo("\n".join([head, *(f"  {each}" for each in found)]), err=True)
    if accepted:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "Some lessons order to run, send or fetch something.", hint="Give --accept-risky to write them."
        )
    if not click.confirm("Write them?", default=False):
        raise UsageError("Not written.", hint="Export with --max-tokens, or start again from a playbook without them.")


def excerpt_options(command: F) -> F:
    """Add the options of an excerpt; the command makes one of them."""
    for option in (
        click.option("--accept-risky", is_flag=True, help="Write lessons that order to run, send or fetch something."),
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
@click.option("--out", type=PathType(), help="File, or folder for a skill. [stdout; a skill: ./NAME/]")
@excerpt_options
@click.option("--force", is_flag=True, help="Write over a file that is not ours.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def export_command(what: str | None, form: str, out: Path | None, *, force: bool, as_json: bool, **chosen: Any) -> None:
    """Write the playbook of WHAT (a run, default the latest; RUN@VERSION; or a file) in another form.

    What stands in the file is, byte for byte, the text that was scored.
    """
    excerpt = Excerpt(**chosen)
    if form == "skill" and out is not None:
        excerpt = replace(excerpt, name=_name_of_folder(out, excerpt.name))
    book, called, files = excerpt.files(what, form)
    found = risks(book, excerpt.max_tokens)
    look_at(found, accepted=excerpt.accept_risky)
    facts = {
        "form": form,
        "name": excerpt.name_for(called),
        "bullets": len(book),
        "risky": [str(each) for each in found],
    }
    if out is None and form != "skill":
        text = files[0].text
        for note in _too_long([(files[0].path, len(text.encode()))], book):
            say_aside(note)
        click.echo(json.dumps({**facts, "text": text}, ensure_ascii=False) if as_json else text, nl=as_json)
        return
    written = [_put(_target(file, form, out), file.text, force=force, block=form == "agents") for file in files]
    notes = _too_long([(path, Path(path).stat().st_size) for path in written], book)
    for note in notes:
        say_aside(note)
    if as_json:
        print_json({**facts, "files": written, "notes": notes})
    else:
        click.echo("\n".join(f"wrote {path}" for path in written))
        click.echo(f"from {called}: {counted(len(book), 'bullet')}, {tokens(book):,} tokens")
        if form in {"skill", "cursor"} and excerpt.description is None:
            click.echo(
                "agents choose by the description, and it names only the run: say when to use it with --description"
            )


def _name_of_folder(out: Path, name: str | None) -> str:
    """Return the name of a skill that is written into a folder: agents find a skill only under its own name.

    Raises:
        UsageError: The folder has another name than the one given, or one that a skill cannot have.
    """
    folder = real_path(out).name
    if name is not None and name != folder:
        hint = f"Write it to {out.parent / name}, or leave out --name."
        raise UsageError(f"The skill {name!r} would lie in a folder {folder!r}, where no agent finds it.", hint=hint)
    if folder != slug(folder):
        hint = f"Write it to {out.parent / slug(folder)}: a-z, 0-9, single hyphens."
        raise UsageError(f"A skill cannot lie in a folder {folder!r}: it must have the skill's name.", hint=hint)
    return folder


def _too_long(files: Sequence[tuple[str, int]], book: Playbook) -> list[str]:
    """Return a note for each file so long that agents read only its beginning, or that it takes much of a window."""
    notes = []
    for path, size in files:
        if Path(path).name == "AGENTS.md" and size > _READ_BYTES:
            fits = max(1, int(tokens(book) * 0.9 * _READ_BYTES / size))
            notes.append(
                f"{path} has {size:,} bytes; agents cut it at {_READ_BYTES:,}. "
                f"--max-tokens {fits} keeps the most valuable lessons; --to skill has room for all."
            )
        elif Path(path).name == "SKILL.md" or Path(path).parent.name == "references":
            length = tokens(book) * size // max(1, len(to_text(book).encode()))
            if length > 1.1 * _SKILL_TOKENS:
                notes.append(
                    f"{path} has about {length:,} tokens, and an agent reads it whole; skills are meant to have "
                    f"{_SKILL_TOKENS:,}. --max-tokens {_SKILL_TOKENS} keeps the most valuable lessons."
                )
    return notes


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


@click.command(name="apply")
@click.argument("what")
@click.argument("repo", type=PathType(), default=Path())
@click.option("--to", "form", type=click.Choice(["agents", "skill", "cursor"]), default="agents", show_default=True)
@excerpt_options
@click.option("--skills-dir", default=".claude/skills", show_default=True, help="Where skills live in the repository.")
@click.option("--yes", is_flag=True, help="Write without asking; for CI.")
@click.option("--dry-run", is_flag=True, help="Show the diff and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def apply_command(
    what: str, repo: Path, form: str, skills_dir: str, *, yes: bool, dry_run: bool, as_json: bool, **chosen: Any
) -> None:
    """Put the playbook of WHAT (a run, RUN@VERSION or a file) into the repository REPO (default: here).

    `agents` fills a marked block of AGENTS.md and touches nothing else in it; `skill` and `cursor` write files of
    their own.
    """
    excerpt = Excerpt(**chosen)
    files = _files(excerpt, what, repo, form)
    if form == "skill":
        files = tuple(File(f"{skills_dir.rstrip('/')}/{file.path}", file.text) for file in files)
    planned = changes(repo, files, into_block=form == "agents")
    if not as_json and planned:
        click.echo(diff_of(planned))
    risky = excerpt.risks(what)
    notes = _too_long([(change.path, len(change.new)) for change in planned], open_book(what, excerpt.version)[0])
    for note in notes:
        say_aside(note)
    if planned:
        look_at(risky, accepted=excerpt.accept_risky or dry_run)
    wrote = bool(planned) and not dry_run and (yes or _agreed(len(planned), repo))
    if wrote:
        write(planned, repo)
    if as_json:
        paths = [change.path for change in planned]
        shown = [str(each) for each in risky]
        print_json({"files": paths, "written": wrote, "risky": shown, "notes": notes, "diff": diff_of(planned)})
    elif not planned:
        click.echo(f"Nothing to change: {repo} is up to date.")
    else:
        click.echo("\n".join(f"{'wrote' if wrote else 'not written:'} {change.path}" for change in planned))


def _files(excerpt: Excerpt, what: str, repo: Path, form: str) -> tuple[File, ...]:
    try:
        return excerpt.files(what, form)[2]
    except UsageError as error:
        if Path(what).is_dir() and repo == Path():
            raise UsageError(
                f"{what} is a folder, not a run.", hint=f"Name the run first: {typed('apply', 'RUN', what)}"
            ) from error
        raise


def _agreed(count: int, repo: Path) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to ask on.", hint="Give --yes to write, or --dry-run to look.")
    return click.confirm(f"Write {count} file{'s' if count > 1 else ''} in {repo}?", default=False)


@click.command(name="mcp")
@click.argument("what", required=False)
@click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest.")
@click.option("--max-tokens", type=click.IntRange(50), default=4000, show_default=True, help="Tokens of one answer.")
@click.option("--tenant", multiple=True, help="Show only lessons of these tenants.")
@click.option("--clearance", help="Show only lessons up to this clearance.")
@click.option("--label", multiple=True, metavar="KEY=VALUE", help="Put on every reported run, like tenant=acme.")
@click.option("--reports", type=PathType(), help="Where reports are kept. [the run's reported.jsonl]")
@click.option("--read-only", is_flag=True, help="Offer the playbook alone: no reports, no votes.")
@click.option("--skill", is_flag=True, help="Print the skill file that teaches an agent to use combee, and end.")
def mcp_command(  # noqa: PLR0917 - click passes options by name
    what: str | None,
    version: str,
    max_tokens: int,
    tenant: tuple[str, ...],
    clearance: str | None,
    label: tuple[str, ...],
    reports: Path | None,
    read_only: bool,
    skill: bool,
) -> None:
    """Serve the playbook of WHAT (a run, default the latest; or a file): get_playbook, report_trace, vote."""
    if skill:
        click.echo(own_skill(), nl=False)
        return
    source = Path(what) if what is not None and Path(what).is_file() else find_run(what)
    store = LessonStore(
        real_path(source),
        version,
        Policy(tenants=frozenset(tenant) or None, clearance=clearance),
        _labels(label),
        None if reports is None else real_path(reports),
    )
    store.playbook()  # so an error is shown before a client waits
    try:
        from combee.mcp.server import make_server
    except ImportError as error:
        raise UsageError(
            f"The MCP server needs a package that is not installed: {error.name}.",
            hint=how_to_install("mcp"),
        ) from error
    make_server(store, max_tokens=max_tokens, reports=not read_only and store.reports is not None).run("stdio")


def _labels(pairs: tuple[str, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip() or not text.strip():
            raise UsageError(f"--label {pair!r} is not KEY=VALUE.", hint="Write for example --label tenant=acme.")
        labels[key.strip()] = text.strip()
    return labels
