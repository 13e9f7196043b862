"""State and git history of a team as one trace: talk, tasks, commits, merges and edits in the order they happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from combee.redaction import Outcome, Role, Step, Trace, trace_id
from combee.team.history import Commit, TeamHistory, is_production
from combee.team.score import TeamScore
from combee.team.state import TeamState

__all__ = ["team_trace"]


@dataclass(frozen=True, slots=True)
class _Happening:
    at: datetime
    rank: int  # git has whole seconds: within one, a task is given first, talk comes next, merges last
    agent: str
    role: Role
    text: str


def team_trace(
    state: TeamState,
    history: TeamHistory,
    score: TeamScore | None = None,
    tests: Mapping[str, bool] | None = None,
    *,
    name: str = "",
) -> Trace:
    """Return one trace; the lead's steps are the main line, those of others name their agent.

    Without a score the outcome is empty: what agents say of their own tasks is no result.
    """
    happened = sorted(_all(state, history), key=lambda one: (one.at.replace(microsecond=0), one.rank, one.at))
    steps = [
        Step(at, one.role, one.text, timestamp=one.at.isoformat(), agent=None if one.agent == state.lead else one.agent)
        for at, one in enumerate(happened)
    ]
    for path in history.uncommitted:
        code = "production code" if is_production(path) else "no production code"
        steps.append(Step(len(steps), "tool", f"[uncommitted] {path} in the base work tree ({code})"))
    outcome = None
    if score is not None:
        detail = "; ".join(score.reasons)
        passed = score.total >= 1 - 1e-9
        outcome = Outcome(passed, round(score.total, 6), tests=dict(tests or {}), detail=detail)
    found = tuple(steps)
    meta = {"agent": "clawteam", "team": state.team, "lead": state.lead, "members": ", ".join(state.members)}
    if name:
        meta["task_id"] = name
    return Trace(trace_id(state.goal, found, outcome, name), state.goal, found, outcome, meta=meta)


def _all(state: TeamState, history: TeamHistory) -> Iterable[_Happening]:
    owners = {task.id: task.owner for task in state.tasks}
    for task in state.tasks:
        text = f"[task] {task.subject} (owner: {task.owner or 'none'}, last state: {task.status})"
        more = f"\n{task.description}" if task.description else ""
        yield _Happening(task.created, 0, "", "system", text + more)
    for move in state.transitions:
        if move.before:
            text = (
                f"[task of {owners.get(move.task) or 'none'}] {move.before} to {move.after}, by {move.by or 'unknown'}"
            )
            yield _Happening(move.at, 1, move.by, "system", text)
    for said in state.messages:
        known: Role = "assistant" if said.sender in state.members else "user"
        yield _Happening(
            said.at, 2, said.sender, known, f"[{said.kind}] {said.sender} to {said.to or 'all'}: {said.text}"
        )
    for commit in history.commits:
        yield _Happening(commit.at, 2 if commit.merged is None else 3, commit.agent, "assistant", _shown(commit))


def _shown(commit: Commit) -> str:
    landed = "" if commit.landed else ", not merged"
    if commit.merged is None:
        signed = "" if commit.signed else ", author concluded from the branch"
        return f"[commit {commit.sha}] {commit.agent}: {commit.subject} ({', '.join(commit.files)}{landed}{signed})"
    by_hand = [path for path in commit.edited if path not in commit.resolved]
    more = f"; edited in the merge: {', '.join(by_hand)}" if by_hand else ""
    more += f"; conflicts resolved: {', '.join(commit.resolved)}" if commit.resolved else ""
    return f"[merge {commit.sha}] {commit.agent} merged {commit.merged or 'a branch'}{more}{landed}"
