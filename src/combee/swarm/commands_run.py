"""`combee swarm run` and `ask`: work until no message is left or a limit is used up, and print the answer."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from combee.errors import BudgetError, LockedError, UsageError, did_you_mean
from combee.kernel.runner import run_sync
from combee.run.words import counted, typed
from combee.swarm import USER, Swarm, World, totals
from combee.swarm.briefing import printable
from combee.swarm.config import SwarmFile, build, populate, put_task, read_swarm_file
from combee.swarm.guests import sweep
from combee.swarm.knowledge import subjects
from combee.swarm.mail import Mail
from combee.swarm.opening import described_by, running, shown, starting, the_world, world_option
from combee.swarm.state import retry, revive
from combee.terminal.options import PathType

__all__ = ["ask_command", "json_option", "retry_command", "revive_command", "run_command"]

ANY = "any"
json_option = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


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


@click.command("run", short_help="Start the swarm of a file, or go on with it.")
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
        click.echo(json.dumps({"handled": handled, **asked.to_json(), "totals": asdict(sums)}, ensure_ascii=False))
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


@click.command("ask", short_help="Ask an agent, as it is now, and print the answer.")
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
        click.echo(json.dumps({**asked.to_json(), "queued": asked.found is None}, ensure_ascii=False))
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


@click.command("revive", short_help="Give an agent that is full or dead an empty context.")
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


@click.command("retry", short_help="Ask again what was only reported.")
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
