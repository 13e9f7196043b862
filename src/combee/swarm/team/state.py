"""The state of a ClawTeam team as data: members, messages, tasks, and the transitions that our hook noted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from combee.errors import UsageError
from combee.swarm.team.hooks import TRANSITIONS

__all__ = ["Message", "TeamState", "TeamTask", "Transition", "moment", "read_state"]

_SAID = ("content", "plan", "summary", "feedback", "reason", "lastTask")


@dataclass(frozen=True, slots=True)
class Message:
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
    messages: tuple[Message, ...] = ()
    tasks: tuple[TeamTask, ...] = ()
    transitions: tuple[Transition, ...] = ()
    problems: tuple[str, ...] = field(default=())


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
    names = {_text(member, "agentId"): _text(member, "name") for member in members}
    messages = []
    for file in sorted((data / "teams" / team / "events").glob("evt-*.json")):
        if row := _object(file, problems):
            said = "\n".join(part for key in _SAID if (part := _text(row, key)))
            kind = _text(row, "type") or "message"
            messages.append(Message(moment(_text(row, "timestamp")), _text(row, "from"), _text(row, "to"), kind, said))
    tasks = []
    for file in sorted((data / "tasks" / team).glob("task-*.json")):
        if row := _object(file, problems):
            subject, description = _text(row, "subject"), _text(row, "description")
            owner, status = _text(row, "owner"), _text(row, "status")
            made = moment(_text(row, "createdAt"))
            tasks.append(TeamTask(_text(row, "id"), subject, description, owner, status, made))
    return TeamState(
        team=team,
        goal=_text(config, "description"),
        lead=names.get(_text(config, "leadAgentId"), ""),
        members=tuple(sorted(names.values())),
        messages=tuple(sorted(messages, key=lambda one: one.at)),
        tasks=tuple(sorted(tasks, key=lambda one: (one.created, one.id))),
        transitions=_transitions(data / "tasks" / team / TRANSITIONS, problems),
        problems=tuple(problems),
    )


def _transitions(path: Path, problems: list[str]) -> tuple[Transition, ...]:
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
        row = _parsed(line)
        if row is None:
            problems.append(f"{path.name}, line {number}: not an object of JSON")
            continue
        before, after = _text(row, "from"), _text(row, "to")
        found.append(Transition(moment(_text(row, "at")), _text(row, "task"), before, after, _text(row, "by")))
    return tuple(found)


def _object(path: Path, problems: list[str]) -> dict[str, object]:
    try:
        row = _parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path.name}: {error}")
        return {}
    if row is None:
        problems.append(f"{path.name}: not an object of JSON")
    return row or {}


def _parsed(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _objects(value: object) -> list[dict[str, object]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _text(row: dict[str, object], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""
