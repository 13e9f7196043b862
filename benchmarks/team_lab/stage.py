"""What scripted agents do on: a real git repository with work trees, and state files as ClawTeam 0.2.0 writes them.

Its clock goes by steps, so the same play gives the same bytes and commits. Every step, message and token is counted.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from combee.kernel.playbook import count_tokens
from combee.run.git import git
from combee.team.hooks import record_transitions
from combee.team.score import Roles

__all__ = ["Cost", "Stage"]

_START = datetime(2026, 1, 5, 10, tzinfo=UTC)


@dataclass(slots=True)
class Cost:
    """What a run took: messages sent, steps (commands, edits, test runs), tokens read or written (4 characters)."""

    messages: int = 0
    steps: int = 0
    tokens: int = 0


class Stage:
    """One team at work on one repository."""

    def __init__(self, repository: Path, data: Path, team: str, goal: str, roles: Roles) -> None:
        self.repository, self.data, self.team, self.roles = repository, data, team, roles
        self.cost = Cost()
        self._second = 0
        self._number = 0
        members = [
            {"name": name, "agentId": f"id-{name}", "agentType": "general-purpose"}
            for name in (roles.lead, roles.devs[0], roles.testers[0])
        ]
        config = {"name": team, "description": goal, "leadAgentId": f"id-{roles.lead}", "members": members}
        self._put(f"teams/{team}/config.json", config)

    def read(self, text: str) -> None:
        """Count a text that an agent reads or writes as a step."""
        self.cost.steps += 1
        self.cost.tokens += count_tokens(text)

    def say(self, sender: str, to: str, text: str) -> None:
        """Send a message: it is written once and read once."""
        self.cost.messages += 1
        self.cost.tokens += count_tokens(text)
        self.read(text)
        at = self._tick()
        name = f"evt-{int(at.timestamp() * 1000)}-{self._next()}.json"
        row = {"type": "message", "from": sender, "to": to, "content": text, "timestamp": at.isoformat()}
        self._put(f"teams/{self.team}/events/{name}", row)

    def give(self, owner: str, subject: str, description: str) -> str:
        """Create a task and return its id."""
        self.read(f"{subject}\n{description}")
        name, at = self._next(), self._tick().isoformat()
        row = {"id": name, "subject": subject, "description": description, "owner": owner, "status": "pending"}
        self._put(f"tasks/{self.team}/task-{name}.json", {**row, "createdAt": at, "updatedAt": at})
        record_transitions(self.data, self.team, by=self.roles.lead, at=at)
        return name

    def move(self, task: str, status: str, by: str) -> None:
        """Change the status of a task."""
        self.cost.steps += 1
        path = self.data / "tasks" / self.team / f"task-{task}.json"
        row = json.loads(path.read_text(encoding="utf-8"))
        at = self._tick().isoformat()
        path.write_text(json.dumps({**row, "status": status, "updatedAt": at}), encoding="utf-8")
        record_transitions(self.data, self.team, by=by, at=at)

    def spawn(self, agent: str) -> Path:
        """Give an agent a work tree on a branch of its own, as ClawTeam does."""
        self.cost.steps += 1
        tree = self.data / "workspaces" / self.team / agent
        git(self.repository, "worktree", "add", "-q", "-b", self.branch(agent), str(tree), "main")
        return tree

    def branch(self, agent: str) -> str:
        """Return the name of an agent's branch."""
        return f"clawteam/{self.team}/{agent}"

    def write(self, folder: Path, path: str, text: str) -> None:
        """Read a file and write it anew."""
        file = folder / path
        self.read(file.read_text(encoding="utf-8") + text)
        file.write_text(text, encoding="utf-8")

    def commit(self, folder: Path, agent: str, subject: str) -> None:
        """Commit all that changed, signed with the trailer; nothing changed is no commit."""
        self.cost.steps += 1
        git(folder, "add", "-A")
        if git(folder, "status", "--porcelain"):
            git(folder, "commit", "-q", "-m", f"{subject}\n\nAgent: {agent}", environment=self._identity(agent))

    def merge(self, agent: str, *, edit: tuple[str, str] | None = None) -> None:
        """Merge an agent's branch, remove its work tree and branch; `edit` (path, text) slips into the commit."""
        self.cost.steps += 1
        lead, branch = self.roles.lead, self.branch(agent)
        if not git(self.repository, "rev-list", f"main..{branch}"):
            self.remove(agent)  # nothing was committed: there is nothing to merge
            return
        git(self.repository, "merge", "-q", "--no-ff", "--no-commit", branch, environment=self._identity(lead))
        if edit is not None:
            self.write(self.repository, *edit)
            git(self.repository, "add", edit[0])
        message = f"Merge branch '{branch}'\n\nAgent: {lead}"
        git(self.repository, "commit", "-q", "-m", message, environment=self._identity(lead))
        self.remove(agent)

    def remove(self, agent: str) -> None:
        """Remove an agent's work tree and branch."""
        tree = self.data / "workspaces" / self.team / agent
        git(self.repository, "worktree", "remove", "--force", str(tree))
        git(self.repository, "branch", "-q", "-D", self.branch(agent))
        shutil.rmtree(tree, ignore_errors=True)

    def _put(self, below: str, value: object) -> None:
        path = self.data / below
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")

    def _tick(self) -> datetime:
        self._second += 7
        return _START + timedelta(seconds=self._second)

    def _next(self) -> str:
        self._number += 1
        return f"{self._number:08x}"

    def _identity(self, agent: str) -> dict[str, str]:
        at, mail = self._tick().isoformat(), f"{agent}@example.org"
        return {
            "GIT_AUTHOR_NAME": agent,
            "GIT_AUTHOR_EMAIL": mail,
            "GIT_AUTHOR_DATE": at,
            "GIT_COMMITTER_NAME": agent,
            "GIT_COMMITTER_EMAIL": mail,
            "GIT_COMMITTER_DATE": at,
        }
