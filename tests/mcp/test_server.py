"""The MCP server with a real client of the mcp package, over stdio, in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.errors import UsageError
from combee.kernel.guard import Policy
from combee.mcp import REPORTED, LessonStore
from combee.redaction import Step, ToolCall, Trace, to_jsonl
from combee.traces.mining import TraceFile

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp.client.stdio import stdio_client

from mcp import Client, StdioServerParameters

SECRET = "ghp_" + "aB3" * 12


def called(name: str, command: str) -> dict[str, Any]:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": name, "type": "function", "function": function}],
    }


CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "Install jq and use it"},
    called("1", "jq ."),
    {"role": "tool", "tool_call_id": "1", "content": f"bash: jq: command not found\n{SECRET}"},
    called("2", "apt-get install -y jq && jq ."),
    {"role": "tool", "tool_call_id": "2", "content": "{}"},
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on traces: one lesson of tenant a, one of tenant b."""
    folder = tmp_path_factory.mktemp("mcp")
    recorded = []
    for tenant, package in (("a", "six"), ("b", "attrs")):
        rows = [("python3 x.py", f"ModuleNotFoundError: No module named '{package}'", True)]
        rows += [(f"pip install {package}", "ok", False), ("python3 x.py", "done", False)]
        steps = [Step(0, "user", "go")]
        for number, (command, output, error) in enumerate(rows):
            steps.append(Step(len(steps), "assistant", "", (ToolCall(f"c{number}", "bash", command),)))
            steps.append(Step(len(steps), "tool", output, answers=f"c{number}", is_error=error))
        recorded.append(Trace(f"t-{tenant}", "go", tuple(steps), labels={"tenant": tenant}))
    traces = folder / "in.jsonl"
    traces.write_text("".join(to_jsonl(recorded)))
    assert run(["learn", "--from", str(traces), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder / "run"


@asynccontextmanager
async def connected(*arguments: str) -> AsyncIterator[Client]:
    server = StdioServerParameters(command=sys.executable, args=["-m", "combee", "mcp", *arguments])
    async with Client(stdio_client(server)) as client:
        yield client


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def test_a_client_reads_votes_and_reports_and_the_next_run_learns_from_it(made: Path, tmp_path: Path) -> None:
    async with connected(str(made), "--label", "tenant=a") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"get_playbook", "report_trace", "vote"}
        shown = text_of(await client.call_tool("get_playbook", {"task": "use six in python"}))
        bullet = next(line[1:].split("]")[0] for line in shown.splitlines() if "`six`" in line)
        for _ in range(2):
            assert not (await client.call_tool("vote", {"bullet": bullet, "helpful": True})).is_error
        reported = await client.call_tool("report_trace", {"task": "jq", "messages": CHAT, "success": True})
        assert json.loads(text_of(reported))["redacted"] == {"github_token": 1} or SECRET not in text_of(reported)
        unknown = await client.call_tool("vote", {"bullet": "nope-1"})
        assert unknown.is_error
        assert "no bullet" in text_of(unknown)
        bad = await client.call_tool("report_trace", {"task": "x", "messages": []})
        assert bad.is_error
    kept = (made / REPORTED).read_text(encoding="utf-8")
    assert SECRET not in kept
    traces = [trace for trace in TraceFile(made / REPORTED) if trace.steps]
    assert traces[0].labels == {"tenant": "a"}
    assert traces[0].outcome is not None
    assert traces[0].outcome.claimed
    again = [
        "learn",
        "--from",
        str(made / REPORTED),
        "--start",
        str(made / "playbook.json"),
        "--out",
        str(tmp_path / "r2"),
    ]
    assert run([*again, "--quiet"]) == 0
    learned = json.loads((tmp_path / "r2" / "playbook.json").read_text(encoding="utf-8"))
    by_id = {each["id"]: each for each in learned["bullets"]}
    assert by_id[bullet]["helpful"] == 1
    assert any("`jq`" in each["text"] for each in learned["bullets"])


@pytest.mark.skipif(shutil.which("mcp-inspector") is None, reason="MCP's inspector is not installed")
def test_the_inspector_of_the_protocol_sees_the_tools_and_calls_one(made: Path) -> None:
    def inspect(*arguments: str) -> dict[str, Any]:
        server = [sys.executable, "-m", "combee", "mcp", str(made)]
        command = ["mcp-inspector", "--cli", *server, "--method", *arguments]
        found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return found

    assert {tool["name"] for tool in inspect("tools/list")["tools"]} == {"get_playbook", "report_trace", "vote"}
    called = inspect("tools/call", "--tool-name", "get_playbook", "--tool-arg", "task=use six in python")
    assert called["isError"] is False
    assert "`six`" in called["content"][0]["text"]


async def test_read_only_offers_the_playbook_alone(made: Path) -> None:
    async with connected(str(made / "playbook.json")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["get_playbook"]


def test_labels_decide_who_may_see_a_lesson(made: Path) -> None:
    everything = LessonStore(made).lessons("python", 4000)
    assert "`six`" in everything
    assert "`attrs`" in everything
    own = LessonStore(made, policy=Policy(tenants=frozenset({"a"})))
    assert "`attrs`" not in own.lessons("attrs", 4000)
    hidden = next(bullet.id for bullet in LessonStore(made).playbook() if "`attrs`" in bullet.text)
    with pytest.raises(UsageError, match="no bullet"):
        own.vote(hidden, helpful=True, session="s")
    assert LessonStore(made, policy=Policy(clearance="public")).lessons("python", 4000) == ""


def test_a_view_stays_under_its_budget_and_a_cut_line_is_mended(made: Path, tmp_path: Path) -> None:
    assert len(LessonStore(made).lessons("six", 60)) <= 240
    reports = tmp_path / "r.jsonl"
    reports.write_bytes(b'{"combee_trace": 1, "id": "cut')
    LessonStore(made, reports=reports).report("x", CHAT, success=None)
    assert reports.read_bytes().count(b"\n") == 2
