"""`combee apply`: a playbook into a repository, after a look at the diff."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from combee.cli.export import name_of
from combee.cli.rundir import open_book
from combee.errors import UsageError
from combee.export import File, changes, diff_of, export, write
from combee.playbook import Playbook

__all__ = ["command"]

_PLACES = {"agents": "", "skill": ".claude/skills/", "cursor": ""}


@click.command(name="apply")
@click.argument("what")
@click.argument("repo", type=click.Path(path_type=Path), default=Path())
@click.option("--to", "form", type=click.Choice(list(_PLACES)), default="agents", show_default=True)
@click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest.")
@click.option("--max-tokens", type=click.IntRange(1), help="Take the most valuable bullets that fit.")
@click.option("--name", help="Name of the skill or rule. [from the run]")
@click.option("--description", help="When the lessons are of use; agents choose skills by it.")
@click.option("--skills-dir", default=".claude/skills", show_default=True, help="Where skills live in the repository.")
@click.option("--yes", is_flag=True, help="Write without asking; for CI.")
@click.option("--dry-run", is_flag=True, help="Show the diff and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(  # noqa: PLR0917 - click passes options by name
    what: str,
    repo: Path,
    form: str,
    version: str,
    max_tokens: int | None,
    name: str | None,
    description: str | None,
    skills_dir: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Put the playbook of WHAT (a run, RUN@VERSION or a file) into the repository REPO (default: here).

    `agents` fills a marked block of AGENTS.md and touches nothing else in it; `skill` and `cursor` write files of
    their own.
    """
    book, called = _opened(what, repo, version)
    files = export(book, form, name=name_of(name, called), description=description, max_tokens=max_tokens)
    if form == "skill":
        files = tuple(File(f"{skills_dir.strip('/')}/{file.path}", file.text) for file in files)
    found = changes(repo, files, into_block=form == "agents")
    if not as_json and found:
        click.echo(diff_of(found))
    wrote = bool(found) and not dry_run and (yes or _agreed(len(found), repo))
    if wrote:
        write(found, repo)
    if as_json:
        click.echo(json.dumps({"files": [change.path for change in found], "written": wrote, "diff": diff_of(found)}))
    elif not found:
        click.echo(f"Nothing to change: {repo} is up to date.")
    else:
        click.echo("\n".join(f"{'wrote' if wrote else 'not written:'} {change.path}" for change in found))


def _opened(what: str, repo: Path, version: str) -> tuple[Playbook, str]:
    try:
        return open_book(what, version)
    except UsageError as error:
        if Path(what).is_dir() and repo == Path():
            raise UsageError(
                f"{what} is a folder, not a run.", hint=f"Name the run first: combee apply RUN {what}"
            ) from error
        raise


def _agreed(count: int, repo: Path) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("Nobody is there to be asked.", hint="Give --yes to write, or --dry-run to look.")
    return click.confirm(f"Write {count} file{'s' if count > 1 else ''} in {repo}?", default=False)
