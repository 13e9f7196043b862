"""What agents can do in the world. Each tool is one step of it: done whole, and once, however often it is tried.

Who acts, for whose question and under which limits is said by the runtime, never by an argument. A write is checked
against the version that the writer read last; what another wrote meanwhile is shown, not overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from combee.errors import CombeeError, UsageError
from combee.kernel.journal import clean_text, hash_json
from combee.swarm.agents import ToolSpec
from combee.swarm.briefing import one_line, spelled
from combee.swarm.context import Call
from combee.swarm.knowledge import (
    Document,
    Issue,
    Note,
    close_issue,
    credit,
    is_secret,
    issues,
    lease,
    note,
    open_issue,
    reader_of,
    recall,
    release,
    search_notes,
    take_issue,
    who_knows,
)
from combee.swarm.mail import EVERYONE, About, key_of, members, post, send
from combee.swarm.repository import ConflictError
from combee.swarm.state import SwarmState
from combee.swarm.turn import Turn
from combee.swarm.world import AgentRow, row_number

__all__ = ["TOOLS", "Actor", "Tool", "declared", "offered", "perform", "use"]

READ_AT_ONCE = 1_000
"""Most documents that one use of a tool reads."""

LISTED = 100
"""Most lines that a list shows."""


class Actor(Protocol):
    """Who uses a tool: a turn of an agent that lives in the world, or an agent from outside."""

    @property
    def state(self) -> SwarmState:
        """The world."""

    @property
    def agent(self) -> AgentRow:
        """Who acts."""

    @property
    def cause(self) -> int | None:
        """The message for whose sake it acts."""

    @property
    def hold(self) -> float:
        """Seconds that a path is leased for, unless another time is asked for."""

    @property
    def until(self) -> float | None:
        """When an issue that is taken now falls to others; None: never."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: how agents see it, and the function that does it and returns what it says.

    The function is given the turn, a key that is the same whenever this use is tried again, and the arguments, all
    text. Copies of agents are not offered tools that write.
    """

    spec: ToolSpec
    function: Callable[..., str]
    writes: bool = False


def _ask(turn: Actor, key: str, to: str = "", question: str = "", subject: str = "") -> str:
    sent = turn.state.put(turn.agent.name, question, to=to, subject=subject, key=key, cause=turn.cause)
    return "Asked; the answer will come as a message." if sent.id else f"Nobody can be asked: {sent.refused}."


def _tell(turn: Actor, key: str, to: str, text: str) -> str:
    if not turn.state.structure.allows(turn.agent.origin, to):
        return f"Not sent: the structure lets you reach {to} by a question only."
    sent = send(
        turn.state.world, key=key, kind="tell", sender=turn.agent.name, recipient=to, body=text,
        about=About(cause=turn.cause), hop_limit=turn.state.limits.hop_limit,
    )  # fmt: skip
    return f"Not sent: {sent.refused}." if sent.refused else "Sent."


def _post(turn: Actor, key: str, text: str, channel: str = EVERYONE) -> str:
    if turn.agent.origin not in members(turn.state.world, channel):
        return f"error: you are no member of {channel}"
    sent = post(
        turn.state.world, channel, key=key, sender=turn.agent.name, body=text, cause=turn.cause,
        hop_limit=turn.state.limits.hop_limit,
    )  # fmt: skip
    return f"Posted to {sum(not one.refused for one in sent)}."


def _peers(turn: Actor, key: str) -> str:
    world, own = turn.state.world, turn.agent.origin
    rows = [one for one in world.agents() if one.is_peer and one.state == "live" and one.name != own]
    return _listed(f"{one.name} ({one_line(one.role)})" for one in rows) or "You are alone."


def _listed(lines: Iterable[str]) -> str:
    """Return the first lines of a list, and how many more there are; no text can begin a line of its own."""
    found = list(map(spelled, lines))
    more = [f"... and {len(found) - LISTED} more"] if len(found) > LISTED else []
    return "\n".join([*found[:LISTED], *more])


def _find(turn: Actor, key: str, subject: str) -> str:
    known = who_knows(turn.state.world, subject, exclude=(turn.agent.name, turn.agent.fork_of or ""))
    lines = [f"{one.agent} read it {one.count}x" + ("" if one.fresh else ", not the newest version") for one in known]
    return "\n".join(lines) or "Nobody has read it."


def _documents(turn: Actor, key: str, folder: str = "") -> str:
    return _listed(path for path in turn.state.paths(turn.agent) if path.startswith(folder)) or "There are none."


def _document(turn: Actor, path: str) -> Document | None:
    """Return a document that the agent may read, or None where there is none.

    Raises:
        UsageError: It is not for this agent, or keeps secrets, which no agent reads.
    """
    if is_secret(path):
        raise UsageError(f"{path} may hold keys or passwords; no agent reads or writes it")
    if not reader_of(turn.state.world, turn.agent)(path):
        raise UsageError(f"{path} is not for you to read")
    return turn.state.document(path)


def _read(turn: Actor, key: str, path: str, lines: str = "") -> str:
    """Return documents, one a line when several are named by `first..last`; the directory learns of it."""
    texts = []
    paths = _paths(path)
    if len(paths) > READ_AT_ONCE:
        return f"error: at most {READ_AT_ONCE} documents are read at once"
    for one in paths:
        document = _document(turn, one)
        if document is None:
            texts.append(f"error: there is no document {one}")
            continue
        credit(turn.state.world, turn.agent.name, turn.agent.incarnation, one, str(document.version))
        texts.append(_part(document.body, lines) if lines else document.body)
    return "\n".join(texts)


def _part(text: str, lines: str) -> str:
    """Return some lines of a text, `20..40` or `20`, counted from 1."""
    first, dots, last = lines.partition("..")
    if not first.isdecimal() or (dots and not last.isdecimal()) or len(lines) > 20:
        raise UsageError(f"{lines!r} are no lines; say which, like 1..40")
    return "\n".join(text.split("\n")[max(0, int(first) - 1) : int(last if dots else first)])


def _paths(path: str) -> Sequence[str]:
    """Return the paths of a range (`doc/0003..0007`), or the one path."""
    stem, dots, last = path.rpartition("..")
    folder, slash, first = stem.rpartition("/")
    if not (dots and first.isdecimal() and last.isdecimal() and len(last) <= 9):
        return [path]
    numbers = range(int(first), int(last) + 1)[: READ_AT_ONCE + 1]
    return [f"{folder}{slash}{number:0{len(first)}d}" for number in numbers]


def _write(turn: Actor, key: str, path: str, text: str) -> str:
    world, agent = turn.state.world, turn.agent
    sql = "SELECT version FROM reads WHERE agent = ? AND incarnation = ? AND subject = ?"
    seen = world.value(sql, agent.name, agent.incarnation, path) or ""
    _document(turn, path)  # who may not read it may not write it
    return _written(turn, path, text, seen)


def _edit(turn: Actor, key: str, path: str, old: str, new: str) -> str:
    document = _document(turn, path)
    if document is None:
        return f"error: there is no document {path}"
    if (times := document.body.count(old) if old else 0) != 1:
        where = f"stands there {times} times; name more around it" if times else "is not there as you wrote it"
        return f"error: the old text {where}. {path} is at version {document.version}:\n{document.body}"
    return _written(turn, path, document.body.replace(old, new), str(document.version))


def _written(turn: Actor, path: str, text: str, seen: str) -> str:
    """Write a document; an agent that is shown another version in a conflict has read that one."""
    world, agent = turn.state.world, turn.agent
    try:
        version = turn.state.write(path, text, agent.name, seen=seen)
    except ConflictError as error:
        now = turn.state.document(path)
        if now is not None:
            credit(world, agent.name, agent.incarnation, path, str(now.version))
        return f"error: {error.message}"
    credit(world, agent.name, agent.incarnation, path, str(version))
    return f"Written as version {version}."


def _lease(turn: Actor, key: str, path: str, minutes: str = "") -> str:
    if minutes and not (minutes.isdecimal() and 0 < int(minutes[:6]) <= 1440):
        return "error: minutes is a whole number from 1 to 1440"
    other = lease(turn.state.world, path, turn.agent, 60.0 * int(minutes) if minutes else turn.hold)
    if other is not None:
        return f"error: {other.agent} has leased {spelled(other.path)}"
    return f"{spelled(path)} is yours for now."


def _release(turn: Actor, key: str, path: str) -> str:
    return "Released." if release(turn.state.world, path, turn.agent.name) else "error: you have no lease of it"


def _remember(turn: Actor, key: str, text: str, path: str = "", readers: str = "") -> str:
    document = _document(turn, path) if path else None
    version = str(document.version) if document else ""
    names = [name.strip() for name in readers.split(",") if name.strip()]
    return note(turn.state.world, turn.agent.name, text, path=path, version=version, readers=names)


def _shown(found: Note) -> str:
    return f"{found.text}\n(stale: {found.path} has a newer version)" if found.stale else found.text


def _recall(turn: Actor, key: str, query: str) -> str:
    """Return a note by its pointer, or the notes that match words best: own ones, and those for this agent to read."""
    own = turn.agent.origin
    found = recall(turn.state.world, query, own) if query.startswith("note:") else None
    if found is not None:
        return _shown(found)
    return "\n".join(_shown(one) for one in search_notes(turn.state.world, query, agent=own)) or "No note matches."


def _delegate(turn: Turn, key: str, task: str, role: str = "") -> str:
    """Give a task to a fresh agent that answers once and is gone."""
    agent, limits, root = turn.agent, turn.state.limits, turn.mail.first
    if agent.depth >= limits.max_depth:
        return f"error: agents make each other {limits.max_depth} deep at most; do it yourself"
    made = turn.state.world.value("SELECT count(*) FROM agents WHERE root = ? AND mode = 'once'", root)
    if made >= limits.max_agents:
        return f"error: {limits.max_agents} agents were made for this question; do it yourself"
    role = one_line(role) or agent.role
    turn.state.model(role)  # raises where nobody would answer
    name = turn.state.world.spawn(
        f"sub-{agent.origin}-{hash_json(key)[:8]}", role=role, parent=agent.name, mode="once", window=agent.window,
        key=key, root=root, depth=agent.depth + 1,
    ).name  # fmt: skip
    return _ask(turn, key_of(key, "task"), to=name, question=task)


def _issues(turn: Actor, key: str) -> str:
    def line(one: Issue) -> str:
        held = f" (held by {one.owner})" if one.owner else ""
        return f"{one.id} {one_line(one.title)}{held}{': ' + one_line(one.body) if one.body else ''}"

    return _listed(map(line, issues(turn.state.world))) or "There are none."


def _issue(turn: Actor, key: str, title: str, body: str = "") -> str:
    return f"Issue {open_issue(turn.state.world, title, body, turn.agent.name, key=key)}."


def _take(turn: Actor, key: str, issue: str) -> str:
    world, number = turn.state.world, row_number(issue)
    before = world.value("SELECT owner FROM issues WHERE id = ?", number)
    if not take_issue(world, number, turn.agent.name, until=turn.until):
        return "It is taken or closed."
    gone = before not in {None, turn.agent.name}
    return f"Yours. {before} had it before, and is gone: look at what is there." if gone else "Yours."


def _close(turn: Actor, key: str, issue: str) -> str:
    done = close_issue(turn.state.world, row_number(issue), turn.agent.name)
    return "Closed." if done else "It is not yours: take it first."


def declared(name: str, function: Any, about: str, *optional: str, **parameters: str) -> Tool:
    """Return a tool: its name, what does it, what it is for, which parameters may be left out, what each is for."""
    spec = ToolSpec(name, about, parameters, frozenset(optional))
    return Tool(spec, function, name in {"write", "edit", "lease", "release", "remember", "issue", "take", "close"})


TOOLS: tuple[Tool, ...] = (
    declared("ask", _ask, "Ask an agent. Without `to`, whoever knows the subject best is asked.", "to", "subject",
          question="the question, complete in itself", to="name of an agent", subject="path that it is about"),
    declared("tell", _tell, "Send news that needs no answer.", to="name of an agent", text="what to say"),
    declared("post", _post, "Announce to all, or to the members of a channel.", "channel", text="what to say",
          channel="its name (all)"),
    declared("peers", _peers, "List the other agents."),
    declared("find", _find, "Say who has read a document or folder.", subject="path; a folder ends in /"),
    declared("documents", _documents, "List documents.", "folder", folder="what their paths begin with"),
    declared("read", _read, "Read a document.", "lines", path="its path; a/0001..0009 reads several",
          lines="which of its lines, like 1..40"),
    declared("write", _write, "Write a whole document; read it first if it exists.", path="its path",
          text="the whole text"),
    declared("edit", _edit, "Change a part of a document.", path="its path", old="a text that stands in it once",
          new="what stands there instead"),
    declared("lease", _lease, "Keep a path for yourself while you work on it; others cannot write it.", "minutes",
          path="its path, or a folder's", minutes="for how long (15)"),
    declared("release", _release, "Give up your lease of a path.", path="its path"),
    declared("remember", _remember, "Keep a note on disk.", "path", "readers", text="the note",
          path="document that it was taken from", readers="who may recall it too: names with commas, or all"),
    declared("recall", _recall, "Find notes.", query="a pointer (note:7) or words"),
    declared("delegate", _delegate, "Give a task to a fresh agent that answers once and is gone.", "role",
          task="the task, complete in itself", role="its role"),
    declared("issues", _issues, "List open issues."),
    declared("issue", _issue, "Open an issue.", "body", title="one line", body="more"),
    declared("take", _take, "Take an open issue.", issue="its number"),
    declared("close", _close, "Close an issue that you took.", issue="its number"),
)  # fmt: skip


def offered(state: SwarmState, agent: AgentRow, tools: Sequence[Tool]) -> list[ToolSpec]:
    """Return the tools that can work for an agent as it is."""
    idle = set()
    if agent.depth >= state.limits.max_depth:
        idle.add("delegate")
    if state.world.one("SELECT 1 FROM members WHERE agent = ?", agent.origin) is None:
        idle.add("post")
    copy = agent.fork_of is not None
    return [tool.spec for tool in tools if not (tool.writes and copy) and tool.spec.name not in idle]


def perform(turn: Turn, call: Call, number: int, tools: Mapping[str, Tool]) -> str:
    """Use a tool and return what it says. What is wrong with a call is said to the agent; it stops nothing."""
    if call.name not in tools:
        return f"error: there is no tool {call.name!r}"
    tool = tools[call.name]
    if tool.writes and turn.agent.fork_of is not None:
        return "error: a copy made to answer a question changes nothing; put it into the answer"
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return "error: the arguments are not JSON"
    return use(turn, tool, key_of(turn.mail.key, f"{turn.step}.{number}", call.name), arguments)


def use(actor: Actor, tool: Tool, key: str, arguments: object) -> str:
    """Use a tool with arguments, once for each key, and return what it says, also what is wrong with them."""
    if not isinstance(arguments, dict):
        return "error: the arguments are not an object"
    unknown = sorted(set(arguments) - set(tool.spec.parameters))
    missing = sorted(set(tool.spec.parameters) - tool.spec.optional - set(arguments))
    if unknown or missing:
        return f"error: unknown arguments {unknown}, missing {missing}"
    try:
        given = {name: _text(value) for name, value in arguments.items()}
        if given.get("path") and actor.state.repository is not None:
            given["path"] = actor.state.repository.name(given["path"])  # rules and leases hold however it is spelled
        with actor.state.world.step():
            return tool.function(actor, key, **given)
    except RecursionError:
        return "error: the arguments are nested too deep"
    except CombeeError as error:
        return f"error: {error.message}"


def _text(value: Any) -> str:
    """Return an argument as text; lists and objects as JSON."""
    return clean_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
