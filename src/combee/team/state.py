"""The state of a ClawTeam team as data: members, messages, tasks, and the transitions that our hook noted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from combee.errors import UsageError

__all__ = [
    "TRANSITIONS",
    "TeamMessage",
    "TeamState",
    "TeamTask",
    "Transition",
    "json_object",
    "moment",
    "read_state",
    "text_of",
]

TRANSITIONS = "transitions.jsonl"
"""The file beside the tasks in which our hook notes each change; ClawTeam reads only `task-*.json` there."""

_SAID = ("content", "plan", "summary", "feedback", "reason", "lastTask")


@dataclass(frozen=True, slots=True)
class TeamMessage:
    """One message; `to` is empty for a broadcast to all."""

    at: datetime
    sender: str
    to: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class TeamTask:
    """One task in its last state, which agents set themselves."""

    id: str
    subject: str
    description: str
    owner: str
    status: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of a task, and who made it (empty where unknown)."""

    at: datetime
    task: str
    before: str
    after: str
    by: str


@dataclass(frozen=True, slots=True)
class TeamState:
    """All that the data folder says of one team. `problems` names what could not be read."""

    team: str
    goal: str
    lead: str
    members: tuple[str, ...]
    messages: tuple[TeamMessage, ...] = ()
    tasks: tuple[TeamTask, ...] = ()
    transitions: tuple[Transition, ...] = ()
    problems: tuple[str, ...] = ()


def moment(text: str) -> datetime:
    """Return the time of an ISO 8601 text; the start of the era where it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def read_state(data: Path, team: str) -> TeamState:
    """Read one team.

    Raises:
        UsageError: There is no such team in the folder.
    """
    problems: list[str] = []
    config = _object(data / "teams" / team / "config.json", problems)
    if not config:
        raise UsageError(f"There is no team {team!r} in {data}.", hint="Give ClawTeam's data folder and a team's name.")
    members = _objects(config.get("members"))
    names = {text_of(member, "agentId"): text_of(member, "name") for member in members}
    messages = []
    for file in sorted((data / "teams" / team / "events").glob("evt-*.json")):
        if row := _object(file, problems):
            said = "\n".join(part for key in _SAID if (part := text_of(row, key)))
            kind = text_of(row, "type") or "message"
            messages.append(
                TeamMessage(moment(text_of(row, "timestamp")), text_of(row, "from"), text_of(row, "to"), kind, said)
            )
    tasks = []
    for file in sorted((data / "tasks" / team).glob("task-*.json")):
        if row := _object(file, problems):
            subject, description = text_of(row, "subject"), text_of(row, "description")
            owner, status = text_of(row, "owner"), text_of(row, "status")
            made = moment(text_of(row, "createdAt"))
            tasks.append(TeamTask(text_of(row, "id"), subject, description, owner, status, made))
    return TeamState(
        team=team,
        goal=text_of(config, "description"),
        lead=names.get(text_of(config, "leadAgentId"), ""),
        members=tuple(sorted(names.values())),
        messages=tuple(sorted(messages, key=lambda one: one.at)),
        tasks=tuple(sorted(tasks, key=lambda one: (one.created, one.id))),
        transitions=_transitions(data / "tasks" / team / TRANSITIONS, problems),
        problems=tuple(problems),
    )


def _transitions(path: Path, problems: list[str]) -> tuple[Transition, ...]:
    found = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        row = json_object(line)
        if row is None:
            problems.append(f"{path.name}, line {number}: not an object of JSON")
            continue
        before, after = text_of(row, "from"), text_of(row, "to")
        found.append(Transition(moment(text_of(row, "at")), text_of(row, "task"), before, after, text_of(row, "by")))
    return tuple(found)


def _object(path: Path, problems: list[str]) -> dict[str, object]:
    try:
        row = json_object(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path.name}: {error}")
        return {}
    if row is None:
        problems.append(f"{path.name}: not an object of JSON")
    return row or {}


def json_object(text: str) -> dict[str, object] | None:
    """Return the object of a JSON text; None where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _objects(value: object) -> list[dict[str, object]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def text_of(row: dict[str, object], key: str) -> str:
    """Return a field; empty where it is missing or no text."""
    value = row.get(key)
    return value if isinstance(value, str) else ""
