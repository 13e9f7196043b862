"""Workers on this machine: a process each, fed over a pipe.

A worker ends with its driver, even one that is killed, since that closes the pipe. Ctrl-C reaches the driver alone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from combee.errors import CombeeError, UsageError
from combee.run.settings_tables import WorkersTable
from combee.run.spec import Prepared
from combee.workers.carry import carry, recipe_of
from combee.workers.protocol import Chunk, Failure, JobResult, Recipe, WorkerLostError, WorkerState
from combee.workers.working import Workshop


class Processes:
    """The kind of workers that are processes on this machine."""

    def look(self, workers: WorkersTable) -> str:
        """Return what is there."""
        return f"{_count(workers)} processes on this machine"

    @asynccontextmanager
    async def carried(self, prepared: Prepared, folder: Path) -> AsyncGenerator[Prepared]:
        """Yield a run whose tasks processes do. Raises `UsageError` where they cannot begin."""
        count = _count(prepared.spec.workers)
        recipe = recipe_of(prepared, count)

        async def start(number: int) -> ProcessWorker:
            return ProcessWorker(recipe, f"combee-worker-{number}")

        async with carry(prepared, start, count) as working:
            yield working


def _count(workers: WorkersTable) -> int:
    return workers.count or os.cpu_count() or 1


class ProcessWorker:
    """A worker in a process of its own. Raises `UsageError` where the recipe cannot be sent to another process."""

    def __init__(self, recipe: Recipe, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_main, args=(theirs, recipe), name=name, daemon=True)
        try:
            self._process.start()
        except (AttributeError, TypeError, ValueError) as error:  # what pickle raises for an object it cannot send
            hint = "Give a function of a module, by its name: neither a lambda nor one inside another function."
            raise UsageError(f"The agent cannot be sent to another process: {error}.", hint=hint) from error
        finally:
            theirs.close()
        self._loop = asyncio.get_running_loop()
        self._asked = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._lost = False
        threading.Thread(target=self._listen, name=f"{name}-answers", daemon=True).start()

    async def work(self, chunk: Chunk) -> tuple[JobResult, ...]:
        """See `Worker.work`."""
        return cast("tuple[JobResult, ...]", await self._ask(chunk))

    async def state(self) -> WorkerState:
        """See `Worker.state`."""
        return cast("WorkerState", await self._ask(None))

    async def close(self) -> None:
        """See `Worker.close`."""
        self._process.kill()
        await asyncio.to_thread(self._process.join)
        self._pipe.close()

    async def _ask(self, chunk: Chunk | None) -> object:
        if self._lost:
            raise WorkerLostError(self._how_it_ended())
        self._asked += 1
        answer = self._answers[self._asked] = self._loop.create_future()
        try:
            self._pipe.send((self._asked, chunk))
        except OSError:
            raise WorkerLostError(self._how_it_ended()) from None
        given = await answer
        if isinstance(given, Failure):
            raise given.error()
        return given

    def _listen(self) -> None:
        """Hand on answers until the pipe is closed: the process has ended then."""
        with suppress(EOFError, OSError):
            while True:
                number, answer = self._pipe.recv()
                self._loop.call_soon_threadsafe(self._answer, number, answer)
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._gone)

    def _answer(self, number: int, answer: object) -> None:
        future = self._answers.pop(number)
        if not future.done():
            future.set_result(answer)

    def _gone(self) -> None:
        self._lost = True
        for future in self._answers.values():
            if not future.done():
                future.set_exception(WorkerLostError(self._how_it_ended()))
        self._answers.clear()

    def _how_it_ended(self) -> str:
        self._process.join(1)
        code = self._process.exitcode
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        return f"its process ended with {how}"


def _main(pipe: Connection, recipe: Recipe) -> None:
    """Be a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_serve(pipe, recipe))


async def _serve(pipe: Connection, recipe: Recipe) -> None:
    """Answer until the driver is gone."""
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[tuple[int, Chunk | None]] = asyncio.Queue()

    def listen() -> None:
        try:
            while True:
                loop.call_soon_threadsafe(inbox.put_nowait, pipe.recv())
        except (EOFError, OSError):
            os._exit(0)  # nobody waits for what is under way

    threading.Thread(target=listen, name="chunks", daemon=True).start()
    shop: Workshop | Failure
    try:
        shop = Workshop(recipe)
    except CombeeError as error:
        shop = Failure.of(error)
    answering: set[asyncio.Task[None]] = set()

    async def answer(number: int, chunk: Chunk | None) -> None:
        if isinstance(shop, Failure):
            pipe.send((number, shop))
        else:
            pipe.send((number, shop.state if chunk is None else await shop.work(chunk)))

    while True:
        task = asyncio.create_task(answer(*await inbox.get()))
        answering.add(task)
        task.add_done_callback(answering.discard)
