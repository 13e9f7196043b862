"""`combee swarm`: run agents in a shared world, ask them, look at what they did, and measure what is said of swarms."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from combee.cli.model_options import budget_options, model_options
from combee.cli.swarm_measure import measure_command
from combee.cli.swarm_world import running, starting
from combee.cli.words import counted
from combee.errors import LockedError, UsageError
from combee.runner import run_sync
from combee.swarm import USER, AgentRow, Mail, Swarm, World, edges, open_asks, totals, traces
from combee.swarm.config import SwarmFile, build, populate, put_task, read_swarm_file
from combee.swarm.context import load

__all__ = ["command"]

_FILE = "file"
_LOGGED = ("id", "kind", "sender", "recipient", "state", "thread", "tokens", "body")
_world_option = click.option(
    "--world", type=click.Path(path_type=Path), default="swarm.sqlite", show_default=True, help="The world's file."
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
_lines_option = click.option("--json", "as_json", is_flag=True, help="Print as JSON lines, one message a line.")


@click.group(name="swarm")
def command() -> None:
    """Run agents that live in a shared world, ask each other, and learn."""


async def _to_the_end(swarm: Swarm) -> int:
    """Handle messages until none is left, then close the connections in the loop that used them."""
    try:
        return await swarm.run()
    finally:
        await swarm.aclose()


async def _read_and_work(described: SwarmFile, swarm: Swarm) -> tuple[int | None, int]:
    """Let everyone read what is to be read first, then put the task; returns its number and the messages handled."""
    try:
        handled = await swarm.run()
        task = put_task(described, swarm)
        return task, handled + await swarm.run()
    finally:
        await swarm.aclose()


@command.command("run", short_help="Start the swarm of a file, or go on with it.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_json_option
def run_command(file: Path, as_json: bool) -> int:
    """Start the swarm that FILE describes, or go on with it, until no message is left."""
    described = read_swarm_file(file)
    with starting(described) as swarm:
        swarm.world.set_meta(_FILE, str(file.resolve()))
        populate(described, swarm)
        task, handled = run_sync(_read_and_work(described, swarm))
        found = swarm.answer(task) if task else None
        sums = totals(swarm.world)
    if as_json:
        answer = {"kind": found.kind, "body": found.body} if found else None
        click.echo(json.dumps({"handled": handled, "answer": answer, "totals": asdict(sums)}, ensure_ascii=False))
        return _code(found)
    if found is not None:
        click.echo(found.body)
    elif task is not None:
        click.echo("No answer yet: the task waits for something. See `combee swarm status`.")
    click.echo(
        f"{counted(handled, 'message')} handled, {sums.prompt:,} prompt and {sums.completion:,} reply tokens.", err=True
    )
    return _code(found)


def _code(found: Mail | None) -> int:
    """Return the exit code: a report says that there is no answer."""
    return 1 if found is not None and found.kind == "report" else 0


@command.command("learn", short_help="Let the swarm of a file learn from tasks, round by round.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--rounds", type=click.IntRange(1), help="Times all tasks are worked on. [what the file says, or 3]")
@click.option("--controls", is_flag=True, help="At the end, show the test tasks the playbook in other ways, or none.")
@click.option("--seed", type=int, help="Decides every shuffle. [0]")
@model_options
@budget_options
@click.option("--quiet", is_flag=True, help="No progress.")
@_json_option
def learn_command(file: Path, **options: Any) -> None:
    """Let the swarm of FILE work on its tasks, learn from what was done, and go on with the lessons; or go on with it.

    Without a model the lessons are mined from the runs; with --model it reflects on them. The run lies beside FILE,
    in learned/ (of swarm.toml; learned-NAME/ of NAME.toml): `combee report`, `versions` and `why` know it. Tasks held
    out are asked in a copy of the world. A limit that is reached ends the run, and what was learned is kept.
    Limits here count the model that reflects; [budget] in FILE counts the agents.
    """
    from combee.cli.swarm_learn import learn_in_rounds, parts_of
    from combee.cli.swarm_told import print_told

    described = read_swarm_file(file)
    parts = parts_of(described, options)  # what is wrong with them is said before anything is made
    with starting(described) as swarm:
        swarm.world.set_meta(_FILE, str(file.resolve()))
        populate(described, swarm)
        told = learn_in_rounds(parts, swarm, options)
    print_told(told, as_json=options["as_json"])


@command.command("init", short_help="Write an example of a swarm that learns into a folder.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--seed", type=int, default=0, show_default=True, help="Decides where the handbooks lie.")
@_json_option
def init_command(folder: Path, seed: int, as_json: bool) -> None:
    """Write a described swarm with documents and tasks into FOLDER: scripted agents, no model, seconds."""
    from combee.swarm.rehearsal import write_rehearsal

    path = write_rehearsal(folder, seed=seed)
    click.echo(json.dumps({"file": str(path)}) if as_json else f"next: combee swarm learn {path} --controls")


@command.command("ask", short_help="Ask an agent, as it is now, and print the answer.")
@click.argument("agent")
@click.argument("question")
@_world_option
@click.option("--subject", default="", help="Path that the question is about; AGENT may then be `any`.")
@_json_option
def ask_command(agent: str, question: str, world: Path, subject: str, as_json: bool) -> int:
    """Ask AGENT, as it is now, a QUESTION and print the answer."""
    number, found = _ask(world, "" if agent == "any" else agent, question, subject)
    if as_json:
        body = {"kind": found.kind, "from": found.sender, "body": found.body} if found else None
        click.echo(json.dumps({"answer": body, "queued": found is None, "question": number}, ensure_ascii=False))
    elif found is not None:
        click.echo(found.body)
    else:
        click.echo(
            f"The question is sent as number {number}. A process that runs this world takes it up while it works; what"
            f" it leaves, the next `combee swarm run FILE` does. Look with `combee swarm log --world {world}`."
        )
    return _code(found)


def _ask(world: Path, agent: str, question: str, subject: str) -> tuple[int, Mail | None]:
    described = _described(world)
    try:
        with running(described) as swarm:
            number = _send(swarm, agent, question, subject)
            run_sync(_to_the_end(swarm))
            return number, swarm.answer(number)
    except LockedError:  # another process runs the agents of this world: it will take the question up
        with World.open(world, create=False) as opened:
            swarm = build(described, opened)
            number = _send(swarm, agent, question, subject)
            opened.flush()
            return number, swarm.answer(number)


def _send(swarm: Swarm, agent: str, question: str, subject: str) -> int:
    # A key of its own: two of these commands may run at the same time.
    number = swarm.ask(USER, question, to=agent, subject=subject, key=f"{USER}/{secrets.token_hex(8)}")
    if not number:
        names = ", ".join(one.name for one in swarm.world.agents() if one.state == "live" and one.mode != "outside")
        raise UsageError(
            f"nobody was asked: {agent or subject or 'no one'} is not there", hint=f"Live: {names or 'none'}."
        )
    return number


def _described(path: Path) -> SwarmFile:
    with World.open(path, read_only=True) as world:
        file = world.meta(_FILE)
    if file is None or not Path(file).exists():
        raise UsageError(f"the file that describes {path} is gone", hint="Run `combee swarm run FILE` again.")
    described = read_swarm_file(Path(file))
    if described.world.resolve() != path.resolve():
        hint = f"Ask there, or run the file that belongs to {path}."
        raise UsageError(f"{file} describes another world, {described.world}", hint=hint)
    return described


@command.command("status", short_help="Show agents, windows, open questions and totals.")
@_world_option
@_json_option
def status_command(world: Path, as_json: bool) -> None:
    """Show the agents, their windows, what is open, and what it took."""
    with World.open(world, read_only=True) as opened:
        rows = [_row(opened, agent) for agent in opened.agents() if agent.mode != "outside"]
        sums = asdict(totals(opened))
        counts = [event.kind for event in opened.events()]
    kinds = {kind: counts.count(kind) for kind in sorted(set(counts))}
    if as_json:
        click.echo(json.dumps({"agents": rows, "totals": sums, "events": kinds}, ensure_ascii=False))
        return
    for row in rows:
        share = f"{row['used']:,}/{row['window']:,}"
        click.echo(f"{row['name']:<20} {row['role']:<12} {row['state']:<5} {share:>18} tokens  {row['open']} open asks")
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
@_world_option
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, help="Messages to show.")
@_lines_option
def log_command(world: Path, last: int, as_json: bool) -> None:
    """Show the messages, oldest first."""
    with World.open(world, read_only=True) as opened:
        sql = f"SELECT {', '.join(_LOGGED)} FROM mail ORDER BY id DESC LIMIT ?"  # noqa: S608 - our own columns
        rows = [dict(zip(_LOGGED, row, strict=True)) for row in reversed(opened.rows(sql, last))]
    for row in rows:
        if as_json:
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            about = f" (to {row['thread']})" if row["thread"] else ""
            who = f"{row['sender']} -> {row['recipient']}{about}"
            click.echo(f"{row['id']:>5} {row['kind']:<6} {who} [{row['state']}] {' '.join(row['body'].split())[:100]}")


@command.command("graph")
@_world_option
@click.option("--out", type=click.Path(path_type=Path), default="swarm.svg", show_default=True, help="File to write.")
@click.option("--most", type=click.IntRange(2), default=40, show_default=True, help="Agents drawn; the busiest.")
@_json_option
def graph_command(world: Path, out: Path, most: int, as_json: bool) -> None:
    """Draw who talked to whom, with the tokens on the edges."""
    from combee.cli.swarm_graph import graph

    with World.open(world, read_only=True) as opened:
        found = edges(opened)
    if not found:
        raise UsageError("nobody has talked to anybody yet", hint="Start with `combee swarm run FILE`.")
    graph(found, most=most).save(out)
    if as_json:
        click.echo(json.dumps({"svg": str(out), "edges": [asdict(edge) for edge in found]}, ensure_ascii=False))
    else:
        click.echo(f"{out}: {counted(len(found), 'edge')}")


@command.command("traces")
@_world_option
@click.option(
    "--out", type=click.Path(path_type=Path), default="traces.jsonl", show_default=True, help="File to write."
)
@_json_option
def traces_command(world: Path, out: Path, as_json: bool) -> None:
    """Write the agents' runs as traces, for `combee learn --from`."""
    from combee.files import write_whole
    from combee.trace import to_jsonl

    with World.open(world, read_only=True) as opened:
        lines = list(to_jsonl(traces(opened)))
    write_whole(out, "".join(lines))
    click.echo(
        json.dumps({"traces": len(lines), "file": str(out)}) if as_json else f"{out}: {counted(len(lines), 'trace')}"
    )


command.add_command(measure_command)
