"""Score what a team of agents did in a repository, from its state and git history."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import click

from combee.errors import UsageError
from combee.files import place_for, write_whole
from combee.redaction import to_jsonl
from combee.team.history import read_history
from combee.team.hooks import install_shim, install_trailer
from combee.team.joined import team_trace
from combee.team.score import WEIGHTS, Roles, TeamScore, roles_of, score_run
from combee.team.state import read_state
from combee.team.testing import check_by, check_commit
from combee.terminal.options import PathType

__all__ = ["command"]


@click.group(name="team")
def command() -> None:
    """Teams of ClawTeam's kind: sign their commits, note their tasks, score what they did."""


def _data_folder() -> Path:
    return Path(os.environ.get("CLAWTEAM_DATA_DIR", Path.home() / ".clawteam"))


_REPOSITORY = click.argument("repository", type=PathType(exists=True, file_okay=False))
_TEAM = click.option("--team", required=True, help="The team's name.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
_DATA = click.option(
    "--data",
    type=PathType(),
    help="ClawTeam's data folder.  [default: CLAWTEAM_DATA_DIR or ~/.clawteam]",
)


@command.command(name="hooks", short_help="Before a team starts: sign commits, note task moves.")
@_REPOSITORY
@_TEAM
@_DATA
@click.option("--shim", type=PathType(), help="Put a clawteam here that notes every task transition.")
@_JSON
def hooks(repository: Path, *, team: str, data: Path | None, shim: Path | None, as_json: bool) -> None:
    """Install the commit trailer into REPOSITORY, before the team starts; what it did earlier stays unsigned."""
    real = None if shim is None else _real_clawteam(shim)
    hook = install_trailer(repository)
    path = None if shim is None or real is None else install_shim(shim, real, data or _data_folder(), team)
    if as_json:
        click.echo(json.dumps({"hook": str(hook), "shim": None if path is None else str(path)}))
        return
    click.echo(f"commits are signed by {hook}")
    if path is not None:
        click.echo(f'transitions are noted by {path}\nnext: export PATH="{path.resolve().parent}:$PATH"')


def _real_clawteam(shim: Path) -> Path:
    real = shutil.which("clawteam")
    if real is None:
        raise UsageError("There is no clawteam in the PATH.", hint="Install it, or leave --shim out.")
    if Path(real).parent.resolve() == shim.resolve():
        raise UsageError("The clawteam in the PATH is the shim itself.", hint="Give another folder to --shim.")
    return Path(real)


@command.command(name="score", short_help="Score what a team did: tests, tasks, talk, division of labour.")
@_REPOSITORY
@_TEAM
@_DATA
@click.option(
    "--run-tests", is_flag=True, help="Run pytest on the last commit of the base branch: this executes its code."
)
@click.option("--test-command", help='Run this instead, like "npm test"; packages installed in REPOSITORY are there.')
@click.option("--junit", help="A JUnit file that the command writes, for each test's outcome; from the same folder.")
@click.option("--since", default="", help="The commit that the team started from.  [default: the first]")
@click.option("--dev", "devs", multiple=True, help="A developer; may be given again.  [the other members]")
@click.option("--qa", "testers", multiple=True, help="A tester; may be given again.  [members called qa, test, review]")
@click.option("--trace", "out", type=PathType(), help="Write the joined trace, for combee learn --from.")
@_JSON
def score(
    repository: Path,
    *,
    team: str,
    data: Path | None,
    run_tests: bool,
    test_command: str | None,
    junit: str | None,
    since: str,
    devs: tuple[str, ...],
    testers: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Score what a team did in REPOSITORY: tests, completion, coordination, collaboration on the branch checked out."""
    if not run_tests and test_command is None:
        hint = 'Add --run-tests for pytest, or --test-command "npm test"; it executes their code.'
        raise UsageError("The score needs the outcome of the tests.", hint=hint)
    if junit is not None and test_command is None:
        raise UsageError("--junit says what --test-command writes.", hint="Add --test-command.")
    if out is not None:
        place_for(out)
    state = read_state(data or _data_folder(), team)
    history = read_history(repository, team, state.lead, since=since)
    if test_command is None:
        outcomes = check_commit(repository, history.base)
    else:
        outcomes = check_by(repository, history.base, test_command, junit)
    tests = {name: not error for name, error in outcomes.items()}
    roles = Roles(devs, testers) if devs or testers else roles_of(state)
    found = score_run(state, history, tests, roles=roles)
    if out is not None:
        write_whole(out, "".join(to_jsonl([team_trace(state, history, found, tests)])))
    if as_json:
        told = {"total": found.total, "weights": WEIGHTS, "problems": list(state.problems), **asdict(found)}
        click.echo(json.dumps(told, ensure_ascii=False))
        return
    _print(found)
    for problem in state.problems:
        click.echo(f"not read: {problem}", err=True)


def _print(found: TeamScore) -> None:
    click.echo(f"total          {found.total:.2f}")
    for part, weight in WEIGHTS.items():
        click.echo(f"{part:<14} {getattr(found, part):.2f}  (weight {weight})")
    for reason in found.reasons:
        click.echo(f"- {reason}")
