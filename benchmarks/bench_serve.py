"""A service under load: runs and OpenTelemetry taken a second, processor time, latency while it learns, a burst.

Clients are in this process and take their share of the machine; the service's own time is read from /proc.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import aiohttp
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.served import cpu_seconds, memory_mb, run_of, service

CLIENTS, RUNS, SPANS = 32, 3_000, 1_000
HEADERS = {"Content-Type": "application/x-protobuf"}


def spans_of(number: int) -> bytes:
    """Return a request with one trace: a root and a call of a tool, about 1 kB."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    trace, root = number.to_bytes(16, "big"), (number + 1).to_bytes(8, "big")
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"Count the rows of file {number}. " * 10}]}]
    for span_id, parent, attributes in (
        (root, b"", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}),
        ((number + 2).to_bytes(8, "little"), root, {"gen_ai.tool.name": "bash", "gen_ai.tool.call.result": "[1, 2]"}),
    ):
        span = spans.add(trace_id=trace, span_id=span_id, parent_span_id=parent, name="step")
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value
    return request.SerializeToString()


async def send(url: str, bodies: list[bytes], headers: dict[str, str] | None = None) -> tuple[float, list[float]]:
    """Send all bodies over `CLIENTS` connections; return how long it took, and each request's seconds."""
    took: list[float] = []
    waiting = iter(bodies)

    async def client(session: aiohttp.ClientSession) -> None:
        for body in waiting:
            began = time.perf_counter()
            async with session.post(url, data=body, headers=headers) as answer:
                said = await answer.read()
                assert answer.status in {200, 202}, said
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(client(session) for _ in range(CLIENTS)))
    return time.perf_counter() - began, took


def row(name: str, count: int, seconds: float, took: list[float], cpu: float) -> None:
    took.sort()
    print(
        f"| {name} | {count:,} | {count / seconds:,.0f} | {cpu / count * 1000:.2f} | {median(took) * 1000:.0f}"
        f" | {took[int(0.99 * len(took))] * 1000:.0f} |",
        flush=True,
    )


async def rates(folder: Path) -> None:
    print("| what | requests | a second | CPU ms each | median ms | p99 ms |")
    print("|---|---|---|---|---|---|")
    async with service(folder, wait=600, settle=600) as (process, url):
        await send(f"{url}/v1/runs", [run_of(1)[1]])
        before = cpu_seconds(process.pid)
        bodies = [run_of(number)[1] for number in range(2, RUNS + 2)]
        seconds, took = await send(f"{url}/v1/runs", bodies)
        row("runs of 4 kB", RUNS, seconds, took, cpu_seconds(process.pid) - before)
        together = [b"".join(bodies[at : at + 50]).replace(b"Count the", b"count the") for at in range(0, RUNS, 50)]
        before = cpu_seconds(process.pid)
        seconds, took = await send(f"{url}/v1/runs", [body.replace(b'"id":"t-', b'"id":"u-') for body in together])
        row("the same, 50 a request (by run)", RUNS, seconds, took, cpu_seconds(process.pid) - before)
        before = cpu_seconds(process.pid)
        seconds, took = await send(f"{url}/v1/traces", [spans_of(number) for number in range(SPANS)], HEADERS)
        row("OTLP, two spans", SPANS, seconds, took, cpu_seconds(process.pid) - before)
    async with service(folder, wait=0, settle=600) as (process, url):  # what waits is learned now
        await asyncio.sleep(2)
        before = cpu_seconds(process.pid)
        seconds, took = await send(f"{url}/v1/traces", [spans_of(10**6 + each) for each in range(SPANS)], HEADERS)
        row("OTLP while it learns", SPANS, seconds, took, cpu_seconds(process.pid) - before)


async def burst(folder: Path) -> None:
    """Send far more than is consumed; follow the estimate of when it is caught up, and the memory."""
    async with service(folder, wait=0, generation=1000) as (process, url), aiohttp.ClientSession() as session:
        await send(f"{url}/v1/runs", [run_of(number, 1500)[1] for number in range(1000)])
        await asyncio.sleep(5)
        before = memory_mb(process.pid)
        count = 6_000
        lines = [run_of(number, 1500)[1] for number in range(1000, 1000 + count)]
        seconds, _ = await send(f"{url}/v1/runs", [b"".join(lines[at : at + 20]) for at in range(0, count, 20)])
        sent, peak, estimates = time.perf_counter(), before, list[tuple[float, float]]()
        while True:
            async with session.get(f"{url}/v1/status") as answer:
                backlog = (await answer.json())["backlog"]
            peak = max(peak, memory_mb(process.pid))
            now = time.perf_counter() - sent
            if not backlog["waiting"] + backlog["learning"]:
                break
            if backlog["catch_up"] is not None:
                estimates.append((now, backlog["catch_up"]))
            await asyncio.sleep(0.5)
        async with session.get(f"{url}/v1/status") as answer:
            traces = (await answer.json())["traces"]
    print(
        f"burst: {count:,} runs in {seconds:.0f} s, caught up {now:.0f} s later;"
        f" kept {sum(traces.values()):,} of {count + 1000:,}"
    )
    for part in (0.25, 0.5, 0.75):
        at, said = min(estimates, key=lambda pair: abs(pair[0] - part * now))
        print(f"  after {at:.0f} s the estimate was {said:.0f} s, it took {now - at:.0f} s")
    print(f"  memory of the service: {before:.0f} MB before, {peak:.0f} MB at most")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(rates(Path(folder) / "rates"))
        asyncio.run(burst(Path(folder) / "burst"))


if __name__ == "__main__":
    main()
