"""ClawTeam data folders: `teams/{team}/events/evt-*.json` is the talk of a team, one trace a team.

Tasks hold only their last state, which the agents set themselves: the outcome is their claim. Who leads is
`leadAgentId`; `agentType` is not to be trusted. The work itself is in git, which is not read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from combee.redaction import Outcome, Role, Trace
from combee.traces.readers.draft import TraceDraft, claim
from combee.traces.readers.messages import Piece
from combee.traces.readers.source import Source
from combee.traces.readers.values import number, objects, table, text, when

_EVENT = re.compile(r"evt-(\d{1,20})-[\w-]{1,64}\.json\Z")
_TASK = re.compile(r"task-[\w-]{1,64}\.json\Z")
_COST = re.compile(r"cost-[\w-]{1,80}\.json\Z")
_BYTES = 4 << 20
_SAID = ("content", "plan", "summary", "feedback", "reason", "lastTask", "capabilities")


class ClawTeamReader:
    """Reads every team of a data folder."""

    name = "clawteam"
    fields = ("leadAgentId", "members", "name")

    def sniff(self, source: Source) -> float:
        """Look for teams that have a configuration with a lead."""
        if "teams" not in source.names:
            return 0.0
        quiet = source.quiet()
        for team in quiet.child("teams").names[:5]:
            config = quiet.child(f"teams/{team}/config.json")
            if config.path.is_file() and "leadAgentId" in table(config.read_json(_BYTES)):
                return 0.95
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the talk of each team."""
        source.taken = frozenset(
            name for name in source.names if name in {"teams", "tasks", "costs", "sessions", "plans"}
        )
        for team in source.child("teams").names:
            if source.child(f"teams/{team}").folder:
                yield from _team(source, team)


def _team(source: Source, team: str) -> Iterator[Trace]:
    config = table(source.child(f"teams/{team}/config.json").read_json(_BYTES))
    members = {text(member.get("agentId")): text(member.get("name")) for member in objects(config.get("members"))}
    names = frozenset(members.values())
    lead = members.get(text(config.get("leadAgentId")), "")
    draft = TraceDraft(source)
    for name, record in _records(source.child(f"teams/{team}/events"), _EVENT):
        _event(draft, record, names, lead, name)
    tasks = [record for _, record in _records(source.child(f"tasks/{team}"), _TASK)]
    for record in sorted(tasks, key=lambda record: text(record.get("createdAt"))):
        owner = text(record.get("owner")) or "none"
        shown = f"[task {text(record.get('status'))}] {text(record.get('subject'))} (owner: {owner})"
        more = text(record.get("description"))
        draft.add(Piece("system", f"{shown}\n{more}" if more else shown), timestamp=when(record.get("updatedAt")))
    costs = [number(record.get("costCents")) or 0.0 for _, record in _records(source.child(f"costs/{team}"), _COST)]
    meta = {
        "agent": "clawteam",
        "team": team,
        "lead": lead,
        "members": ", ".join(sorted(names)),
        "cost_cents": f"{sum(costs):g}" if costs else "",
    }
    yield from draft.trace(task=_goal(config, draft), outcome=_outcome(tasks), meta=meta)


def _records(folder: Source, pattern: re.Pattern[str]) -> Iterator[tuple[str, dict[str, object]]]:
    for name in folder.names:
        entry = folder.child(name)
        if not pattern.match(name):
            if name.endswith(".json") and name != "summary.json":
                entry.skip("not a file of this folder's kind")
            continue
        value = entry.read_json(_BYTES)
        if isinstance(value, dict):
            yield name, value
        elif value is not None:
            entry.skip("not an object")


def _event(draft: TraceDraft, record: dict[str, object], names: frozenset[str], lead: str, file: str) -> None:
    sender, to, kind = text(record.get("from")), text(record.get("to")), text(record.get("type"), "message")
    said = "\n".join(part for key in _SAID if (part := text(record.get(key))))
    head = f"[{kind}] {sender} to {to or 'all'}"
    if not sender and not said:
        draft.source.child(f"teams/events/{file}").skip("an event without sender and text")
        return
    agent = None if sender == lead else sender
    shown = f"{head}: {said}" if said else head
    role: Role = "assistant" if sender in names or not names else "user"
    draft.add(Piece(role, shown), timestamp=when(record.get("timestamp")), agent=agent)


def _goal(config: dict[str, object], draft: TraceDraft) -> str | None:
    goal = text(config.get("description"))
    return goal or next((step.text for step in draft.steps if step.role in {"user", "assistant"}), None)


def _outcome(tasks: list[dict[str, object]]) -> Outcome | None:
    if not tasks:
        return None
    done = sum(text(task.get("status")) == "completed" for task in tasks)
    return claim(done == len(tasks), f"{done} of {len(tasks)} tasks marked completed")
