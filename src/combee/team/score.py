"""The four-part score of a team's run: tests, completion, coordination, collaboration. Weights are published.

Code that runs is not enough: a lead that edits production code gets no collaboration at all, so 0.6 is its most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from combee.team.history import Commit, LeadEdit, TeamHistory, is_production
from combee.team.state import TeamState

__all__ = ["WEIGHTS", "Roles", "TeamScore", "score_run"]

WEIGHTS = {"tests": 0.2, "completion": 0.2, "coordination": 0.2, "collaboration": 0.4}
"""What each part adds to the total; they sum to 1."""

_READY = re.compile(r"\bREADY\b")
_FAILURE = re.compile(r"::test_\w+|Traceback|\b\w*Error\b|assert ")


@dataclass(frozen=True, slots=True)
class Roles:
    """Who is who. `lead` is by default the one that ClawTeam's configuration names."""

    dev: str = "python-dev"
    qa: str = "qa-dev"
    lead: str = ""


@dataclass(frozen=True, slots=True)
class TeamScore:
    """Each part from 0 to 1; `reasons` says in words what was missed, `lead_edits` what the lead changed itself."""

    tests: float
    completion: float
    coordination: float
    collaboration: float
    reasons: tuple[str, ...] = ()
    lead_edits: tuple[LeadEdit, ...] = ()

    @property
    def total(self) -> float:
        """The weighted sum, 0 to 1."""
        return sum(weight * float(getattr(self, part)) for part, weight in WEIGHTS.items())


def score_run(
    state: TeamState,
    history: TeamHistory,
    tests: Mapping[str, bool],
    *,
    expected: Iterable[str] = (),
    roles: Roles | None = None,
) -> TeamScore:
    """Score one run.

    Args:
        state: What the team said.
        history: What it did.
        tests: Outcomes of the tests of the base branch's last commit.
        expected: Tests that must be there; a missing one has failed (a file that cannot be imported hides its tests).
        roles: Names of the developer and the tester.
    """
    roles = roles or Roles()
    lead = roles.lead or state.lead
    names = {*tests, *expected}
    passed = sum(tests.get(name, False) for name in names)
    ratio = passed / len(names) if names else 0.0
    reasons = [] if passed == len(names) else [f"{len(names) - passed} of {len(names)} tests fail at the end"]
    completion = _completion(state, history, complete=bool(names) and passed == len(names))
    if completion < 1:
        reasons.append("not every task is completed and merged")
    coordination, missed = _coordination(state, history, lead, roles)
    edits = history.lead_edits(lead)
    collaboration, lacking = _collaboration(state, history, edits, roles)
    return TeamScore(ratio, completion, coordination, collaboration, (*reasons, *missed, *lacking), edits)


def _completion(state: TeamState, history: TeamHistory, *, complete: bool) -> float:
    """Share of tasks that are marked completed and whose owner's work is in; without tasks, whether all tests pass."""
    if not state.tasks:
        return float(complete)
    landed = {commit.agent for commit in history.commits if commit.landed and commit.merged is None}
    done = sum(task.status == "completed" and task.owner in landed for task in state.tasks)
    return done / len(state.tasks)


def _work(history: TeamHistory, agent: str) -> list[Commit]:
    return [commit for commit in history.commits if commit.agent == agent and commit.merged is None]


def _coordination(state: TeamState, history: TeamHistory, lead: str, roles: Roles) -> tuple[float, list[str]]:
    """Three checks: work is assigned before it begins, the failure is told, merges wait for READY."""
    work = [commit for agent in (roles.dev, roles.qa) for commit in _work(history, agent)]
    if not work:
        return 0.0, ["nothing was handed to the workers"]
    missed: list[str] = []
    first = {commit.agent: commit.at for commit in reversed(work)}
    given = {task.owner: task.created for task in reversed(state.tasks)}
    if not all(agent in given and given[agent].replace(microsecond=0) <= at for agent, at in first.items()):
        missed.append("work began without a task")
    told = [message.text for message in state.messages if message.sender == lead and message.to == roles.dev]
    told += [task.description for task in state.tasks if task.owner == roles.dev]
    if not any(_FAILURE.search(text) for text in told):
        missed.append(f"{roles.dev} was not told what fails")
    merges = [commit for commit in history.commits if commit.merged]
    ready = {(message.sender, message.at) for message in state.messages if _READY.search(message.text)}
    early = [
        commit
        for commit in merges
        if not any(who == commit.merged and at.replace(microsecond=0) <= commit.at for who, at in ready)
    ]
    if early or not merges:
        missed.append(f"{early[0].merged} was merged before it said READY" if early else "nothing was merged")
    return 1 - len(missed) / 3, missed


def _collaboration(
    state: TeamState, history: TeamHistory, edits: tuple[LeadEdit, ...], roles: Roles
) -> tuple[float, list[str]]:
    """0 where the lead edited; else the mean of: developer at work, tester at work, their branches merged."""
    lacking: list[str] = []
    parts: list[float] = []
    for agent, own in ((roles.dev, is_production), (roles.qa, _is_test)):
        at_work = any(own(path) for commit in _work(history, agent) for path in commit.files)
        assigned = any(task.owner == agent for task in state.tasks)
        parts.append(float(at_work and assigned))
        if not (at_work and assigned):
            lacking.append(f"{agent} was not dispatched")
    work = [commit for agent in (roles.dev, roles.qa) for commit in _work(history, agent)]
    parts.append(sum(commit.landed for commit in work) / len(work) if work else 0.0)
    if work and not all(commit.landed for commit in work):
        lacking.append("a branch was not merged, or not all of it")
    lacking += [f"the lead changed {edit.path} itself ({edit.kind})" for edit in edits]
    return (0.0 if edits else sum(parts) / len(parts)), lacking


def _is_test(path: str) -> bool:
    return path.endswith(".py") and not is_production(path)
