"""What agents can do in the world. Each tool is one step of it: done whole, and once, however often it is tried."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from combee.errors import CombeeError
from combee.kernel.journal import clean_text
from combee.swarm.agents import ToolSpec
from combee.swarm.context import Call
from combee.swarm.knowledge import Note, credit, note, open_issue, read, recall, search_notes, update_issue, who_knows
from combee.swarm.mail import About, post, send
from combee.swarm.structure import propose
from combee.swarm.turn import Turn
from combee.swarm.world import row_number

__all__ = ["TOOLS", "TOOL_SPECS", "perform"]

READ_AT_ONCE = 1_000
"""Most documents that one use of a tool reads."""


def _ask(turn: Turn, key: str, to: str = "", question: str = "", subject: str = "") -> str:
    number = turn.state.ask(turn.agent.name, question, to=to, subject=subject, key=key, cause=turn.cause)
    return f"Asked (question {number}); the answer will come as a message." if number else "Nobody can be asked."


def _tell(turn: Turn, key: str, to: str, text: str) -> str:
    sent = send(
        turn.state.world, key=key, kind="tell", sender=turn.agent.name, recipient=to, body=text,
        about=About(cause=turn.cause), hop_limit=turn.state.limits.hop_limit,
    )  # fmt: skip
    return f"Not sent: {sent.refused}." if sent.refused else "Sent."


def _post(turn: Turn, key: str, channel: str, text: str) -> str:
    sent = post(
        turn.state.world, channel, key=key, sender=turn.agent.name, body=text, cause=turn.cause,
        hop_limit=turn.state.limits.hop_limit,
    )  # fmt: skip
    return f"Posted to {sum(not one.refused for one in sent)}."


def _find(turn: Turn, key: str, subject: str) -> str:
    known = who_knows(turn.state.world, subject, exclude=(turn.agent.name, turn.agent.fork_of or ""))
    lines = [f"{one.agent} read it {one.count}x" + ("" if one.fresh else ", not the newest version") for one in known]
    return "\n".join(lines) or "Nobody has read it."


def _read(turn: Turn, key: str, path: str) -> str:
    """Return documents, one a line when several are named by `first..last`; the directory learns of it."""
    texts = []
    paths = _paths(path)
    if len(paths) > READ_AT_ONCE:
        return f"error: at most {READ_AT_ONCE} documents are read at once"
    for one in paths:
        document = turn.state.document(one)
        if document is None:
            texts.append(f"error: there is no document {one}")
            continue
        credit(turn.state.world, turn.agent.name, turn.agent.incarnation, one, str(document.version))
        texts.append(document.body)
    return "\n".join(texts)


def _paths(path: str) -> Sequence[str]:
    """Return the paths of a range (`doc/0003..0007`), or the one path."""
    stem, dots, last = path.rpartition("..")
    folder, slash, first = stem.rpartition("/")
    if not (dots and first.isdecimal() and last.isdecimal() and len(last) <= 9):
        return [path]
    numbers = range(int(first), int(last) + 1)[: READ_AT_ONCE + 1]
    return [f"{folder}{slash}{number:0{len(first)}d}" for number in numbers]


def _write(turn: Turn, key: str, path: str, text: str) -> str:
    version = turn.state.write(path, text, turn.agent.name)
    credit(turn.state.world, turn.agent.name, turn.agent.incarnation, path, str(version))
    return f"Written as version {version}."


def _remember(turn: Turn, key: str, text: str, path: str = "") -> str:
    document = read(turn.state.world, path) if path else None
    return note(turn.state.world, turn.agent.name, text, path=path, version=str(document.version) if document else "")


def _shown(found: Note) -> str:
    return f"{found.text}\n(stale: {found.path} has a newer version)" if found.stale else found.text


def _recall(turn: Turn, key: str, query: str) -> str:
    """Return a note by its pointer, or the notes that match words best."""
    found = recall(turn.state.world, query) if query.startswith("note:") else None
    if found is not None:
        return _shown(found)
    own = turn.agent.origin
    return "\n".join(_shown(one) for one in search_notes(turn.state.world, query, agent=own)) or "No note matches."


def _delegate(turn: Turn, key: str, task: str, role: str = "") -> str:
    """Give a task to a fresh agent that answers once and is gone."""
    name = turn.state.world.spawn(
        f"sub-{turn.agent.name}-{turn.mail.id}-{key.split('/')[-2]}", role=role or turn.agent.role,
        parent=turn.agent.name, mode="once", window=turn.agent.window, key=key,
    ).name  # fmt: skip
    return _ask(turn, f"{key}/task", to=name, question=task)


def _issue(turn: Turn, key: str, title: str, body: str = "") -> str:
    return f"Issue {open_issue(turn.state.world, title, body, turn.agent.name, key=key)}."


def _take(turn: Turn, key: str, issue: str) -> str:
    done = update_issue(turn.state.world, row_number(issue), owner=turn.agent.name)
    return "Yours." if done else "It is taken or closed."


def _close(turn: Turn, key: str, issue: str) -> str:
    own = update_issue(turn.state.world, row_number(issue), owner=turn.agent.name, closed=True)
    return "Closed." if own else "It is not yours."


def _propose(turn: Turn, key: str, edit: str, why: str) -> str:
    return f"Proposed as version {propose(turn.state.world, edit, author=turn.agent.name, why=why)}."


def _spec(about: str, *optional: str, **parameters: str) -> tuple[str, dict[str, str], frozenset[str]]:
    return about, parameters, frozenset(optional)


_Tool = Callable[..., str]
TOOLS: dict[str, tuple[_Tool, ToolSpec, bool]] = {
    name: (function, ToolSpec(name, spec[0], spec[1], spec[2]), writes)
    for name, function, writes, spec in (
        ("ask", _ask, False, _spec(
            "Ask an agent. Without `to`, whoever knows the subject best is asked.", "to", "subject",
            question="the question, complete in itself", to="name of an agent", subject="path that it is about")),
        ("tell", _tell, False, _spec("Send news that needs no answer.", to="name of an agent", text="what to say")),
        ("post", _post, False, _spec("Tell all members of a channel.", channel="its name", text="what to say")),
        ("find", _find, False, _spec("Say who has read a document or folder.", subject="path; a folder ends in /")),
        ("read", _read, False, _spec("Read a document.", path="its path; a/0001..0009 reads several")),
        ("write", _write, True, _spec("Write a document.", path="its path", text="the whole text")),
        ("remember", _remember, True, _spec(
            "Keep a note on disk.", "path", text="the note", path="document that it was taken from")),
        ("recall", _recall, False, _spec("Find your notes.", query="a pointer (note:7) or words")),
        ("delegate", _delegate, False, _spec(
            "Give a task to a fresh agent that answers once and is gone.", "role", task="the task, complete in itself",
            role="its role")),
        ("issue", _issue, True, _spec("Open an issue.", "body", title="one line", body="more")),
        ("take", _take, True, _spec("Take an open issue.", issue="its number")),
        ("close", _close, True, _spec("Close an issue of yours.", issue="its number")),
        ("propose", _propose, True, _spec(
            "Propose a change of roles and edges.", edit="JSON of the edit", why="what should get better")),
    )
}  # fmt: skip
TOOL_SPECS: tuple[ToolSpec, ...] = tuple(spec for _, spec, _ in TOOLS.values())


def perform(turn: Turn, call: Call, number: int) -> str:
    """Use a tool and return what it says. What is wrong with a call is said to the agent; it stops nothing."""
    if call.name not in TOOLS:
        return f"error: there is no tool {call.name!r}"
    function, spec, writes = TOOLS[call.name]
    if writes and turn.agent.fork_of is not None:
        return "error: a copy made to answer a question changes nothing; put it into the answer"
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return "error: the arguments are not JSON"
    if not isinstance(arguments, dict):
        return "error: the arguments are not an object"
    unknown = sorted(set(arguments) - set(spec.parameters))
    missing = sorted(set(spec.parameters) - spec.optional - set(arguments))
    if unknown or missing:
        return f"error: unknown arguments {unknown}, missing {missing}"
    key = f"{turn.agent.name}#{turn.agent.incarnation}/{turn.mail.id}/{turn.step}.{number}/{call.name}"
    try:
        with turn.state.world.step():
            return function(turn, key, **{name: clean_text(str(value)) for name, value in arguments.items()})
    except CombeeError as error:
        return f"error: {error.message}"
