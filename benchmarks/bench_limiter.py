"""The limiter against limits that it does not know, over real HTTP: calls, seconds, share of the ideal, 429s, lost.

A server in a process of its own plays each rule; the ideal is what its rule allows. Beside Combee: the openai SDK with
its own back-off (20 retries, 100 calls at once), and Inspect AI with adaptive connections where it is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Ask = Callable[[], Awaitable[object]]
LATENCY = 0.05


class Bucket:
    """`rate` a second with a bucket of `burst`; `changes` are (second, new rate)."""

    def __init__(self, rate: float, burst: float = 20, changes: tuple[tuple[float, float], ...] = ()) -> None:
        self.rate, self.burst, self.level, self.at = rate, burst, burst, 0.0
        self.changes = list(changes)

    def admits(self, now: float) -> bool:
        """Return whether a call at this second gets through."""
        while self.changes and now >= self.changes[0][0]:
            at, rate = self.changes.pop(0)
            self._fill(at)
            self.rate = rate
        self._fill(now)
        if self.level < 1:
            return False
        self.level -= 1
        return True

    def _fill(self, now: float) -> None:
        self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now


class Fixed:
    """`count` calls in each window of `seconds`."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds, self.window, self.used = count, seconds, -1, 0

    def admits(self, now: float) -> bool:
        """Return whether a call at this second gets through."""
        if int(now // self.seconds) != self.window:
            self.window, self.used = int(now // self.seconds), 0
        self.used += 1
        return self.used <= self.count


class Sliding:
    """`count` calls in any `seconds`; where `hard`, refused ones count too."""

    def __init__(self, count: int, seconds: float, *, hard: bool = False) -> None:
        self.count, self.seconds, self.hard = count, seconds, hard
        self.times: deque[float] = deque()

    def admits(self, now: float) -> bool:
        """Return whether a call at this second gets through."""
        while self.times and self.times[0] <= now - self.seconds:
            self.times.popleft()
        free = len(self.times) < self.count
        if free or self.hard:
            self.times.append(now)
        return free


class Both:
    """Requests (a bucket), and tokens in each window of a minute: calls take 100, 500, 200 and 800 of them by turns."""

    def __init__(self, rate: float, tokens: int) -> None:
        self.requests, self.tokens = Bucket(rate), tokens
        self.minute, self.used, self.calls = -1, 0, 0

    def admits(self, now: float) -> bool:
        """Return whether a call at this second gets through."""
        if int(now // 60) != self.minute:
            self.minute, self.used = int(now // 60), 0
        self.calls += 1
        takes = (100, 500, 200, 800)[self.calls % 4]
        if self.used + takes > self.tokens or not self.requests.admits(now):
            return False
        self.used += takes
        return True


RULES: dict[str, Callable[..., Any]] = {"bucket": Bucket, "fixed": Fixed, "sliding": Sliding, "both": Both}


@dataclass(frozen=True)
class Scene:
    """One rule with the calls made against it, and the seconds that they take at best."""

    label: str
    calls: int
    ideal: float
    rule: str
    arguments: dict[str, Any]
    out: tuple[float, float] = (0.0, 0.0)
    latency: float = LATENCY
    retry_after: bool = False
    status: int = 429


SCENES = [
    Scene("200/s, only 429 from second 2 to 12", 2000, 20, "bucket", {"rate": 200}, (2, 12)),
    Scene("200/s, only 429 from second 2 to 4", 2000, 12, "bucket", {"rate": 200}, (2, 4)),
    Scene("200/s, only 429 from second 2 to 62", 2000, 70, "bucket", {"rate": 200}, (2, 62)),
    Scene("200/s, only 503 from second 2 to 12", 2000, 20, "bucket", {"rate": 200}, (2, 12), status=503),
    Scene("200/s, what is above gets 529", 2000, 9.9, "bucket", {"rate": 200}, status=529),
    Scene("20/s and 240,000 tokens a minute", 900, 75, "both", {"rate": 20, "tokens": 240_000}),
    Scene("window of 200 each 5 s", 800, 15, "fixed", {"count": 200, "seconds": 5}),
    Scene("window of 200 each 5 s, Retry-After", 800, 15, "fixed", {"count": 200, "seconds": 5}, retry_after=True),
    Scene("100/s, from second 3 on 500/s", 3000, 8.4, "bucket", {"rate": 100, "changes": [[3, 500]]}),
    Scene("500/s, from second 3 on 100/s", 3000, 18, "bucket", {"rate": 500, "changes": [[3, 100]]}),
    Scene("sliding window of 500/s", 4125, 8.25, "sliding", {"count": 500, "seconds": 1}),
    Scene("the same, calls take 200 ms", 4125, 8.25, "sliding", {"count": 500, "seconds": 1}, latency=0.2),
    Scene("the same, refused calls count", 4125, 8.25, "sliding", {"count": 500, "seconds": 1, "hard": True}),
    Scene("500/s, bucket of 50, calls take 200 ms", 2000, 3.9, "bucket", {"rate": 500, "burst": 50}, latency=0.2),
    Scene("the same, five times as many", 10_000, 19.9, "bucket", {"rate": 500, "burst": 50}, latency=0.2),
    Scene("5/s, bucket of 5", 100, 19, "bucket", {"rate": 5, "burst": 5}),
    Scene("window of 600 a minute, free at first", 300, 1, "fixed", {"count": 600, "seconds": 60}, latency=0.0),
    Scene("window of 600 a minute, 300 in the second", 900, 60, "fixed", {"count": 600, "seconds": 60}),
]

SERVER = """
import asyncio, json, sys
from benchmarks.bench_limiter import serve
asyncio.run(serve(json.loads(sys.argv[1])))
"""
REPLY = json.dumps({
    "id": "x", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
}).encode()  # fmt: skip
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(REPLY), REPLY)
NO = b'{"error":{"message":"overloaded, slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}'


async def serve(scene: dict[str, Any]) -> None:
    """Play one scene on a free port, which is printed; GET /stats tells of the calls. Time begins with the first."""
    rule = RULES[scene["rule"]](**scene["arguments"])
    started: list[float] = []
    counts = {"ok": 0, "refused": 0}
    loop = asyncio.get_running_loop()

    async def call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    body = json.dumps(counts).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                    continue
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                started[:] = started or [loop.time()]
                now = loop.time() - started[0]
                if scene["out"][0] <= now < scene["out"][1] or not rule.admits(now):
                    counts["refused"] += 1
                    after = b""
                    if scene["retry_after"]:
                        after = b"Retry-After: %d\r\n" % (rule.seconds - now % rule.seconds + 1)
                    writer.write(b"HTTP/1.1 %d No\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s"
                                 % (scene["status"], after, len(NO), NO))  # fmt: skip
                    continue
                counts["ok"] += 1
                if scene["latency"]:
                    await asyncio.sleep(scene["latency"])
                writer.write(OK)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(call, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


async def with_combee(url: str, work: Callable[[Ask], Awaitable[None]]) -> None:
    from combee.model import Engine, Limiter, Message, OpenAIModel, Request

    async with OpenAIModel(url, "m", engine=Engine(limiter=Limiter())) as model:
        await work(lambda: model.complete(Request((Message("user", "question"),), max_tokens=64)))


async def with_openai(url: str, work: Callable[[Ask], Awaitable[None]]) -> None:
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=20)
    messages: list[Any] = [{"role": "user", "content": "question"}]
    at_once = asyncio.Semaphore(100)

    async def ask() -> object:
        async with at_once:
            return await client.chat.completions.create(model="m", messages=messages, max_tokens=64)

    await work(ask)
    await client.close()


async def with_inspect(url: str, work: Callable[[Ask], Awaitable[None]]) -> None:
    from inspect_ai.model import GenerateConfig, get_model  # type: ignore[import-not-found, unused-ignore]

    config = GenerateConfig(max_retries=40, max_tokens=64, adaptive_connections=True)
    model = get_model("openai/m", base_url=url, api_key="none", config=config, responses_api=False)
    await work(lambda: model.generate("question"))


PEERS = {"combee": "combee", "openai": "openai", "inspect": "inspect_ai"}


@dataclass
class Outcome:
    """What came of the calls of one scene."""

    done: int = 0
    lost: int = 0
    last: float = 0.0
    errors: set[str] = field(default_factory=set)


async def play(scene: Scene, peer: str, url: str) -> Outcome:
    outcome = Outcome()

    async def work(ask: Ask) -> None:
        began = time.perf_counter()

        async def one() -> None:
            try:
                await ask()
                outcome.done += 1
                outcome.last = time.perf_counter() - began
            except Exception as error:  # noqa: BLE001 - a peer's errors are its own; each is a lost call
                outcome.lost += 1
                outcome.errors.add(f"{type(error).__name__}: {error}"[:100])

        tasks = [asyncio.ensure_future(one()) for _ in range(scene.calls)]
        _, late = await asyncio.wait(tasks, timeout=3 * scene.ideal + 20)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    await globals()[f"with_{peer}"](url, work)
    return outcome


def run(scene: Scene, peer: str) -> str:
    command = [sys.executable, "-c", SERVER, json.dumps(scene.__dict__)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        outcome = asyncio.run(play(scene, peer, url))
        refused = asyncio.run(stats(url))["refused"]
        server.kill()
    left = scene.calls - outcome.done - outcome.lost
    share = scene.ideal / max(outcome.last, scene.ideal) if not left else 0.0
    said = f"{outcome.done:>6}{outcome.last:>9.1f}{share:>8.0%}{refused:>7}{refused / (scene.calls + refused):>7.1%}"
    return f"{said}{outcome.lost:>6}{left:>6}" + (f"  {min(outcome.errors)}" if outcome.errors else "")


async def stats(url: str) -> dict[str, int]:
    from combee.model import Endpoint
    from combee.model.http import HttpReply

    endpoint = Endpoint(url, api_key_env=None)
    reply = await endpoint.get("/stats")
    await endpoint.aclose()
    assert isinstance(reply, HttpReply)
    counts: dict[str, int] = json.loads(reply.body)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="Combee alone")
    parser.add_argument("--only", default="", help="scenes whose name holds this")
    options, _ = parser.parse_known_args()
    there = [peer for peer, module in PEERS.items() if importlib.util.find_spec(module) is not None]
    print(f"{'':<42}{'':<9}{'calls':>6}{'s':>9}{'ideal':>8}{'429s':>7}{'':>7}{'lost':>6}{'left':>6}")
    for scene in SCENES:
        if options.only in scene.label:
            print(f"{scene.label:<42}{'ideal':<9}{scene.calls:>6}{scene.ideal:>9.1f}")
            for peer in there[: 1 if options.quick else None]:
                print(f"{'':<42}{peer:<9}{run(scene, peer)}", flush=True)


if __name__ == "__main__":
    main()
