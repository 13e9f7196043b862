"""A service that is killed with SIGKILL fifty times, under load and while it learns: what it took is learned once.

Eight clients send runs all the time, each the next one when the last was acknowledged, and send again what a kill cut
off. At the end every acknowledged run must have a receipt, stand once in the traces that the book keeps, and once among
the sources of its lesson.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import aiohttp

from benchmarks.served import run_of, start_service
from combee.kernel.journal import Journal
from combee.kernel.playbook import from_json

KILLS, CLIENTS = 50, 8


class Load:
    """Clients that send runs to wherever the service is now."""

    def __init__(self) -> None:
        self.url = ""
        self.acknowledged: list[str] = []
        self.number = 0
        self.ended = False

    async def client(self) -> None:
        """Send runs until the load ends."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            while not self.ended:
                self.number += 1
                name, line = run_of(self.number, 2000)
                while not self.ended:
                    try:
                        async with session.post(f"{self.url}/v1/runs", data=line) as answer:
                            await answer.read()
                            if answer.status == 202:
                                self.acknowledged.append(name)
                                break
                    except (aiohttp.ClientError, TimeoutError):
                        pass
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.02)


async def measure(folder: Path) -> None:
    draw, load = random.Random(0), Load()
    process, load.url = await start_service(folder, generation=200)
    clients = [asyncio.create_task(load.client()) for _ in range(CLIENTS)]
    began = time.monotonic()
    for _ in range(KILLS):
        await asyncio.sleep(draw.uniform(0.1, 4.0))
        process.send_signal(signal.SIGKILL)
        await process.wait()
        process, load.url = await start_service(folder, generation=200)
    load.ended = True
    await asyncio.gather(*clients)
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{load.url}/v1/status") as answer:
                status = await answer.json()
            if not status["backlog"]["waiting"] + status["backlog"]["learning"]:
                break
            await asyncio.sleep(0.5)
        states: Counter[str] = Counter()
        for name in load.acknowledged:
            async with session.get(f"{load.url}/v1/receipts/{name}") as answer:
                found = (await answer.json())["receipts"]
            states[found[0]["state"] if found else "lost"] += 1
    process.terminate()
    await process.wait()
    book = folder / "tenants" / "default"
    kept = Counter(json.loads(line)["id"] for line in (book / "traces.jsonl").read_text().splitlines())
    with Journal.open(book, create=False, read_only=True) as journal:
        last = from_json(journal.text(journal.labels()["stable"]))
        generations = len({row.epoch for row in journal.versions()}) - 1
    sources = Counter(source for bullet in last for source in bullet.sources)
    acknowledged = set(load.acknowledged)
    lost = len(acknowledged - kept.keys()) + states["lost"]
    twice = sum(count > 1 for count in kept.values()) + sum(count > 1 for count in sources.values())
    unlearned = len(acknowledged - {source.rpartition("~")[0] for source in sources})
    print(
        f"{KILLS} kills in {time.monotonic() - began:.0f} s, {len(acknowledged)} runs acknowledged,"
        f" {generations} generations that changed the book"
    )
    print(f"receipts: {dict(states)}; lost {lost}, learned twice {twice}, in no lesson {unlearned}")
    assert (lost, twice, unlearned) == (0, 0, 0)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder) / "service"))


if __name__ == "__main__":
    main()
