"""A swarm described in a TOML file: the model, the agents, the documents, the playbook and the task.

world = "swarm.sqlite"            # beside this file
repository = "repo"               # optional: documents are files of this git repository
playbook = "playbook.json"        # optional: with each question its part for the one who is asked goes along
playbook_tokens = 2000            # at most so many

[model]
kind = "lookup"                   # no model; or endpoint (Combee's client), pydantic-ai, script
name = "deepseek-chat"            # local/smollm2: in this process; script: "package.module:function"
base_url = "..."                  # any OpenAI-compatible endpoint; pydantic-ai: or a name like "openai:gpt-5" alone
api_key_env = "OPENAI_API_KEY"    # the NAME of the variable
max_tokens = 2048                 # of one reply
price = "0.28/0.42"               # dollars per million tokens, in and out (endpoint)

[budget]                          # of one process, for kind = "endpoint": max_cost, max_calls, max_tokens, max_minutes
max_calls = 500

[documents]
folder = "docs"                   # text files to publish
glob = "**/*"                     # which of them

[[agents]]
name = "ann"
role = "reader"
mode = "fork"                     # fork, serial, once
returns = "digest"                # none, digest, full
window = 100000                   # tokens
instructions = "You know the HTTP client."
reads = ["src/http/client.py"]

[[channels]]
name = "front"
members = ["ann"]

[task]
to = "ann"
question = "What is the retry limit?"
subject = "src/http/client.py"    # path that it is about; optional

[learn]                           # for `combee swarm learn`; its playbook is used by the other commands too
tasks = "tasks.jsonl"             # or a folder with train, val and test
to = "ann"                        # who is asked; a question that begins with @name goes to that agent
view_tokens = 500                 # of the playbook, with each question
rounds = 3
batch = 40                        # tasks between two versions of the playbook; left out: all of them
scorer = "exact"                  # and question, answer, id: as for `combee learn`

[options]                         # the fields of `combee.swarm.swarm.Limits`
max_steps = 50                    # thoughts for one message
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from combee.errors import UsageError, did_you_mean
from combee.journal import clean_text
from combee.playbook import Playbook
from combee.playbook import load as load_playbook
from combee.swarm.directory import publish
from combee.swarm.kinds import BUDGET, MODEL, brain_of
from combee.swarm.lessons import Lessons
from combee.swarm.mail import join
from combee.swarm.repository import Repository
from combee.swarm.swarm import USER, Limits, Swarm
from combee.swarm.window import Summarise
from combee.swarm.world import World

__all__ = ["LEARNED", "SwarmFile", "build", "populate", "put_task", "read_swarm_file"]

LEARNED = "learned"
"""Folder beside the file in which a swarm that learns keeps its run: journal, playbook, report."""

_OPTIONS = frozenset(one.name for one in fields(Limits))
_TABLES: dict[str, Set[str]] = {
    "model": MODEL,
    "budget": BUDGET,
    "options": _OPTIONS,
    "documents": {"folder", "glob"},
    "task": {"to", "question", "subject"},
    "learn": {"tasks", "to", "view_tokens", "rounds", "batch", "scorer", "question", "answer", "id"},
}
_ROWS: dict[str, Set[str]] = {
    "agents": {"name", "role", "mode", "returns", "window", "instructions", "reads"},
    "channels": {"name", "members"},
}
_TOP = {"world", "repository", "playbook", "playbook_tokens", *_TABLES, *_ROWS}
_WORDS = {"mode": {"fork", "serial", "once"}, "returns": {"none", "digest", "full"}}
_AMOUNTS = {"max_cost", "max_minutes"}
_WHOLE = (_OPTIONS | BUDGET | {"window", "view_tokens", "rounds", "batch", "playbook_tokens"}) - _AMOUNTS
_LISTS = {"reads", "members"}
_OTHERWISE = {*_WHOLE, *_AMOUNTS, *_LISTS, *_TABLES, *_ROWS}  # everything else is text
_WINDOW = 100_000


@dataclass(frozen=True, slots=True)
class SwarmFile:
    """A description that was read and checked; `folder` is where its paths begin."""

    folder: Path
    data: dict[str, Any]

    @property
    def world(self) -> Path:
        """Where the world lies."""
        return self.folder / str(self.data.get("world", "swarm.sqlite"))

    @property
    def playbook(self) -> Path | None:
        """Where the playbook lies that the agents go by; of a swarm that learns, what it learned last."""
        if "playbook" in self.data:
            return self.folder / str(self.data["playbook"])
        learned = self.folder / LEARNED / "playbook.json"
        return learned if "learn" in self.data and learned.exists() else None

    @property
    def learn(self) -> dict[str, Any]:
        """How it learns; empty where the file does not say."""
        return cast("dict[str, Any]", self.data.get("learn", {}))

    def lessons(self, book: Playbook) -> Lessons:
        """Return a playbook with the room that the file gives it."""
        key = "view_tokens" if "view_tokens" in self.learn else "playbook_tokens"
        return Lessons(book, self.learn.get(key, self.data.get(key, 2000)))

    @property
    def agents(self) -> list[dict[str, Any]]:
        """The agents as described."""
        return cast("list[dict[str, Any]]", self.data["agents"])


def _known(table: object, allowed: Set[str], where: str) -> dict[str, Any]:
    """Return a table whose keys and values are what they must be."""
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table", hint="See docs/swarm.md for an example.")
    for key, value in table.items():
        if key not in allowed:
            raise UsageError(f"{where} has no {key!r}", hint=did_you_mean(key, allowed))
        _check(key, value, f"{where}: {key} = {value!r}")
    return table


def _check(key: str, value: object, what: str) -> None:
    """Refuse a value of another kind than its key has; TOML's true is no 1."""
    least = 0 if key == "reserve" else 1
    if key in _AMOUNTS and not (type(value) in {int, float} and cast("float", value) > 0):
        raise UsageError(what, hint="Give a number above 0.")
    if key in _WHOLE and not (type(value) is int and value >= least):
        raise UsageError(what, hint=f"Give a whole number of at least {least}.")
    if key in _LISTS and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        raise UsageError(what, hint='Give a list of texts, like ["http.md"].')
    if key not in _OTHERWISE and not isinstance(value, str):
        raise UsageError(what, hint="Give a text in quotes.")
    if key in _WORDS and value not in _WORDS[key]:
        raise UsageError(what, hint=did_you_mean(str(value), _WORDS[key]))


def read_swarm_file(path: Path) -> SwarmFile:
    """Read and check a description.

    Raises:
        UsageError: It cannot be read, or says something that is not understood.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="See docs/swarm.md for an example.") from error
    _known(data, _TOP, f"{path}: the file")
    tables = {name: _known(data.get(name, {}), keys, f"{path}: [{name}]") for name, keys in _TABLES.items()}
    for name, keys in _ROWS.items():
        if not isinstance(data.get(name, []), list):
            raise UsageError(f"{path}: {name} is not a list of tables", hint=f"Write [[{name}]].")
        for row in data.get(name, []):
            _known(row, keys, f"{path}: [[{name}]]")
            if "name" not in row:
                raise UsageError(f"{path}: [[{name}]] without a name", hint='Add name = "...".')
    names = _names(path, data.get("agents", []))
    task = tables["task"]
    if task and task.get("to") not in names:
        raise UsageError(
            f"{path}: the task goes to {task.get('to')!r}, who is not described",
            hint=did_you_mean(task.get("to", ""), names),
        )
    if task and "question" not in task:
        raise UsageError(f"{path}: [task] asks nothing", hint="Add a question.")
    if "learn" in data and "tasks" not in tables["learn"]:
        raise UsageError(f"{path}: [learn] names no tasks", hint='Add tasks = "tasks.jsonl".')
    return SwarmFile(path.resolve().parent, data)


def _names(path: Path, agents: list[dict[str, Any]]) -> set[str]:
    if not agents:
        raise UsageError(f"{path} describes no agents", hint="Add [[agents]] with a name.")
    names = [str(agent["name"]) for agent in agents]
    for name in names:
        if name in {"", USER} or "~" in name:
            raise UsageError(f"{path}: no agent can be called {name!r}", hint=f"Choose a name without ~, not {USER!r}.")
        if names.count(name) > 1:
            raise UsageError(f"{path}: there are several agents {name!r}", hint="Give each a name of its own.")
    return set(names)


def build(described: SwarmFile, world: World) -> Swarm:
    """Return the swarm of a description on an open world. Nothing is sent yet."""
    data = described.data
    brain, summarise = brain_of(data.get("model", {}), data.get("budget", {}), _instructions(described))
    smallest = min(agent.get("window", _WINDOW) for agent in described.agents)
    repository = data.get("repository")
    return Swarm(
        world, {"": brain}, compactions={"": Summarise(summarise, smallest // 8)},
        repository=Repository.open(described.folder / repository) if repository else None,
        lessons=described.lessons(load_playbook(described.playbook)) if described.playbook else None,
        **{"reserve": smallest // 8, **data.get("options", {})},
    )  # fmt: skip


def _instructions(described: SwarmFile) -> dict[str, str]:
    """Return the system prompts by role: what those of its agents say."""
    texts: dict[str, str] = {}
    for agent in described.agents:
        role = agent.get("role", "peer")
        said = agent.get("instructions", "")
        texts[role] = "\n".join(dict.fromkeys(part for part in (texts.get(role, ""), said) if part))
    return texts


def populate(described: SwarmFile, swarm: Swarm) -> None:
    """Make the agents, publish the documents, and send what is to be read; once, however often it is called."""
    world = swarm.world
    with world.step():
        for path, text in _documents(described):
            # What agents made of a document since then is newer than the file.
            sql = "SELECT body FROM artefacts WHERE path = ? AND author = ? ORDER BY version DESC LIMIT 1"
            if world.one(sql, path, USER) != (text,):
                publish(world, path, text, USER)
        for agent in described.agents:
            name = agent["name"]
            world.spawn(
                name, role=agent.get("role", "peer"), mode=agent.get("mode", "fork"),
                returns=agent.get("returns", "digest"), window=agent.get("window", _WINDOW),
            )  # fmt: skip
            for path in agent.get("reads", ()):
                swarm.tell(name, path, key=f"read/{name}/{path}")
        for channel in described.data.get("channels", ()):
            for member in channel.get("members", ()):
                join(world, channel["name"], member)


def _documents(described: SwarmFile) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each document of the file."""
    table = described.data.get("documents")
    if table is not None:
        folder = described.folder / table.get("folder", ".")
        for file in sorted(folder.glob(table.get("glob", "**/*"))):
            if file.is_file():
                # As the world keeps it, so that the same text is the same version.
                text = clean_text(file.read_text(encoding="utf-8", errors="replace"))
                yield file.relative_to(folder).as_posix(), text


def put_task(described: SwarmFile, swarm: Swarm) -> int | None:
    """Send the task, once; returns its number, None where there is none. What agents read first should be read."""
    task = described.data.get("task")
    if not task:
        return None
    return swarm.ask(USER, task["question"], to=task["to"], subject=task.get("subject", ""), key="task")
