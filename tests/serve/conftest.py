"""A real service in a process of its own, and a small client."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from combee.redaction import Outcome, Step, ToolCall, Trace, to_jsonl, trace_id


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)


@dataclass
class Client:
    """Speaks to a service; `process` is the service."""

    url: str
    process: subprocess.Popen[bytes]
    folder: Path
    token: str | None = None

    def __call__(self, method: str, path: str, data: bytes | object = None, **headers: str) -> Answer:
        body = data if isinstance(data, bytes) or data is None else json.dumps(data).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            given.setdefault("Authorization", f"Bearer {self.token}")
        request = urllib.request.Request(self.url + path, body, given, method=method)  # noqa: S310  # http, our own
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return Answer(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, {k.lower(): v for k, v in error.headers.items()}, error.read())

    def until(self, what: Callable[[], Any], seconds: float = 60) -> Any:
        """Return the first true value of `what`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := what():
                return found
            time.sleep(0.1)
        pytest.fail(f"not within {seconds} s: {self('GET', '/v1/status').data!r}")

    def receipt(self, name: str) -> dict[str, Any]:
        found = self("GET", f"/v1/receipts/{name}").json["receipts"]
        return dict(found[0]) if found else {}

    def settled(self, name: str) -> dict[str, Any]:
        """Return the receipt of a trace when it waits no longer."""
        found = self.until(
            lambda: (r := self.receipt(name)).get("state") not in {None, "queued", "learning", "open"} and r
        )
        return dict(found)


Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def go(folder: Path | None = None, token: str | None = None, **settings: Any) -> Client:
        place = folder or tmp_path / "service"
        place.mkdir(exist_ok=True)
        lines = {"wait": 0, "settle": 0, **settings}
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
        (place / "serve.toml").write_text(text, encoding="utf-8")
        with (place / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "combee", "serve", str(place), "--port", "0", "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (place / "log").read_text()
        return Client(json.loads(line)["url"], process, place, token)

    yield go
    for process in running:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def mended_run(number: int, program: str = "jq", stand_in: str = "python3 -m json.tool", text: str = "") -> Trace:
    """Return a run in which a missing program was stood in for: one lesson for each program."""
    steps = (
        Step(0, "user", f"Count the rows of data.json. {text}"),
        Step(1, "assistant", "", (ToolCall("a", "bash", f"{program} length data.json"),)),
        Step(2, "tool", f"bash: {program}: command not found", answers="a", is_error=True),
        Step(3, "assistant", "", (ToolCall("b", "bash", f"{stand_in} data.json"),)),
        Step(4, "tool", "[1, 2]", answers="b", is_error=False),
        Step(5, "assistant", f"Done, {number}."),
    )
    outcome = Outcome(success=True)
    return Trace(trace_id("rows", steps, outcome, str(number)), "Count the rows", steps, outcome)


def lines(*traces: Trace) -> bytes:
    return "".join(to_jsonl(traces)).encode()


def packed(data: bytes) -> bytes:
    return gzip.compress(data)
