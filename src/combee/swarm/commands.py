"""Run agents that live in a shared world, ask each other, and learn."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from combee.errors import UsageError
from combee.run.words import counted, typed
from combee.swarm import World, edges, totals, traces
from combee.swarm.briefing import one_line, spelled
from combee.swarm.commands_mcp import mcp_command, token_command
from combee.swarm.commands_run import ask_command, json_option, retry_command, revive_command, run_command
from combee.swarm.commands_watch import watch_command
from combee.swarm.config import populate, read_swarm_file
from combee.swarm.context import load
from combee.swarm.mail import open_asks
from combee.swarm.opening import how_to_start, looking_at, starting, world_options
from combee.swarm.world import PERSON, AgentRow
from combee.terminal.options import PathType, budget_options, model_options

__all__ = ["command"]

_LOGGED = ("id", "kind", "sender", "recipient", "state", "thread", "tokens", "body")
_lines_option = click.option("--json", "as_json", is_flag=True, help="Print as JSON lines, one message a line.")


@click.group(name="swarm")
def command() -> None:
    """Run agents that live in a shared world, ask each other, and learn."""


@command.command("learn", short_help="Let the swarm of a file learn from tasks, round by round.")
@click.argument("file", type=PathType(exists=True, dir_okay=False))
@click.option(
    "--epochs", "--rounds", type=click.IntRange(1), help="Times all tasks are worked on. [what the file says, or 3]"
)
@click.option("--controls", is_flag=True, help="At the end, show the test tasks the playbook in other ways, or none.")
@click.option("--seed", type=int, help="Decides the rows drawn or cut, groups of reflections, and every shuffle. [0]")
@model_options
@budget_options
@click.option("--quiet", is_flag=True, help="No progress.")
@json_option
def learn_command(file: Path, **options: Any) -> None:
    """Let the swarm of FILE work on its tasks, learn from what was done, and go on with the lessons; or go on with it.

    Without a model the lessons are mined from the runs; with --model it reflects on them. The run lies beside FILE,
    in learned/ (of swarm.toml; learned-NAME/ of NAME.toml): `combee report`, `versions` and `why` know it. Tasks held
    out are asked in a copy of the world. A limit that is reached ends the run, and what was learned is kept.
    Limits here count the model that reflects; [budget] in FILE counts the agents.
    """
    from combee.swarm.commands_learn import learn_in_rounds, parts_of, print_learned

    described = read_swarm_file(file)
    parts = parts_of(described, options)  # what is wrong with them is said before anything is made
    with starting(described) as swarm:
        populate(described, swarm)
        learned = learn_in_rounds(parts, swarm, options)
    print_learned(learned, as_json=options["as_json"])


@command.command("init", short_help="Write an example of a swarm that learns into a folder.")
@click.argument("folder", type=PathType())
@click.option("--seed", type=int, default=0, show_default=True, help="Decides where the handbooks lie.")
@json_option
def init_command(folder: Path, seed: int, as_json: bool) -> None:
    """Write a described swarm with documents and tasks into FOLDER: scripted agents, no model, seconds."""
    from combee.swarm.example import write_rehearsal

    path = write_rehearsal(folder, seed=seed)
    following = f"next: {typed('swarm', 'learn', path, '--controls')}"
    click.echo(json.dumps({"file": str(path)}) if as_json else following)


@command.command("schema", short_help="Print the JSON schema of a swarm's file, for editors.")
def schema_command() -> None:
    """Print the JSON schema of a swarm's file: every key with its type, range, default and meaning."""
    from combee.swarm.settings import SwarmSettings

    click.echo(json.dumps(SwarmSettings.model_json_schema(), indent=1))


@command.command("status", short_help="Show agents, windows, open questions and totals.")
@world_options
@json_option
def status_command(world: Path | None, as_json: bool) -> None:
    """Show the agents, their windows, what is open, and what it took."""
    with looking_at(world) as opened:
        rows = [_row(opened, agent) for agent in opened.agents() if agent.role != PERSON]
        sums = asdict(totals(opened))
        counts = [event.kind for event in opened.events()]
    kinds = {kind: counts.count(kind) for kind in sorted(set(counts))}
    if as_json:
        click.echo(json.dumps({"agents": rows, "totals": sums, "events": kinds}, ensure_ascii=False))
        return
    for row in rows:
        role = one_line(row["role"])
        share = "from outside" if row["mode"] == "outside" else f"{row['used']:,}/{row['window']:,} tokens"
        click.echo(f"{row['name']:<20} {role:<12} {row['state']:<5} {share:>25}  {row['open']} open asks")
    click.echo("  ".join(f"{key} {value:,}" for key, value in sums.items()))
    if kinds:
        click.echo("  ".join(f"{kind} {number}" for kind, number in kinds.items()))


def _row(world: World, agent: AgentRow) -> dict[str, Any]:
    return {
        "name": agent.name, "role": agent.role, "state": agent.state, "mode": agent.mode,
        "incarnation": agent.incarnation, "used": load(world, agent).used, "window": agent.window,
        "open": len(open_asks(world, agent.name)),
    }  # fmt: skip


@command.command("log")
@world_options
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, help="Messages to show.")
@_lines_option
def log_command(world: Path | None, last: int, as_json: bool) -> None:
    """Show the messages, oldest first."""
    with looking_at(world) as opened:
        sql = f"SELECT {', '.join(_LOGGED)} FROM mail ORDER BY id DESC LIMIT ?"  # noqa: S608 - our own columns
        rows = [dict(zip(_LOGGED, row, strict=True)) for row in reversed(opened.rows(sql, last))]
    for row in rows:
        if as_json:
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            about = f" (to {row['thread']})" if row["thread"] else ""
            who = f"{row['sender']} -> {row['recipient']}{about}"
            said = spelled(" ".join(row["body"].split())[:100])
            click.echo(f"{row['id']:>5} {row['kind']:<6} {who} [{row['state']}] {said}")


@command.command("graph")
@world_options
@click.option("--out", type=PathType(), default="swarm.svg", show_default=True, help="File to write.")
@click.option("--most", type=click.IntRange(2), default=40, show_default=True, help="Agents drawn; the busiest.")
@json_option
def graph_command(world: Path | None, out: Path, most: int, as_json: bool) -> None:
    """Draw who talked to whom, with the tokens on the edges."""
    from combee.report.network import network

    with looking_at(world) as opened:
        found, names = edges(opened), [agent.name for agent in opened.agents() if agent.role != PERSON]
        place = opened.path
    if not found:
        ask = typed("swarm", "ask", names[0], "What do you know?", "--world", place) if names else ""
        hint = f"Ask someone: `{ask}`." if ask else how_to_start()
        raise UsageError("nobody has talked to anybody yet", hint=hint)
    drawn = [(one.sender, one.recipient, one.prompt + one.completion + one.carried) for one in found]
    network(drawn, most=most).save(out)
    if as_json:
        click.echo(json.dumps({"svg": str(out), "edges": [asdict(edge) for edge in found]}, ensure_ascii=False))
    else:
        click.echo(f"{out}: {counted(len(found), 'edge')}")


@command.command("traces")
@world_options
@click.option("--out", type=PathType(), default="traces.jsonl", show_default=True, help="File to write.")
@json_option
def traces_command(world: Path | None, out: Path, as_json: bool) -> None:
    """Write the agents' runs as traces, for `combee learn --from`; secrets are taken out, as there."""
    from combee.files import write_whole
    from combee.redaction import redact_trace, to_jsonl

    with looking_at(world) as opened:
        lines = list(to_jsonl(redact_trace(trace)[0] for trace in traces(opened)))
    write_whole(out, "".join(lines))
    click.echo(
        json.dumps({"traces": len(lines), "file": str(out)}) if as_json else f"{out}: {counted(len(lines), 'trace')}"
    )


@command.command("measure", hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1)
def measure_command(words: tuple[str, ...]) -> None:
    """Say where the experiments are that were run by this command."""
    raise UsageError(
        "the claims about swarms are no longer measured by a command; docs/evidence/swarm.md has the results",
        hint=f"To measure them again, in a clone of the project: python -m benchmarks.swarm_lab {' '.join(words)}",
    )


for _each in (run_command, ask_command, revive_command, retry_command, mcp_command, token_command, watch_command):
    command.add_command(_each)
