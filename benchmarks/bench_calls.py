"""What a call costs this side: CPU, memory and wall, next to raw aiohttp (and openai, litellm where installed).

The mock endpoint runs in a process of its own, so the CPU is the client's alone. Each client runs in a process of its
own too, for its memory.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from combee.kernel.runner import run_sync

CLIENTS = ("aiohttp", "endpoint", "combee", "journal", "openai", "litellm")
OWN = {"aiohttp", "endpoint", "combee", "journal"}
Ask = Callable[[str], Awaitable[Any]]
SERVER = """
import asyncio, json, sys
from combee.mock import MockConfig, serve
config = MockConfig.from_json(json.loads(sys.argv[1]))
asyncio.run(serve(config, lambda body: "ok " * 50, port=0, ready=lambda url: print(url, flush=True)))
"""


class Server:
    """The mock in its own process."""

    def __init__(self, **config: Any) -> None:
        command = [sys.executable, "-c", SERVER, json.dumps(config)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


async def with_aiohttp(url: str, work: Callable[[Ask], Awaitable[None]], _: int) -> None:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(prompt: str) -> str:
            body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 256}
            async with session.post(f"{url}/chat/completions", json=body) as reply:
                data = await reply.json()
                return str(data["choices"][0]["message"]["content"])

        await work(ask)


async def with_endpoint(url: str, work: Callable[[Ask], Awaitable[None]], _: int) -> None:
    """The HTTP side alone, doing what the bare aiohttp does."""
    from combee.model import Endpoint
    from combee.model.http import HttpReply

    endpoint = Endpoint(url, api_key_env=None)

    async def ask(prompt: str) -> str:
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 256}
        reply = await endpoint.post(json.dumps(body).encode())
        assert isinstance(reply, HttpReply)
        return str(json.loads(reply.body)["choices"][0]["message"]["content"])

    await work(ask)
    await endpoint.aclose()


async def with_combee(url: str, work: Callable[[Ask], Awaitable[None]], at_once: int) -> None:
    from combee.model import Budget, Engine, Limiter, Message, OpenAIModel, Price, Request

    run = Engine(limiter=Limiter(at_once), budget=Budget(max_cost=1e6, max_calls=10**9))
    async with OpenAIModel(url, "m", engine=run, price=Price(1, 2, 0.1)) as model:

        async def ask(prompt: str) -> str:
            return (await model.complete(Request((Message("user", prompt),), max_tokens=256, role="leaf"))).text

        await work(ask)


async def with_journal(url: str, work: Callable[[Ask], Awaitable[None]], at_once: int) -> None:
    """Everything on: ledger rows and replies go to a journal on disk, under what their prompts hash to."""
    from combee.kernel.journal import JSON, Journal
    from combee.model import Budget, Engine, Ledger, Limiter, Message, OpenAIModel, Price, Request
    from combee.model.asking import request_hash, response_to_json

    number = 0
    with tempfile.TemporaryDirectory() as folder, Journal.open(Path(folder)) as journal:
        ledger = Ledger(journal.record_call, keep_rows=False)  # as a run does: its rows are in the journal
        run = Engine(limiter=Limiter(at_once), budget=Budget(max_cost=1e6), ledger=ledger)
        scope = journal.scope(seed=0, epoch=0, step=0)
        async with OpenAIModel(url, "m", engine=run, price=Price(1, 2, 0.1)) as model:

            async def ask(prompt: str) -> str:
                nonlocal number
                number += 1
                request = Request((Message("user", prompt),), max_tokens=256, role="leaf", item=str(number))

                async def buy() -> JSON:
                    return response_to_json(await model.complete(request))

                kept: Any = await scope.once("leaf", request.item, request_hash(request, model), buy)
                return str(kept["text"])

            await work(ask)


async def with_openai(url: str, work: Callable[[Ask], Awaitable[None]], _: int) -> None:
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

    async def ask(prompt: str) -> str:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        reply = await client.chat.completions.create(model="m", messages=messages, max_tokens=256)
        return str(reply.choices[0].message.content)

    await work(ask)
    await client.close()


async def with_litellm(url: str, work: Callable[[Ask], Awaitable[None]], _: int) -> None:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would look for prices on the network
    import litellm  # type: ignore[import-not-found, unused-ignore]  # an extra of the benchmark

    async def ask(prompt: str) -> str:
        reply = await litellm.acompletion(
            model="openai/m", api_base=url, api_key="none", messages=[{"role": "user", "content": prompt}]
        )
        return str(reply.choices[0].message.content)

    await work(ask)


def measure(client: str, url: str, calls: int, at_once: int, size: int) -> dict[str, float]:
    """Run `calls` calls, `at_once` in flight, prompts of `size` characters; returns CPU ms a call, wall s, peak MB."""
    warnings.simplefilter("ignore")
    figures: dict[str, float] = {}

    async def work(ask: Ask) -> None:
        left = iter(range(calls + at_once))
        prompt = "The quick brown fox. " * (size // 21)

        async def worker(count: int) -> None:
            for _ in range(count):
                number = next(left, None)
                if number is None:
                    return
                assert await ask(f"{number} {prompt}")

        await asyncio.gather(*(worker(1) for _ in range(at_once)))  # connections are opened
        used, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        await asyncio.gather(*(worker(calls) for _ in range(at_once)))
        wall = time.perf_counter() - began
        now = resource.getrusage(resource.RUSAGE_SELF)
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        figures.update(cpu=1000 * cpu / calls, wall=wall, memory=now.ru_maxrss / 1024)

    run_sync(globals()[f"with_{client}"](url, work, at_once))  # as the command runs: all with the same collector
    return figures


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def clients(size: int, at_once: int) -> list[str]:
    """Return the clients to measure; says once which are not installed."""
    there = [name for name in CLIENTS if name in OWN or importlib.util.find_spec(name) is not None]
    if (size, at_once) == (4_000, 64):
        for name in CLIENTS:
            if name not in there:
                print(f"{name:<10} not installed: skipped")
    return there


def cpu_table(calls: int, repeats: int) -> None:
    print(
        "CPU ms a call (median of runs, clients in turn), memory at the end; server in its own process, latency 50 ms"
    )
    print(f"{'client':<10}{'in flight':>10}{'prompt':>8}{'CPU ms':>9}{'x raw':>7}{'x at 64':>9}{'MB':>6}")
    with Server(latency="0.05") as url:
        for size in (4_000, 80_000):
            at_64: dict[str, float] = {}
            for at_once in (64, 2000):
                runs: dict[str, list[dict[str, float]]] = {client: [] for client in clients(size, at_once)}
                for _ in range(repeats):
                    for client, found in list(runs.items()):
                        count = max(calls if client in OWN else calls // 8, at_once)
                        try:
                            found.append(apart(measure, client, url, count, at_once, size))
                        except Exception as error:
                            if client in OWN:
                                raise
                            print(f"{client:<10}{at_once:>10}{size:>8}  failed: {error}")
                            del runs[client]
                cpu = {client: statistics.median(run["cpu"] for run in found) for client, found in runs.items()}
                at_64 = at_64 or cpu
                for client, found in runs.items():
                    memory = min(run["memory"] for run in found)
                    growth = cpu[client] / at_64[client]
                    print(
                        f"{client:<10}{at_once:>10}{size:>8}{cpu[client]:>9.3f}{cpu[client] / cpu['aiohttp']:>7.2f}"
                        f"{growth:>9.2f}{memory:>6.0f}",
                        flush=True,
                    )


def rate_table() -> None:
    print("\n4,000 calls of 200 ms, 2,000 in flight, 4 kB (ideal wall 0.40 s; CPU-bound where CPU is near the wall)")
    with Server(latency="0.2") as url:
        for client in ("aiohttp", "endpoint", "combee"):
            run = apart(measure, client, url, 4000, 2000, 4000)
            cpu = run["cpu"] * 4
            print(f"{client:<10} wall {run['wall']:.2f} s, CPU {cpu:.2f} s, {4000 / run['wall']:,.0f} calls/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls, one run each")
    options, _ = parser.parse_known_args()
    cpu_table(2000 if options.quick else 6000, 1 if options.quick else 3)
    rate_table()


if __name__ == "__main__":
    main()
