"""`combee apply`: a playbook into a repository, after a look at the diff."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from combee.cli.export import Excerpt, excerpt_options
from combee.errors import UsageError
from combee.export import File, changes, diff_of, write
from combee.run.words import typed
from combee.terminal.options import Place

__all__ = ["command"]


@click.command(name="apply")
@click.argument("what")
@click.argument("repo", type=Place(), default=Path())
@click.option("--to", "form", type=click.Choice(["agents", "skill", "cursor"]), default="agents", show_default=True)
@excerpt_options
@click.option("--skills-dir", default=".claude/skills", show_default=True, help="Where skills live in the repository.")
@click.option("--yes", is_flag=True, help="Write without asking; for CI.")
@click.option("--dry-run", is_flag=True, help="Show the diff and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(
    what: str, repo: Path, form: str, skills_dir: str, *, yes: bool, dry_run: bool, as_json: bool, **chosen: Any
) -> None:
    """Put the playbook of WHAT (a run, RUN@VERSION or a file) into the repository REPO (default: here).

    `agents` fills a marked block of AGENTS.md and touches nothing else in it; `skill` and `cursor` write files of
    their own.
    """
    files = _files(Excerpt(**chosen), what, repo, form)
    if form == "skill":
        files = tuple(File(f"{skills_dir.rstrip('/')}/{file.path}", file.text) for file in files)
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
        raise UsageError("Nobody is there to be asked.", hint="Give --yes to write, or --dry-run to look.")
    return click.confirm(f"Write {count} file{'s' if count > 1 else ''} in {repo}?", default=False)
