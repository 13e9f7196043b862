"""`combee swarm`: run agents that live in a shared world, ask them, watch them at work, and let them learn.

Who works (`run`, `ask`, `learn`, `revive`, `retry`) holds the world's lock; who looks changes nothing.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from combee.errors import BudgetError, LockedError, UsageError, did_you_mean
from combee.kernel.runner import run_sync
from combee.report.html import join
from combee.report.live import HEAD, page_server
from combee.run.words import counted, typed
from combee.swarm import USER, Swarm, World, edges, totals, traces
from combee.swarm.briefing import one_line, printable, spelled
from combee.swarm.commands_mcp import mcp_command, token_command
from combee.swarm.config import SwarmFile, build, populate, put_task, read_swarm_file
from combee.swarm.context import load
from combee.swarm.guests import sweep
from combee.swarm.knowledge import subjects
from combee.swarm.mail import Mail, open_asks
from combee.swarm.opening import (
    described_by,
    how_to_start,
    looking_at,
    running,
    shown,
    starting,
    the_world,
    world_option,
    world_options,
)
from combee.swarm.state import retry, revive
from combee.swarm.watching import head_of, look, page_of, screen_of
from combee.swarm.world import PERSON, AgentRow
from combee.terminal.options import NumberType, PathType, budget_options, json_option, model_options, print_json

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
        print_json({"agents": rows, "totals": sums, "events": kinds})
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
            print_json(row)
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
        print_json({"svg": str(out), "edges": [asdict(edge) for edge in found]})
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


command.add_command(mcp_command)
command.add_command(token_command)


ANY = "any"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What came of a question; `limit` says which limit ended the work, `waits` why messages wait for a model."""

    number: int | None
    found: Mail | None
    limit: str = ""
    waits: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """The exit code. A report says that there is no answer; a limit is the user's own, and ends no run wrongly."""
        return 1 if self.waits or (self.found is not None and self.found.kind == "report") else 0

    def to_json(self) -> dict[str, object]:
        """Return it for a program."""
        found = self.found
        answer = {"kind": found.kind, "from": found.sender, "body": found.body} if found is not None else None
        reason = "budget" if self.limit else "outage" if self.waits else "completed"
        detail = self.limit or next(iter(self.waits), "")
        return {
            "question": self.number, "answer": answer, "reason": reason, "detail": detail, "waiting": len(self.waits),
        }  # fmt: skip


async def _work(described: SwarmFile, swarm: Swarm, question: int | None) -> _Asked:
    """Handle messages until none is left or a limit is used up; without a question the file's task is put in between.

    Connections are closed in the loop that used them.
    """
    limit = ""
    with swarm.world.step():
        sweep(swarm)
    try:
        await swarm.run()  # what is to be read first
        if question is None:
            question = put_task(described, swarm)
            await swarm.run()
    except BudgetError as error:
        limit = error.message
    finally:
        await swarm.aclose()
    waits = tuple(one.why for one in swarm.waiting.values())
    return _Asked(question, swarm.answer(question) if question else None, limit, waits)


@command.command("run", short_help="Start the swarm of a file, or go on with it.")
@click.argument("file", type=PathType(exists=True, dir_okay=False))
@json_option
def run_command(file: Path, as_json: bool) -> int:
    """Start the swarm that FILE describes, or go on with it, until no message is left or a limit is used up.

    The exit code is 1 where the answer is a report that there is none; a limit of [budget] that is used up is no error.
    """
    described = read_swarm_file(file)
    with starting(described) as swarm:
        populate(described, swarm)
        before = _handled(swarm.world)
        asked = run_sync(_work(described, swarm, None))
        handled, sums = _handled(swarm.world) - before, totals(swarm.world)
    if as_json:
        print_json({"handled": handled, **asked.to_json(), "totals": asdict(sums)})
        return asked.code
    if asked.found is not None:
        click.echo(printable(asked.found.body))
    elif asked.limit:
        click.echo(f"No answer yet: {asked.limit}. To go on: `{typed('swarm', 'run', file)}`.")
    elif asked.number is not None and not asked.waits:
        status = typed("swarm", "status", "--world", shown(described.world))
        click.echo(f"No answer yet: the task waits for something. See `{status}`.")
    if asked.limit and asked.found is not None:
        click.echo(f"budget: {asked.limit}", err=True)
    _say_what_waits(asked, described)
    click.echo(
        f"{counted(handled, 'message')} handled, {sums.prompt:,} prompt and {sums.completion:,} reply tokens.", err=True
    )
    return asked.code


def _say_what_waits(asked: _Asked, described: SwarmFile) -> None:
    if asked.waits:
        waiting, again = counted(len(asked.waits), "message"), typed("swarm", "run", shown(described.file))
        click.echo(f"No model could be had for {waiting}: {asked.waits[0]} To do it then: `{again}`.", err=True)


def _handled(world: World) -> int:
    return int(world.value("SELECT count(*) FROM mail WHERE state IN ('done', 'bounced')"))


@command.command("ask", short_help="Ask an agent, as it is now, and print the answer.")
@click.argument("agent")
@click.argument("question")
@world_option
@click.option("--subject", default="", help="Path that the question is about.")
@json_option
def ask_command(agent: str, question: str, world: Path | None, subject: str, as_json: bool) -> int:
    """Ask AGENT, as it is now, a QUESTION and print the answer. `any` asks the one that knows the --subject best."""
    place = the_world(world)
    described = described_by(place)
    asked = _ask(described, place, agent, question, subject)
    if as_json:
        print_json({**asked.to_json(), "queued": asked.found is None})
    elif asked.found is not None:
        click.echo(printable(asked.found.body))
    else:
        more, log = typed("swarm", "run", shown(described.file)), typed("swarm", "log", "--world", place)
        late = "No answer yet." if asked.waits else "A process that runs this world takes it up."
        why = f"No answer yet: {asked.limit}." if asked.limit else late
        click.echo(f"The question is sent as number {asked.number}. {why} What is left, `{more}` does; see `{log}`.")
    _say_what_waits(asked, described)
    return asked.code


def _ask(described: SwarmFile, place: Path, agent: str, question: str, subject: str) -> _Asked:
    try:
        with running(described) as swarm:
            number = _send(swarm, place, agent, question, subject)
            return run_sync(_work(described, swarm, number))
    except LockedError:  # another process runs the agents of this world: it will take the question up
        with World.open(place, create=False) as opened:
            swarm = build(described, opened)
            number = _send(swarm, place, agent, question, subject)
            opened.flush()
            return _Asked(number, swarm.answer(number))


def _send(swarm: Swarm, place: Path, agent: str, question: str, subject: str) -> int:
    if not question.strip():
        raise UsageError("the question says nothing", hint="Give it as one argument, in quotes.")
    states = {one.name: one.state for one in swarm.world.agents() if one.mode != "outside"}
    anyone = agent == ANY and ANY not in states
    live = [name for name, state in states.items() if state != "dead"]
    if not anyone and agent not in states:
        raise UsageError(f"there is no agent {agent!r}", hint=did_you_mean(agent, live))
    if subject or not anyone:
        # A key of its own: two of these commands may run at the same time.
        key = f"{USER}/{secrets.token_hex(8)}"
        sent = swarm.put(USER, question, to="" if anyone else agent, subject=subject, key=key)
        if sent.id:
            return sent.id
        if "too long" in sent.refused:
            raise UsageError(f"the question cannot be asked: {sent.refused}", hint="Ask less at once.")
    if not anyone:
        raise UsageError(f"{agent} is dead, and nobody else can answer", hint=f"Live: {', '.join(live) or 'none'}.")
    known = subjects(swarm.world)
    if not known:
        raise UsageError("nobody has read anything yet", hint=f"Ask one by name: {', '.join(live) or 'none is there'}.")
    if subject:
        raise UsageError(f"nobody has read {subject!r}", hint=did_you_mean(subject, known))
    example = typed("swarm", "ask", ANY, question, "--subject", known[0], "--world", place)
    raise UsageError(f"`{ANY}` asks who knows a subject best, and no subject is named", hint=f"Name it: `{example}`.")


@command.command("revive", short_help="Give an agent that is full or dead an empty context.")
@click.argument("agent")
@world_option
@json_option
def revive_command(agent: str, world: Path | None, as_json: bool) -> None:
    """Give AGENT, which is full or dead, a new and empty context; it reads again what its file says.

    What it wrote, and what others know, stays. Questions that it had not read yet go to the new one.
    """
    described = described_by(the_world(world))
    with running(described) as swarm:
        known = {one.name: one for one in swarm.world.agents() if one.mode != "outside"}
        if agent not in known:
            raise UsageError(f"there is no agent {agent!r}", hint=did_you_mean(agent, known))
        reads = next((one.reads for one in described.settings.agents if one.name == agent), [])
        number = revive(swarm, agent, reads)
    more = typed("swarm", "run", shown(described.file))
    said = {"agent": agent, "incarnation": number}
    click.echo(json.dumps(said) if as_json else f"{agent} begins anew, for the {number}. time. Go on: `{more}`.")


@command.command("retry", short_help="Ask again what was only reported.")
@world_option
@json_option
def retry_command(world: Path | None, as_json: bool) -> None:
    """Ask again every question of yours that ended in a report, and let agents read again what they failed to read."""
    described = described_by(the_world(world))
    with running(described) as swarm:
        asked, read = retry(swarm)
    more = typed("swarm", "run", shown(described.file))
    said = f"{counted(asked, 'question')} and {counted(read, 'message')} are tried again. To do that: `{more}`."
    click.echo(json.dumps({"questions": asked, "messages": read}) if as_json else said)


@command.command("watch", short_help="Watch the agents of a world at work.")
@world_options
@click.option("--web", is_flag=True, help="Serve a page on this machine instead of the terminal.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="any", help="Where, with --web.")
@click.option("--every", type=NumberType(0.2), default=1.0, show_default=True, help="Seconds between two looks.")
def watch_command(world: Path | None, web: bool, port: int, every: float) -> None:
    """Watch a world: who is there and how full, who asks whom, issues, leases, messages and cost; Ctrl-C ends it.

    Where the output is no terminal, it is shown once.
    """
    place = the_world(world)
    if port and not web:
        raise UsageError("--port is for the page", hint="Add --web.")
    with World.open(place, read_only=True) as opened:
        opened.check()
    if web:
        with page_server(partial(_shown, place), port) as server:
            click.echo(f"http://127.0.0.1:{server.server_address[1]}  Ctrl-C ends it", err=True)
            server.serve_forever()
    else:
        _in_terminal(place, every)


def _shown(place: Path, head: bool) -> tuple[str, bool]:
    with World.open(place, read_only=True) as world:
        sight = look(world)
    return join(head_of(sight)) if head else page_of(sight, live=HEAD), False


def _in_terminal(place: Path, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with World.open(place, read_only=True) as world:
        if not console.is_terminal:
            console.print(screen_of(look(world)))
            return
        with Live(screen_of(look(world)), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(screen_of(look(world), most=max(3, console.height // 4)), refresh=True)
