"""Work on many items in other processes of this machine, in order; the first ones, and all of few, are done here.

A worker is a fresh interpreter on the other end of a socket. It ends with this process, even one that is killed, since
that closes the socket; Ctrl-C does not reach it. What a lost worker was at is done here instead.
"""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")

ALONE = 6_000_000
"""Weight (characters, say) that is worked on here before other processes begin: these take half a second to start."""
_CHUNK = 200_000  # weight that is sent at once
_AHEAD = 3  # chunks that a worker may have before it
_BEGIN = "import sys; sys.path[:] = sys.argv[1:]; from combee.run.spread import serve; serve()"


def cores(wanted: int | None = None) -> int:
    """Return how many processes are worth it: as many as wanted, else one for each core that this process may use."""
    if os.name != "posix":
        return 1
    return wanted or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def spread(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    weigh: Callable[[Item], int],
    processes: int = 1,
    pack: Callable[[Item], Item] | None = None,
) -> Iterator[Result]:
    """Yield `work(item)` for each item, in their order; some hundred kilobytes for each process are held at a time.

    Args:
        work: can be pickled, and depends on nothing but the item.
        items: taken one by one in this process.
        weigh: returns how much work an item is, in the unit of `ALONE`.
        processes: how many to use beside this one; 1 uses none.
        pack: makes of an item what is sent in its place; `work` takes both.

    Raises:
        Exception: what `work` raises, for the first item of which it does.
    """
    rest, done = iter(items), 0
    for item in rest:
        yield work(item)
        done += weigh(item)
        if processes > 1 and done >= ALONE:
            break
    else:
        return
    workers = [_Worker(work) for _ in range(processes)]
    out: deque[tuple[_Worker[Item, Result], list[Item]]] = deque()
    try:
        for worker, chunk in zip(cycle(workers), _chunks(rest, weigh, pack or _as_it_is), strict=False):
            worker.send(chunk)
            out.append((worker, chunk))
            if len(out) >= _AHEAD * processes:
                yield from _next(out)
        while out:
            yield from _next(out)
    finally:
        for worker in workers:
            worker.close()


def _next(out: deque[tuple[_Worker[Item, Result], list[Item]]]) -> Iterator[Result]:
    worker, chunk = out.popleft()
    return worker.results(chunk)


def _as_it_is(item: Item) -> Item:
    return item


def _chunks(items: Iterable[Item], weigh: Callable[[Item], int], pack: Callable[[Item], Item]) -> Iterator[list[Item]]:
    chunk: list[Item] = []
    weight = 0
    for item in items:
        chunk.append(pack(item))
        weight += weigh(item)
        if weight >= _CHUNK:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk


class _Worker(Generic[Item, Result]):
    """A process that works on items in the order in which they are sent."""

    def __init__(self, work: Callable[[Item], Result]) -> None:
        self._work = work
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter with these modules
                [sys.executable, "-c", _BEGIN, *sys.path],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._pipe = Connection(ours.detach())
        self._lost = False
        self.send(work)

    def send(self, what: object) -> None:
        """Send the work or items. It never waits for the work to be done: the other end takes what comes."""
        with suppress(OSError):
            self._pipe.send(what)

    def results(self, chunk: list[Item]) -> Iterator[Result]:
        """Yield the results of the first items that were sent and not asked for yet, which are these."""
        if not self._lost:
            try:
                error, found = cast("tuple[Exception | None, list[Result]]", self._pipe.recv())
            except (EOFError, OSError):
                self._lost = True
            else:
                yield from found
                if error is not None:
                    raise error
                return
        yield from map(self._work, chunk)

    def close(self) -> None:
        """End it."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()


def serve() -> None:
    """Be a worker: standard input is the socket, the first thing sent is the work."""
    pipe = Connection(os.dup(0))
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                inbox.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(0)  # nobody waits for what is under way

    threading.Thread(target=listen, daemon=True).start()
    work = inbox.get()
    while True:
        done: list[object] = []
        error: Exception | None = None
        try:
            done.extend(map(work, inbox.get()))
        except Exception as raised:  # noqa: BLE001 - it is raised again where the result is asked for
            error = raised
        with suppress(OSError):
            pipe.send((error, done))
