"""A swarm described in a TOML file: the model, the agents, the documents, the playbook and the task.

world = "swarm.sqlite"            # beside this file; left out: called like this file (of office.toml: office.sqlite)
repository = "repo"               # optional: documents are files of this git repository, which is there already
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

[options]                         # the fields of `combee.swarm.swarm.SwarmLimits`
max_steps = 50                    # replies for one message
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from combee.errors import UsageError
from combee.files import read_regular
from combee.kernel.journal import hash_json
from combee.kernel.playbook import Playbook
from combee.kernel.playbook import load as load_playbook
from combee.swarm.briefing import Lessons
from combee.swarm.checks import check_data
from combee.swarm.context import Summarise
from combee.swarm.endpoint import model_of
from combee.swarm.files import FILE, documents, own_world
from combee.swarm.knowledge import publish
from combee.swarm.mail import join
from combee.swarm.repository import Repository
from combee.swarm.swarm import USER, Swarm
from combee.swarm.world import World

__all__ = ["SwarmFile", "build", "populate", "prepare", "put_task", "read_swarm_file"]

_WINDOW = 100_000


@dataclass(frozen=True, slots=True)
class SwarmFile:
    """A description that was read and checked; `file` is absolute, `world` is where its world lies."""

    file: Path
    data: dict[str, Any]
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
        if "playbook" in self.data:
            return self.folder / str(self.data["playbook"])
        learned = self.learned / "playbook.json"
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


def read_swarm_file(path: Path) -> SwarmFile:
    """Read and check a description.

    Raises:
        UsageError: It cannot be read, or says something that is not understood.
    """
    try:
        data = tomllib.loads(read_regular(path).decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="See docs/swarm.md for an example.") from error
    check_data(path, data)
    file = path.resolve()
    return SwarmFile(file, data, file.parent / data["world"] if "world" in data else own_world(file))


def prepare(described: SwarmFile) -> Callable[[World], Swarm]:
    """Return what makes the swarm of a description on an open world. Nothing is written, and nothing is sent yet.

    Raises:
        UsageError: The model, the playbook or the repository cannot be used.
    """
    data = described.data
    model, summarise = model_of(data.get("model", {}), data.get("budget", {}), _instructions(described))
    smallest = min(agent.get("window", _WINDOW) for agent in described.agents)
    repository = Repository.at(described.folder / data["repository"]) if "repository" in data else None
    lessons = described.lessons(load_playbook(described.playbook)) if described.playbook else None
    options = {"reserve": smallest // 8, **data.get("options", {})}

    def on(world: World) -> Swarm:
        return Swarm(
            world, {"": model}, compactions={"": Summarise(summarise, smallest // 8)}, repository=repository,
            lessons=lessons, **options,
        )  # fmt: skip

    return on


def build(described: SwarmFile, world: World) -> Swarm:
    """Return the swarm of a description on an open world; raises as `prepare`."""
    return prepare(described)(world)


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
        world.set_meta(FILE, str(described.file))
        for path, text in documents(described):
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


def put_task(described: SwarmFile, swarm: Swarm) -> int | None:
    """Send the task, once; returns its number, None where there is none. What agents read first should be read.

    A task that was changed in the file is another one.
    """
    task = described.data.get("task")
    if not task:
        return None
    key = f"task/{hash_json(task)[:16]}"
    sent = swarm.put(USER, task["question"], to=task["to"], subject=task.get("subject", ""), key=key)
    if not sent.id:
        hint = "Ask less at once, or give the agent a larger window; `combee swarm revive` mends one that is dead."
        raise UsageError(f"nobody can take the task: {sent.refused}", hint=hint)
    return sent.id
