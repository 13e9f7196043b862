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
folder = "docs"                   # text files to publish; `glob` says which

[[agents]]
name = "ann"
role = "reader"
mode = "fork"                     # fork, serial, once
returns = "digest"                # none, digest, full
window = 100000                   # tokens
instructions = "You know the HTTP client."
reads = ["src/http/client.py"]

[task]
to = "ann"
question = "What is the retry limit?"

[learn]                           # for `combee swarm learn`; its playbook is used by the other commands too
tasks = "tasks.jsonl"             # or a folder with train, val and test
to = "ann"                        # who is asked; a question that begins with @name goes to that agent
view_tokens = 500                 # of the playbook, with each question
rounds = 3
batch = 40                        # tasks between two versions of the playbook; left out: all of them
scorer = "exact"                  # and question, answer, id: as for `combee learn`
"""

from __future__ import annotations

import tomllib
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from combee.errors import UsageError, did_you_mean
from combee.playbook import Playbook
from combee.playbook import load as load_playbook
from combee.swarm.directory import publish
from combee.swarm.lessons import Lessons
from combee.swarm.mail import join
from combee.swarm.repository import Repository
from combee.swarm.swarm import USER, Swarm
from combee.swarm.thinking import BUDGET, MODEL, brain_of
from combee.swarm.window import Summarise
from combee.swarm.world import World

__all__ = ["LEARNED", "SwarmFile", "build", "populate", "put_task", "read_swarm_file"]

LEARNED = "learned"
"""Folder beside the file in which a swarm that learns keeps its run: journal, playbook, report."""

_TOP = {
    "world",
    "repository",
    "playbook",
    "playbook_tokens",
    "model",
    "documents",
    "agents",
    "channels",
    "task",
    "learn",
    "budget",
    "options",
}
_AGENT = {"name", "role", "mode", "returns", "window", "instructions", "reads", "parent"}
_OPTIONS = {"reserve", "digest_tokens", "hop_limit", "max_steps", "max_asks", "limit"}
_AMOUNTS = frozenset({"max_cost", "max_minutes"})
_WHOLE = (_OPTIONS | BUDGET | {"window", "view_tokens", "rounds", "batch", "playbook_tokens"}) - _AMOUNTS
_LEARN = {"tasks", "to", "view_tokens", "rounds", "batch", "scorer", "question", "answer", "id"}


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
        return Lessons(book, int(self.learn.get(key, self.data.get(key, 2000))))

    @property
    def agents(self) -> list[dict[str, Any]]:
        """The agents as described."""
        return cast("list[dict[str, Any]]", self.data["agents"])


def _known(table: object, allowed: Set[str], where: str, path: Path) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {where} is not a table")
    for key, value in table.items():
        if key not in allowed:
            raise UsageError(f"{path}: {where} has no {key!r}", hint=did_you_mean(key, allowed))
        _check_number(key, value, f"{path}: {where} {key}")
    return table


def _check_number(key: str, value: object, what: str) -> None:
    """Refuse what must be a number and is none; TOML's true is no 1."""
    if key in _AMOUNTS and not (type(value) in {int, float} and cast("float", value) > 0):
        raise UsageError(f"{what} = {value!r}", hint="Give a number above 0.")
    least = 0 if key == "reserve" else 1
    if key in _WHOLE and not (type(value) is int and value >= least):
        raise UsageError(f"{what} = {value!r}", hint=f"Give a whole number of at least {least}.")


def read_swarm_file(path: Path) -> SwarmFile:
    """Read and check a description.

    Raises:
        UsageError: It cannot be read, or says something that is not understood.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="See docs/swarm.md for an example.") from error
    _known(data, _TOP, "the file", path)
    _known(data.get("model", {}), MODEL, "[model]", path)
    _known(data.get("budget", {}), BUDGET, "[budget]", path)
    _known(data.get("options", {}), _OPTIONS, "[options]", path)
    agents = data.get("agents")
    if not isinstance(agents, list) or not agents:
        raise UsageError(f"{path} describes no agents", hint="Add [[agents]] with a name.")
    for agent in agents:
        _known(agent, _AGENT, "[[agents]]", path)
        if not isinstance(agent.get("name"), str) or agent["name"] in {"", USER} or "~" in agent["name"]:
            raise UsageError(f"{path}: an agent needs a name, without ~, and not {USER!r}")
        for key, allowed in (("mode", {"fork", "serial", "once"}), ("returns", {"none", "digest", "full"})):
            if agent.get(key, min(allowed)) not in allowed:
                raise UsageError(f"{path}: {key} = {agent[key]!r}", hint=did_you_mean(str(agent[key]), allowed))
    task = _known(data.get("task", {}), {"to", "question", "subject"}, "[task]", path)
    if task and task.get("to") not in {agent["name"] for agent in agents}:
        raise UsageError(f"{path}: the task goes to {task.get('to')!r}, who is not described")
    learn = _known(data.get("learn", {}), _LEARN, "[learn]", path)
    if "learn" in data and not isinstance(learn.get("tasks"), str):
        raise UsageError(f"{path}: [learn] names no tasks", hint='Add tasks = "tasks.jsonl".')
    return SwarmFile(path.resolve().parent, data)


def build(described: SwarmFile, world: World) -> Swarm:
    """Return the swarm of a description on an open world. Nothing is sent yet."""
    data = described.data
    brain, summarise = brain_of(data.get("model", {}), data.get("budget", {}), _instructions(described))
    options = {str(key): int(value) for key, value in described.data.get("options", {}).items()}
    smallest = min(int(agent.get("window", 100_000)) for agent in described.agents)
    repository = described.data.get("repository")
    return Swarm(
        world, {"": brain}, compactions={"": Summarise(summarise, smallest // 8)},
        repository=Repository.open(described.folder / str(repository)) if repository else None,
        lessons=described.lessons(load_playbook(described.playbook)) if described.playbook else None,
        **{"reserve": smallest // 8, **options},  # type: ignore[arg-type]  # checked names, whole numbers
    )  # fmt: skip


def _instructions(described: SwarmFile) -> dict[str, str]:
    """Return the system prompts by role: what those of its agents say."""
    texts: dict[str, str] = {}
    for agent in described.agents:
        role = agent.get("role", "peer")
        said = str(agent.get("instructions", ""))
        texts[role] = "\n".join(dict.fromkeys(part for part in (texts.get(role, ""), said) if part))
    return texts


def populate(described: SwarmFile, swarm: Swarm) -> None:
    """Make the agents, publish the documents, and send what is to be read; once, however often it is called."""
    data = described.data
    documents = data.get("documents", {})
    with swarm.world.step():
        if documents:
            folder = described.folder / str(documents.get("folder", "."))
            for file in sorted(folder.glob(str(documents.get("glob", "**/*")))):
                if file.is_file():
                    text = file.read_text(encoding="utf-8", errors="replace")
                    publish(swarm.world, file.relative_to(folder).as_posix(), text, USER)
        for agent in described.agents:
            swarm.world.spawn(
                agent["name"], role=agent.get("role", "peer"), parent=agent.get("parent", ""),
                mode=agent.get("mode", "fork"), returns=agent.get("returns", "digest"),
                window=int(agent.get("window", 100_000)),
            )  # fmt: skip
            for path in agent.get("reads", ()):
                swarm.tell(agent["name"], str(path), key=f"read/{agent['name']}/{path}")
        for channel in data.get("channels", ()):
            for member in channel.get("members", ()):
                join(swarm.world, str(channel["name"]), str(member))


def put_task(described: SwarmFile, swarm: Swarm) -> int | None:
    """Send the task, once; returns its number, None where there is none. What agents read first should be read."""
    task = described.data.get("task")
    if not task:
        return None
    return swarm.ask(USER, str(task["question"]), to=task["to"], subject=str(task.get("subject", "")), key="task")
