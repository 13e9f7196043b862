"""Real clients: the exporter of OpenTelemetry, followed sessions, a webhook, Prometheus."""

from __future__ import annotations

import base64
import hmac
import json
import os
import subprocess
import sys
import threading
import time
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest  # noqa: TC002  # a type of a fixture, and no need for a block
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode
from prometheus_client.parser import text_string_to_metric_families

from mcp import Client as McpClient
from tests.serve.conftest import Client, Start, lines, mended_run


def _agent_run(client: Client) -> str:
    """Trace a run with the SDK as an instrumented agent does; return its trace id."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{client.url}/v1/traces")))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}) as root:
        asked = [{"role": "user", "parts": [{"type": "text", "content": "Count the rows of data.json"}]}]
        chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(asked)}
        with tracer.start_as_current_span("chat m", attributes=chat):
            pass
        for number, (call, result, failed) in enumerate(
            [
                ("jq length data.json", "bash: jq: command not found", True),
                ("python3 -m json.tool data.json", "[]", False),
            ]
        ):
            about = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "bash",
                "gen_ai.tool.call.id": f"c{number}",
                "gen_ai.tool.call.arguments": json.dumps({"command": call}),
                "gen_ai.tool.call.result": result,
            }
            with tracer.start_as_current_span("execute_tool bash", attributes=about) as span:
                if failed:
                    span.set_status(Status(StatusCode.ERROR, "exit 127"))
    provider.shutdown()  # sends what waits
    return format(root.get_span_context().trace_id, "032x")


def test_the_exporter_of_opentelemetry_sends_a_run_that_teaches(start: Start) -> None:
    client = start()
    receipt = client.settled(_agent_run(client))
    assert receipt["state"] == "learned"
    assert "`jq` may be missing" in client("GET", "/v1/playbook").data.decode()


def test_sessions_are_followed_and_sent_once_when_they_rest(start: Start, tmp_path: Path) -> None:
    client = start()
    sessions = tmp_path / "sessions" / "project"
    sessions.mkdir(parents=True)
    begin = time.time()
    old = sessions / "old.jsonl"
    old.write_bytes(lines(mended_run(9, "yq", "python3 -m yaml")))
    words = [sys.executable, "-m", "combee", "follow", str(tmp_path / "sessions"), "--to", client.url, "--rest", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        client.until((tmp_path / "sessions" / ".combee-sent.json").exists)
        (sessions / "new.jsonl").write_bytes(_claude_session())
        (sessions / "rollout.jsonl").write_bytes(_codex_session())
        for name in ("new", "rollout"):
            receipt = client.settled(f"project/{name}.jsonl")
            assert receipt["state"] == "learned"
        assert time.time() - begin < 60
        process.terminate()
    assert client.receipt("project/old.jsonl") == {}
    done = subprocess.run([*words, "--once"], capture_output=True, text=True, check=True)
    assert "new.jsonl" not in done.stdout


def _codex_session() -> bytes:
    """Return a session in the form that Codex writes."""

    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload}

    records = [{"timestamp": "t", "type": "session_meta", "payload": {"id": "s", "cli_version": "1"}}]
    asked = [{"type": "input_text", "text": "Count the rows of data.json"}]
    records.append(item(type="message", role="user", content=asked))
    calls = (("jq length data.json", "bash: jq: command not found", 127), ("python3 -m json.tool data.json", "[1]", 0))
    for number, (command, said, code) in enumerate(calls):
        arguments = json.dumps({"command": ["bash", "-lc", command]})
        output = json.dumps({"output": said, "metadata": {"exit_code": code}})
        records.append(item(type="function_call", name="shell", arguments=arguments, call_id=f"c{number}"))
        records.append(item(type="function_call_output", call_id=f"c{number}", output=output))
    return "".join(json.dumps(each) + "\n" for each in records).encode()


def _claude_session() -> bytes:
    """Return a session in the form that Claude Code writes."""
    head = {"sessionId": "s1", "cwd": "/w", "version": "2.0.0", "isSidechain": False, "userType": "external"}

    def record(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        parent = f"u{number - 1}" if number else None
        time_of = f"2026-01-01T00:00:{number:02d}.000Z"
        own = {"uuid": f"u{number}", "parentUuid": parent, "timestamp": time_of, "type": kind}
        return {**head, **own, "message": {"role": kind, "content": content}, **more}

    def call(name: str, command: str) -> list[dict[str, Any]]:
        return [{"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}]

    def result(name: str, text: str, *, failed: bool) -> list[dict[str, Any]]:
        return [{"type": "tool_result", "tool_use_id": name, "content": text, "is_error": failed}]

    records = [
        record(0, "user", "Count the rows of data.json"),
        record(1, "assistant", call("a", "jq length data.json")),
        record(2, "user", result("a", "bash: jq: command not found", failed=True)),
        record(3, "assistant", call("b", "python3 -m json.tool data.json")),
        record(4, "user", result("b", "[1, 2]", failed=False)),
        record(5, "assistant", [{"type": "text", "text": "Two rows."}]),
    ]
    return "".join(json.dumps(each) + "\n" for each in records).encode()


def test_alerts_reach_a_webhook_with_a_signature_that_holds(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[tuple[dict[str, str], bytes]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(500 if len(got) == 1 else 204)  # told again after a failure
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    key = b"k" * 24
    monkeypatch.setenv("COMBEE_WEBHOOK_SECRET", "whsec_" + base64.b64encode(key).decode())
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = start(max_backlog=1, wait=600, webhooks=[f"http://127.0.0.1:{server.server_port}/x"])
        client("POST", "/v1/runs", lines(mended_run(1)))
        client.until(lambda: len(got) >= 2)
        server.shutdown()
    headers, body = got[1]
    assert json.loads(body)["type"] == "combee.backlog"
    signed = hmac.new(key, f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body, sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(signed).decode()
    assert got[0][0]["webhook-id"] == headers["webhook-id"]


def test_prometheus_reads_the_metrics(start: Start) -> None:
    client = start()
    trace = mended_run(1)
    client("POST", "/v1/runs", lines(trace))
    client.settled(trace.id)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(client("GET", "/metrics").data.decode())
        for sample in family.samples
    }
    assert found["combee_backlog_traces",] == 0
    assert found["combee_traces", "learned"] == 1
    assert found["combee_cost_dollars_total",] == 0


async def test_an_agent_speaks_mcp_over_http_and_what_it_reports_is_learned(start: Start) -> None:
    client = start()
    trace = mended_run(1)
    client("POST", "/v1/runs", lines(trace))
    client.settled(trace.id)
    async with McpClient(f"{client.url}/mcp") as agent:
        found = await agent.call_tool("get_playbook", {"task": "count the rows"})
        assert "`jq` may be missing" in str(found.content)
        messages = [{"role": "user", "content": "Say hello"}, {"role": "assistant", "content": "hello"}]
        said = await agent.call_tool("report_trace", {"task": "say hello", "messages": messages})
        stored = json.loads(said.content[0].text)["stored"]  # type: ignore[union-attr]
        voted = await agent.call_tool("vote", {"bullet": "err-00001", "helpful": True})
    assert client.settled(stored)["state"] == "taught nothing"
    vote = json.loads(voted.content[0].text)["stored"]  # type: ignore[union-attr]
    assert client.settled(vote)["why"] == "a vote on err-00001"
    assert client("GET", "/v1/lessons").json["lessons"][0]["helpful"] == 1
