"""A service in a process of its own, and the runs that the benchmarks of it send."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from combee.redaction import Outcome, Step, ToolCall, Trace, to_jsonl, trace_id

_TEXT = "open the file and look for an error in the build output value path node status test failed passed module"
_WORDS = _TEXT.split()


async def start_service(folder: Path, **settings: Any) -> tuple[asyncio.subprocess.Process, str]:
    """Start a service in a folder; return its process and its address."""
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    lines = {"wait": 0, "settle": 0, **settings}
    (folder / "serve.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items()))
    with (folder / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "combee", "serve", str(folder), "--port", "0", "--json",
            stdout=asyncio.subprocess.PIPE, stderr=log,
        )  # fmt: skip
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError((folder / "log").read_text()[-2000:])
    return process, json.loads(line)["url"]


@asynccontextmanager
async def service(folder: Path, **settings: Any) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run a service for as long as the block."""
    process, url = await start_service(folder, **settings)
    try:
        yield process, url
    finally:
        process.terminate()
        await process.wait()


def run_of(number: int, size: int = 4000) -> tuple[str, bytes]:
    """Return the id and the line of a run of about `size` bytes that holds one lesson."""
    draw = random.Random(number)
    steps = [
        Step(0, "user", f"Count the rows of data.json, {number}."),
        Step(1, "assistant", "", (ToolCall("a", "bash", "jq length data.json"),)),
        Step(2, "tool", "bash: jq: command not found", answers="a", is_error=True),
        Step(3, "assistant", "", (ToolCall("b", "bash", "python3 -m json.tool data.json"),)),
        Step(4, "tool", "[1, 2]", answers="b", is_error=False),
    ]
    while size > 700 + sum(len(step.text) + 60 for step in steps[5:]):
        steps.append(Step(len(steps), "assistant", " ".join(draw.choices(_WORDS, k=60))))
    outcome = Outcome(success=True)
    name = trace_id("rows", steps, outcome, str(number))
    return name, "".join(to_jsonl([Trace(name, "Count the rows", tuple(steps), outcome)])).encode()


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its children that live, from /proc."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = path.read_text().rpartition(")")
        except OSError:
            continue
        fields = tail.split()
        if int(head.split(" ", 1)[0]) == pid or int(fields[1]) == pid:
            total += (int(fields[11]) + int(fields[12])) / 100
    return total


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024
