"""A program to be killed (RUN_DIR COUNT): it buys results through a journal and says on stdout how many it has flushed.

It writes to RUN_DIR/made.log a line for each computation that begins (`+ item`) and one for each that ends (`item`).
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from combee.kernel.journal import JSON, Journal
from combee.kernel.runner import LocalRunner


async def buy_all(journal: Journal, log: int, count: int) -> list[JSON]:
    scope = journal.scope(seed=7, epoch=0, step=1)
    dice = random.Random(os.getpid())
    ended = 0

    async def one(item: int) -> JSON:
        async def make() -> JSON:
            nonlocal ended
            os.write(log, f"+ {item}\n".encode())
            await asyncio.sleep(dice.random() * 0.003)
            os.write(log, f"{item}\n".encode())
            ended += 1
            return {"item": item, "text": f"lesson {item} " * 20}

        result = await scope.once("reflect", str(item), {"item": item}, make)
        if ended and ended % 100 == 0:
            journal.flush()
            sys.stdout.write(f"{journal.stats().bought}\n")
            sys.stdout.flush()
        return result

    done = await LocalRunner(limit=8).run(one, range(count))
    return [each.get() for each in done]


def main(run_dir: Path, count: int) -> None:
    with Journal.open(run_dir) as journal:
        log = os.open(run_dir / "made.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        sys.stdout.write("0\n")
        sys.stdout.flush()
        asyncio.run(buy_all(journal, log, count))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
