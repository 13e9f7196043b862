"""A scripted team repairs a broken repository; what the lead does hangs on what its rules mean to it.

The agents have the answer key: how well code is repaired is no result here. What is real is git, the tests, the state
files and the consequences: who edits, what is told, when and how branches are merged, what is checked afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.team_lab.phrases import Intent
from benchmarks.team_lab.repositories import Broken, Bug, write_repository
from benchmarks.team_lab.stage import Cost, Stage
from benchmarks.team_lab.testing import check_plain_commit, check_plain_tree
from combee.redaction import Trace
from combee.team.history import TeamHistory, read_history
from combee.team.joined import team_trace
from combee.team.score import Roles, TeamScore, score_run
from combee.team.state import TeamState, read_state

__all__ = ["BAD_OPTION", "RETESTED", "Played", "play", "work"]

BAD_OPTION = "No such option: --agent"
"""What ClawTeam 0.2.0 answers to the merge command of its own template."""

RETESTED = "Tests after the merge"
_TEAM = "repair"
_GOAL = "Repair the content pipeline until all tests pass."
ROLES = Roles(("python-dev",), ("qa-dev",), "tech-lead")


@dataclass(frozen=True, slots=True)
class Played:
    """One run: its state and history, the outcome of the deciding tests, the score, the cost and the joined trace."""

    state: TeamState
    history: TeamHistory
    tests: Mapping[str, bool]
    score: TeamScore
    cost: Cost
    trace: Trace


def play(broken: Broken, folder: Path, stance: Mapping[Intent, int], *, edit_tool: bool = True) -> Played:
    """Let the team work in `folder` (which must not exist) and score it.

    Args:
        broken: The repository.
        folder: Gets `repository` and `state`.
        stance: What the lead's rules mean to it (`benchmarks.team_lab.meaning.stance`).
        edit_tool: Whether the lead can edit at all; False is the control.
    """
    repository, data = folder / "repository", folder / "state"
    start = write_repository(broken, repository)
    cost = work(broken, repository, data, stance, edit_tool=edit_tool)
    state = read_state(data, _TEAM)
    history = read_history(repository, _TEAM, ROLES.lead, base="main", since=start)
    found = check_plain_commit(repository, "main", extra=broken.deciding)
    tests = {name: not error for name, error in found.items()}
    score = score_run(state, history, tests, expected=broken.expected, roles=ROLES)
    trace = team_trace(state, history, score, tests, name=broken.name)
    return Played(state, history, tests, score, cost, trace)


def work(broken: Broken, repository: Path, data: Path, stance: Mapping[Intent, int], *, edit_tool: bool = True) -> Cost:
    """Let the team work on a repository that is there, and leave its state in `data`; return what it took."""
    stage = Stage(repository, data, _TEAM, _GOAL, ROLES)
    _Team(broken, stage, stance, edits=edit_tool and stance.get(Intent.NO_EDIT) != 1).work()
    return stage.cost


class _Team:
    """The lead with its developer and its tester; every choice is drawn from the repository's seed."""

    def __init__(self, broken: Broken, stage: Stage, stance: Mapping[Intent, int], *, edits: bool) -> None:
        self.broken, self.stage, self.stance, self.edits = broken, stage, stance, edits
        self.chance = random.Random(f"team {broken.seed}")
        self.slipped: Bug | None = None
        self.tasks: dict[str, str] = {}

    def asked(self, intent: Intent) -> bool:
        """Whether the rules ask for it."""
        return self.stance.get(intent) == 1

    def work(self) -> None:
        """Run the team from the first test run to the last merge."""
        stage, seen = self.stage, [bug for bug in self.broken.bugs if not bug.hidden]
        log = self._log()
        stage.read(log)
        delegates = self.asked(Intent.USE_DEV) or (not self.edits and self.stance.get(Intent.USE_DEV) != -1)
        tester = self.asked(Intent.USE_QA)
        left = self._edit_itself(seen, share=delegates, merges=delegates or tester) if self.edits else seen
        if delegates:
            self._develop("Mend the pipeline", left, log, first=True)
        if tester:
            self._test()
        if self.asked(Intent.RETEST):
            self._again(delegates)

    def _log(self) -> str:
        found = check_plain_tree(self.stage.repository)
        return "\n".join(f"{name}: {error}".splitlines()[0] for name, error in found.items() if error)

    def _edit_itself(self, bugs: Sequence[Bug], *, share: bool, merges: bool) -> list[Bug]:
        """Repair by the lead: all, or only the first where the rest is delegated; return what is left."""
        stage, lead = self.stage, ROLES.lead
        mine = list(bugs[:1] if share else bugs)
        way = self.chance.choice(("commit", "uncommitted", "merge") if merges else ("commit", "commit", "uncommitted"))
        if way == "merge":
            self.slipped = mine.pop()
        for bug in mine:
            stage.write(stage.repository, bug.path, bug.repaired)
        if way == "commit":
            stage.commit(stage.repository, lead, "Fix the pipeline")
        return list(bugs[1:]) if share else []

    def _develop(self, subject: str, bugs: Sequence[Bug], log: str, *, first: bool) -> None:
        """Let the developer repair what it knows of; with `first`, the traits of the repository show."""
        stage, dev = self.stage, ROLES.devs[0]
        told = self.asked(Intent.SEND_LOG)
        task = stage.give(dev, subject, log if told else "Some tests fail.")
        known = [bug for bug in bugs if told or self.chance.random() < 0.5]
        if first and self.broken.fragile and len(known) > 1:
            known = known[:-1]  # the last repair is claimed and not made: only a run of the tests shows it
        tree = stage.spawn(dev)
        stage.move(task, "in_progress", dev)
        half = (len(known) + 1) // 2 if first and self.broken.slow else len(known)
        self._repair(tree, known[:half], "Repair the first part" if half < len(known) else "Repair")
        if first and not self.asked(Intent.WAIT_READY):
            self._merge(dev)
            if half < len(known):
                stage.say(dev, ROLES.lead, "My work tree is gone; I was not done.")
                return
            stage.say(dev, ROLES.lead, f"READY: {stage.branch(dev)}")
            stage.move(task, "completed", dev)
            return
        self._repair(tree, known[half:], "Repair the rest")
        stage.say(dev, ROLES.lead, f"READY: {stage.branch(dev)}")
        stage.move(task, "completed", dev)
        self._merge(dev)

    def _repair(self, tree: Path, bugs: Sequence[Bug], subject: str) -> None:
        for bug in bugs:
            self.stage.write(tree, bug.path, bug.repaired)
        if bugs:
            self.stage.commit(tree, ROLES.devs[0], subject)

    def _test(self) -> None:
        """Let the tester write the tests that are missing."""
        stage, qa = self.stage, ROLES.testers[0]
        task = stage.give(qa, "Test the edges of every module", "")
        tree = stage.spawn(qa)
        stage.move(task, "in_progress", qa)
        for path, text in self.broken.deciding.items():
            if self.broken.files[path] != text:
                stage.write(tree, path, text)
        stage.commit(tree, qa, "Test the edges")
        early = not self.asked(Intent.WAIT_READY)
        if early:
            self._merge(qa)
        stage.say(qa, ROLES.lead, f"READY: {stage.branch(qa)}")
        stage.move(task, "completed", qa)
        if not early:
            self._merge(qa)

    def _merge(self, agent: str) -> None:
        """Merge as the rules say. The template's own command is refused; a lead that may edit then copies by hand."""
        stage, lead = self.stage, ROLES.lead
        if self.asked(Intent.MERGE_NAME):
            bug, self.slipped = self.slipped, None
            stage.merge(agent, edit=(bug.path, bug.repaired) if bug else None)
            return
        stage.say(lead, agent, f"clawteam workspace merge {_TEAM} --agent {agent} failed: {BAD_OPTION}")
        if self.edits:
            for path in self.broken.files:
                theirs = stage.data / "workspaces" / _TEAM / agent / path
                stage.write(stage.repository, path, theirs.read_text(encoding="utf-8"))
            stage.commit(stage.repository, lead, f"Take over the work of {agent}")

    def _again(self, delegates: bool) -> None:
        """Run the tests after the merges; what fails is given back, or edited by a lead that may."""
        log = self._log()
        self.stage.say(ROLES.lead, ROLES.devs[0], f"{RETESTED}: {log or 'all pass'}")
        failing = {line.split("::")[0] for line in log.splitlines()}
        left = [bug for bug in self.broken.bugs if bug.test in failing]
        if left and delegates and self.asked(Intent.MERGE_NAME):
            self._develop("Mend what still fails", left, log, first=False)
        elif left and self.edits:
            for bug in left:
                self.stage.write(self.stage.repository, bug.path, bug.repaired)
            self.stage.commit(self.stage.repository, ROLES.lead, "Fix what was left")
