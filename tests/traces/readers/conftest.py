"""Writers of small folders and files in the formats that are read, as their programs write them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from combee.redaction import Trace
from combee.traces.readers import Report, read

Read = Callable[[Path], tuple[list[Trace], Report]]
WriteLines = Callable[[str, Sequence[object]], Path]
WriteTeam = Callable[..., Path]


@pytest.fixture
def read_all() -> Read:
    """Read everything below a path, format by content."""

    def run(path: Path) -> tuple[list[Trace], Report]:
        result = read(path)
        return list(result), result.report

    return run


@pytest.fixture
def write_lines(tmp_path: Path) -> WriteLines:
    """Write JSON lines into a file below the test's folder (a text is written as it is)."""

    def write(name: str, values: Sequence[object]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def write_team(tmp_path: Path) -> WriteTeam:
    """Write a ClawTeam data folder: a lead, a developer and a tester who mend a repository, in the files of 0.2.0."""

    def write(name: str = "data", team: str = "repair", *, seed: int = 0, done: bool = True) -> Path:
        chance = random.Random(seed)
        root = tmp_path / name
        ids = {member: f"{chance.randrange(16**12):012x}" for member in ("tech-lead", "python-dev", "qa-dev")}
        clock = 1_790_000_000_000 + seed

        def put(below: str, value: object) -> None:
            path = root / below
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value, indent=2), encoding="utf-8")

        members = [
            # agentType lies: the lead is named by leadAgentId alone.
            {
                "name": member,
                "user": "",
                "agentId": ids[member],
                "agentType": "general-purpose",
                "joinedAt": "2026-09-01",
            }
            for member in ids
        ]
        put(
            f"teams/{team}/config.json",
            {"name": team, "description": "Make the tests of calc pass", "leadAgentId": ids["tech-lead"],
             "createdAt": "2026-09-01T10:00:00+00:00", "members": members, "budgetCents": 0.0},
        )  # fmt: skip
        talk = [
            ("message", "tech-lead", "python-dev", "Please fix calc.add: it subtracts."),
            ("plan_approval_request", "python-dev", "tech-lead", "Plan: change - to + in calc.py"),
            (
                "message",
                "python-dev",
                "tech-lead",
                "`clawteam workspace merge --agent python-dev` fails: no such option",
            ),
            ("broadcast", "tech-lead", "qa-dev", "Merge with `clawteam workspace merge repair python-dev`."),
            ("idle", "qa-dev", "tech-lead", "All 5 tests pass."),
        ]
        for at, (kind, sender, to, said) in enumerate(talk):
            clock += chance.randrange(1000, 60000)
            stamp = f"2026-09-01T10:0{at}:00+00:00"
            field = "plan" if kind == "plan_approval_request" else "content"
            put(
                f"teams/{team}/events/evt-{clock}-{chance.randrange(16**8):08x}.json",
                {"type": kind, "from": sender, "to": to, field: said, "requestId": "r", "timestamp": stamp},
            )
        for at, (owner, subject) in enumerate([("python-dev", "Fix calc.add"), ("qa-dev", "Run the tests")]):
            status = "completed" if done or at == 0 else "blocked"
            put(
                f"tasks/{team}/task-{chance.randrange(16**8):08x}.json",
                {"id": str(at), "subject": subject, "description": "", "status": status, "priority": "medium",
                 "owner": owner, "createdAt": f"2026-09-01T10:00:0{at}", "updatedAt": f"2026-09-01T10:05:0{at}"},
            )  # fmt: skip
        put(f"costs/{team}/cost-{clock}-ab12.json", {"agentName": "qa-dev", "costCents": 12.5, "inputTokens": 900})
        put(f"teams/{team}/spawn_registry.json", {"qa-dev": {"backend": "tmux", "command": ["claude"]}})
        put(f"sessions/{team}/qa-dev.json", {"agentName": "qa-dev", "teamName": team, "sessionId": "s", "state": {}})
        return root

    return write
