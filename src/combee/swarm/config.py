"""A swarm described in a TOML file, made ready: its world, its model, its agents, documents and task.

[model]
kind = "endpoint"                 # without a model: lookup; or pydantic-ai, script
name = "deepseek-chat"
[documents]
folder = "docs"
[[agents]]
name = "ann"
reads = ["http.md"]
[task]
to = "ann"
question = "What is the retry limit?"

All keys stand in `combee.swarm.settings`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from combee.errors import UsageError
from combee.kernel.journal import hash_json
from combee.kernel.playbook import Playbook
from combee.kernel.playbook import load as load_playbook
from combee.swarm.agents import AgentModel
from combee.swarm.briefing import Lessons
from combee.swarm.command_agents import Command, CommandModel
from combee.swarm.context import Summarise
from combee.swarm.endpoint import budget_of, model_of
from combee.swarm.files import FILE, documents, own_world
from combee.swarm.knowledge import publish, set_readers
from combee.swarm.mail import join
from combee.swarm.repository import Repository
from combee.swarm.settings import SwarmSettings, read_swarm_settings
from combee.swarm.swarm import USER, Swarm
from combee.swarm.world import World

__all__ = ["SwarmFile", "build", "populate", "prepare", "put_task", "read_swarm_file"]


@dataclass(frozen=True, slots=True)
class SwarmFile:
    """A description that was read and checked; `file` is absolute, `world` is where its world lies."""

    file: Path
    settings: SwarmSettings
    world: Path

    @property
    def folder(self) -> Path:
        """Where its paths begin."""
        return self.file.parent

    @property
    def learned(self) -> Path:
        """Where it keeps its run when it learns: `learned` for swarm.toml, `learned-office` for office.toml."""
        name = self.file.name.removesuffix(".toml")
        return self.folder / ("learned" if name == "swarm" else f"learned-{name}")

    @property
    def playbook(self) -> Path | None:
        """Where the playbook lies that the agents go by; of a swarm that learns, what it learned last."""
        if self.settings.playbook is not None:
            return self.folder / self.settings.playbook
        learned = self.learned / "playbook.json"
        return learned if self.settings.tasks.source is not None and learned.exists() else None

    def lessons(self, book: Playbook) -> Lessons:
        """Return a playbook with the room that the file gives it."""
        return Lessons(book, self.settings.learn.view_tokens or self.settings.playbook_tokens)


def read_swarm_file(path: Path) -> SwarmFile:
    """Read and check a description.

    Raises:
        UsageError: It cannot be read, or says something that is not understood.
    """
    settings, file = read_swarm_settings(path), path.resolve()
    return SwarmFile(file, settings, own_world(file) if settings.world is None else file.parent / settings.world)


def prepare(described: SwarmFile) -> Callable[[World], Swarm]:
    """Return what makes the swarm of a description on an open world. Nothing is written, and nothing is sent yet.

    Raises:
        UsageError: The model, the playbook or the repository cannot be used.
    """
    settings = described.settings
    model, summarise = model_of(settings, _instructions(settings))
    smallest = min(agent.window for agent in settings.agents)
    repository = Repository.at(described.folder / settings.repository) if settings.repository is not None else None
    lessons = described.lessons(load_playbook(described.playbook)) if described.playbook else None
    options = {"reserve": smallest // 8, **settings.options.given()}
    programs, budget = _programs(described), budget_of(settings)

    def on(world: World) -> Swarm:
        decides: AgentModel = CommandModel(world, programs, _instructions(settings), budget)
        by_role = {agent.role: decides for agent in settings.agents if agent.kind == "command"}
        return Swarm(
            world, {"": model, **by_role}, compactions={"": Summarise(summarise, smallest // 8)}, repository=repository,
            lessons=lessons, **options,
        )  # fmt: skip

    return on


def _programs(described: SwarmFile) -> dict[str, Command]:
    """Return the programs by the agents that they are.

    Raises:
        UsageError: One is not there, or has no folder to work in.
    """
    found = {}
    for agent in described.settings.agents:
        if agent.kind == "command":
            folder, program = described.folder / agent.folder, agent.command[0]
            if not folder.is_dir():
                raise UsageError(f"{agent.name} works in {folder}, which is no folder", hint="Make it first.")
            if shutil.which(str(folder / program) if Path(program).name != program else program) is None:
                hint = f"{described.file.name} names it as the program of {agent.name}: install it, or give its path."
                raise UsageError(f"there is no program {program!r}", hint=hint)
            found[agent.name] = Command(tuple(agent.command), tuple(agent.resume), folder, agent.timeout)
    return found


def build(described: SwarmFile, world: World) -> Swarm:
    """Return the swarm of a description on an open world; raises as `prepare`."""
    return prepare(described)(world)


def _instructions(settings: SwarmSettings) -> dict[str, str]:
    """Return the system prompts by role: what those of its agents say."""
    texts: dict[str, str] = {}
    for agent in settings.agents:
        parts = (texts.get(agent.role, ""), agent.instructions)
        texts[agent.role] = "\n".join(dict.fromkeys(part for part in parts if part))
    return texts


def populate(described: SwarmFile, swarm: Swarm) -> None:
    """Make the agents, publish the documents, and send what is to be read; once, however often it is called."""
    world = swarm.world
    with world.step():
        world.set_meta(FILE, str(described.file))
        for path, text in documents(described):
            # What agents made of a document since then is newer than the file.
            sql = "SELECT body FROM artefacts WHERE path = ? AND author = ? ORDER BY version DESC LIMIT 1"
            if world.one(sql, path, USER) != (text,):
                publish(world, path, text, USER)
        for agent in described.settings.agents:
            mode = "serial" if agent.kind == "command" and agent.mode == "fork" else agent.mode
            world.spawn(agent.name, role=agent.role, mode=mode, returns=agent.returns, window=agent.window)
            for path in agent.reads:
                swarm.tell(agent.name, path, key=f"read/{agent.name}/{path}")
        set_readers(world, {rule.glob: rule.agents for rule in described.settings.readers})
        for channel in described.settings.channels:
            for member in channel.members:
                join(world, channel.name, member)


def put_task(described: SwarmFile, swarm: Swarm) -> int | None:
    """Send the task, once; returns its number, None where there is none. What agents read first should be read.

    A task that was changed in the file is another one.
    """
    task = described.settings.task
    if task is None:
        return None
    key = f"task/{hash_json(task.given())[:16]}"
    sent = swarm.put(USER, task.question, to=task.to, subject=task.subject, key=key)
    if not sent.id:
        hint = "Ask less at once, or give the agent a larger window; `combee swarm revive` mends one that is dead."
        raise UsageError(f"nobody can take the task: {sent.refused}", hint=hint)
    return sent.id
