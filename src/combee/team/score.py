"""The four-part score of a team's run: tests, completion, coordination, collaboration. Weights are published.

Code that runs is not enough: a lead that edits production code gets no collaboration at all, so 0.6 is its most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from combee.errors import UsageError
from combee.team.history import Commit, LeadEdit, TeamHistory, is_production, is_test
from combee.team.state import TeamState

__all__ = ["WEIGHTS", "Roles", "TeamScore", "roles_of", "score_run"]

WEIGHTS = {"tests": 0.2, "completion": 0.2, "coordination": 0.2, "collaboration": 0.4}
"""What each part adds to the total; they sum to 1."""

_READY = re.compile(r"\bREADY\b")
_FAILURE = re.compile(
    r"::test_\w+|Traceback|\b\w*(?:Error|Exception)\b|assert |--- FAIL|\bFAIL(?:ED|URES?)?\b|panicked at|not ok \d|"
    r"[✗✕×]|[Ee]xpected .{1,80}(?:got|received|but was|actual)"
)
"""What the output of failing tests looks like, in the words of many runners; that "it fails" alone is none."""
_TESTS = re.compile(r"(?:^|[^a-z])(?:qa|tests?|tester|quality|review(?:er)?)(?:$|[^a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Roles:
    """Who is who, by name; `lead` is by default the one that ClawTeam's configuration names."""

    devs: tuple[str, ...]
    testers: tuple[str, ...] = ()
    lead: str = ""

    @property
    def workers(self) -> tuple[str, ...]:
        """Everyone but the lead."""
        return self.devs + self.testers


def roles_of(state: TeamState) -> Roles:
    """Return who is who in a team by what its members are called: who has `qa`, `test` or `review` in the name tests.

    Raises:
        UsageError: There is no member but the lead.
    """
    workers = [name for name in state.members if name != state.lead]
    if not workers:
        raise UsageError(f"The team {state.team!r} has no worker.", hint="Name them with --dev and --qa.")
    testers = tuple(name for name in workers if _TESTS.search(name))
    return Roles(tuple(name for name in workers if name not in testers), testers)


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
        roles: Names of developers and testers; by default `roles_of`.
    """
    roles = roles or roles_of(state)
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
    work = [commit for agent in roles.workers for commit in _work(history, agent)]
    if not work:
        return 0.0, ["nothing was handed to the workers"]
    missed: list[str] = []
    first = {commit.agent: commit.at for commit in reversed(work)}
    given = {task.owner: task.created for task in reversed(state.tasks)}
    if not all(agent in given and given[agent].replace(microsecond=0) <= at for agent, at in first.items()):
        missed.append("work began without a task")
    for dev in roles.devs:
        told = [message.text for message in state.messages if message.sender == lead and message.to == dev]
        told += [task.description for task in state.tasks if task.owner == dev]
        if (_work(history, dev) or len(roles.devs) == 1) and not any(_FAILURE.search(text) for text in told):
            missed.append(f"{dev} was not told what fails")
            break
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
    """0 where the lead edited; else the mean of: developers at work, testers at work, their branches merged."""
    lacking: list[str] = []
    parts: list[float] = []
    for agents, own in ((roles.devs, is_production), (roles.testers, is_test)):
        idle = [agent for agent in agents if not _at_work(state, history, agent, own)]
        parts += [1 - len(idle) / len(agents)] if agents else []
        lacking += [f"{agent} was not dispatched" for agent in idle]
    work = [commit for agent in roles.workers for commit in _work(history, agent)]
    parts.append(sum(commit.landed for commit in work) / len(work) if work else 0.0)
    if work and not all(commit.landed for commit in work):
        lacking.append("a branch was not merged, or not all of it")
    lacking += [f"the lead changed {edit.path} itself ({edit.kind})" for edit in edits]
    return (0.0 if edits else sum(parts) / len(parts)), lacking


def _at_work(state: TeamState, history: TeamHistory, agent: str, own: Callable[[str], bool]) -> bool:
    """Whether an agent was given a task, and changed files that are its own to change."""
    changed = any(own(path) for commit in _work(history, agent) for path in commit.files)
    return changed and any(task.owner == agent for task in state.tasks)
