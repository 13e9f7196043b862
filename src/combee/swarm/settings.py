"""What a swarm's file may say, in the words of combee.toml where both say it: tables, keys, ranges, who must be there.

Everything that can be told without looking at the disk; what lies there is looked at in `combee.swarm.config`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

from pydantic import AfterValidator, BeforeValidator, Field, Strict
from pydantic_core import PydanticCustomError

from combee.errors import DataError, UsageError, did_you_mean
from combee.model.prices import parse_price
from combee.run.settings_sources import Layer, Place, checked, read_layer
from combee.run.settings_tables import (
    Count,
    LimitsTable,
    PriceTable,
    SettingsTable,
    TaskFileTable,
    Text,
    Words,
    as_whole,
    model_table,
    table_of,
)
from combee.swarm.state import USER, SwarmLimits

__all__ = ["OUTPUT", "SwarmAgentTable", "SwarmSettings", "read_swarm_settings"]

WINDOW, OUTPUT = 100_000, 2048


def _short_names(text: str) -> str:
    if any(len(os.fsencode(part)) > 255 for part in Path(text).parts):
        said = {"said": f"{text[:40]!r}... is no place.", "hint": "No file can have so long a name."}
        raise PydanticCustomError("refused", "{said}", said)
    return text


PlaceName = Annotated[Text, AfterValidator(_short_names)]
# SQLite counts to 2**63; this leaves room to add.
Size = Annotated[int, Strict(), Field(ge=1, le=10**15), BeforeValidator(as_whole)]


class SwarmAgentTable(SettingsTable):
    """One agent."""

    name: Text
    """What others call it; without ~."""
    role: Words = "peer"
    """Agents of one role share instructions."""
    mode: Literal["fork", "serial", "once"] = "fork"
    """How it answers: copies of it at the same time, itself one after the other (as programs do), or a new one each
    time."""
    kind: Literal["model", "command"] = "model"
    """What decides for it: the model of this file, or a program."""
    command: list[Text] = Field(default_factory=list)
    """The program, word by word; {prompt} stands for the prompt, which else is given on stdin."""
    resume: list[Text] = Field(default_factory=list)
    """How the program goes on with a {session} that it named; it then gets only what is new."""
    folder: PlaceName = "."
    """Where the program works, from the folder of this file."""
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    """Seconds until the program is killed."""
    returns: Literal["none", "digest", "full"] = "digest"
    """What a copy's work brings back to it."""
    window: Size = WINDOW
    """Tokens of its context."""
    instructions: Words = ""
    """What it is told at the start."""
    reads: list[Text] = Field(default_factory=list)
    """Documents that it reads before it is asked anything."""


class ChannelTable(SettingsTable):
    """A channel that several agents read."""

    name: Text
    """What it is called."""
    members: list[Text] = Field(default_factory=list)
    """Names of agents."""


class ReadersTable(SettingsTable):
    """Documents that not everyone reads."""

    glob: Text
    """Which of them, like plans/*."""
    agents: Annotated[list[Text], Field(min_length=1)]
    """Names or roles of those who read them."""


class DocumentsTable(SettingsTable):
    """Text files to publish."""

    folder: PlaceName = "."
    """Where they lie, from the folder of this file."""
    glob: PlaceName = "**/*"
    """Which of them."""


class QuestionTable(SettingsTable):
    """What is asked when the swarm runs."""

    to: Words = ""
    """Name of the agent who is asked."""
    question: Text
    """The question."""
    subject: Words = ""
    """Path that it is about."""


class SwarmTasksTable(TaskFileTable):
    """The tasks that the swarm learns from, as in combee.toml."""

    source: PlaceName | None = None
    """A .jsonl or .csv file, or a folder with train, val and test files, from the folder of this file."""


class SwarmLearnTable(SettingsTable):
    """How `combee swarm learn` learns; what is not here is taken from [learn] of combee.toml."""

    to: Text | None = None
    """Who is asked; a question that begins with @name goes to that agent."""
    view_tokens: Size | None = None
    """Tokens of the playbook that go along with each question. [playbook_tokens]"""
    epochs: Count = 3
    """Rounds: how often all tasks are put."""
    batch: Count | None = None
    """Tasks between two versions of the playbook. [all of them]"""


if TYPE_CHECKING:

    class SwarmModelTable(SettingsTable):
        """The model of the agents."""

    class OptionsTable(SettingsTable):
        """The fields of `SwarmLimits`."""

else:
    SwarmModelTable = model_table(
        "SwarmModelTable",
        "The model behind the agents.",
        kind=(
            Literal["lookup", "endpoint", "pydantic-ai", "script"],
            Field(
                "lookup", description="lookup: no model. endpoint: Combee's client. script: name is module:function."
            ),
        ),
        max_output_tokens=(Count, OUTPUT),
    )
    OptionsTable = table_of("OptionsTable", SwarmLimits, "What agents may take.")


class SwarmSettings(SettingsTable):
    """A swarm: its model, agents, documents, playbook and task."""

    world: PlaceName | None = None
    """Database of the swarm, beside this file. [called like this file: of office.toml office.sqlite]"""
    repository: PlaceName | None = None
    """A git repository, which is there already: documents are its files."""
    playbook: PlaceName | None = None
    """With each question its part for the one who is asked goes along."""
    playbook_tokens: Size = 2000
    """At most so many of them."""
    model: SwarmModelTable = SwarmModelTable()
    """The model behind the agents."""
    budget: LimitsTable = LimitsTable()
    """What one process may spend; else 10 dollars where the price is known, 10,000 calls, 50 million tokens."""
    prices: dict[str, PriceTable] = Field(default_factory=dict)
    """Prices of models that no list knows, in US dollars per million tokens."""
    documents: DocumentsTable | None = None
    """Text files to publish."""
    agents: Annotated[list[SwarmAgentTable], Field(min_length=1)]
    """The agents, as [[agents]]."""
    channels: list[ChannelTable] = Field(default_factory=list)
    """Channels, as [[channels]]."""
    readers: list[ReadersTable] = Field(default_factory=list)
    """Documents that not everyone reads, as [[readers]]."""
    task: QuestionTable | None = None
    """What is asked when the swarm runs."""
    tasks: SwarmTasksTable = SwarmTasksTable()
    """What it learns from."""
    learn: SwarmLearnTable = SwarmLearnTable()
    """How it learns."""
    options: OptionsTable = OptionsTable()
    """What agents may take."""


def read_swarm_settings(path: Path) -> SwarmSettings:
    """Read a description; also with the words of older versions.

    Raises:
        UsageError: It says something that is not understood; the message names file, line and key.
    """
    layer = _today(read_layer(path))
    found = checked(SwarmSettings, [layer])
    names: list[str] = []
    for number, agent in enumerate(found.agents):
        if agent.name == USER or "~" in agent.name:
            hint = f"Choose a name without ~, not {USER!r}."
            _refuse(layer, ("agents", number, "name"), f"no agent can be called {agent.name!r}", hint)
        _check_command(layer, number, agent, found)
        if agent.name in names:
            _refuse(layer, ("agents", number, "name"), f"there are several agents {agent.name!r}", "Name each anew.")
        names.append(agent.name)
    if found.task is not None:
        _there(layer, ("task", "to"), found.task.to, names, "the task goes to")
    for number, channel in enumerate(found.channels):
        for member in channel.members:
            what = f"the channel {channel.name!r} has the member"
            _there(layer, ("channels", number, "members"), member, names, what)
    for number, rule in enumerate(found.readers):
        for reader in rule.agents:
            known = [*names, *(agent.role for agent in found.agents)]
            _there(layer, ("readers", number, "agents"), reader, known, f"{rule.glob!r} is read by")
    if found.learn.to is not None:
        _there(layer, ("learn", "to"), found.learn.to, names, "the tasks go to")
    if "learn" in layer.tables and found.tasks.source is None:
        _refuse(layer, ("learn",), "[learn] has no tasks to learn from", 'Add [tasks] with source = "tasks.jsonl".')
    return found


def _check_command(layer: Layer, number: int, agent: SwarmAgentTable, found: SwarmSettings) -> None:
    """Refuse what does not fit together in an agent that is a program."""
    given = agent.model_fields_set
    if agent.kind == "model":
        for key in ("command", "resume", "folder", "timeout"):
            if key in given:
                _refuse(layer, ("agents", number, key), f"{agent.name} is no program", 'Add kind = "command".')
        return
    if not agent.command:
        hint = 'Like command = ["claude", "-p", "--output-format", "json"].'
        _refuse(layer, ("agents", number, "kind"), f"{agent.name} has no command", hint)
    if agent.resume and not any("{session}" in word for word in agent.resume):
        hint = 'Like resume = ["claude", "-p", "--resume", "{session}", "--output-format", "json"].'
        _refuse(layer, ("agents", number, "resume"), "nothing in it stands for the session", hint)
    if agent.mode == "fork" and "mode" in given:
        hint = 'A program has no copies: leave mode out, or write "serial" or "once".'
        _refuse(layer, ("agents", number, "mode"), f"{agent.name} is a program", hint)
    others = [one.name for one in found.agents if one.role == agent.role and one.kind == "model"]
    if others:
        hint = "Give the program a role of its own."
        said = f"{agent.name}, a program, and {others[0]} have one role"
        _refuse(layer, ("agents", number, "role" if "role" in given else "name"), said, hint)


def _refuse(layer: Layer, place: Place, said: str, hint: str) -> NoReturn:
    origin, line = layer.where(place)
    raise DataError(said, path=origin, line=line, hint=hint)


def _there(layer: Layer, place: Place, name: str, names: Iterable[str], what: str) -> None:
    if name not in names:
        _refuse(layer, place, f"{what} {name!r}, who is not described", did_you_mean(name, names))


_OLD: Mapping[tuple[str, str], tuple[str, str]] = {
    ("model", "max_tokens"): ("model", "max_output_tokens"),
    ("learn", "rounds"): ("learn", "epochs"),
    ("learn", "tasks"): ("tasks", "source"),
    **{("learn", key): ("tasks", key) for key in ("scorer", "question", "answer", "id")},
}
"""Keys of older versions, and where they are today."""


def _today(layer: Layer) -> Layer:
    """Return a description in today's words."""
    tables = {name: dict(table) if isinstance(table, dict) else table for name, table in layer.tables.items()}
    moved: dict[Place, Place] = {}
    for (table, key), (new_table, new_key) in _OLD.items():
        old = tables.get(table)
        if isinstance(old, dict) and key in old and isinstance(new := tables.setdefault(new_table, {}), dict):
            if new_key in new:
                continue
            new[new_key] = old.pop(key)
            moved[new_table, new_key] = (table, key)
    model = tables.get("model")
    if isinstance(model, dict) and isinstance(model.get("price"), str) and isinstance(tables.get("prices", {}), dict):
        try:
            price = parse_price(model["price"])
        except UsageError as error:
            _refuse(layer, ("model", "price"), error.message, error.hint or "")
        name = str(model.get("name", ""))
        one = {"input": price.prompt, "output": price.completion, "cached": price.cached}
        tables["prices"] = {name: one, **tables.get("prices", {})}
        del model["price"]
    return replace(layer, tables=tables, moved=moved)
