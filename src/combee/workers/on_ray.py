"""Workers on a Ray cluster: a detached actor each, named after the run, so that a killed driver finds its work again.

An actor keeps what it did until a driver says that it is in the journal. It ends with the run, or by itself when no
driver has spoken to it for a while. Ray is asked for nothing else: limits, retries and results are those of `dispatch`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from combee.errors import CombeeError, UsageError, how_to_install
from combee.run.settings_tables import WorkersTable
from combee.run.spec import Prepared
from combee.workers.carry import carry, live, recipe_of
from combee.workers.protocol import Chunk, Failure, JobResult, Recipe, WorkerLostError, WorkerState
from combee.workers.working import Workshop

_IDLE = 900.0  # seconds without a word from a driver after which an actor ends
_ANSWER = 10.0  # seconds that the head of a cluster may take to answer
_BEGIN = 120.0  # seconds that an actor may take to begin


class ActorBody:
    """The class that Ray makes an actor of: a `Workshop` that is made in the actor's own event loop."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._shop: Workshop | Failure | None = None
        self._end: asyncio.TimerHandle | None = None

    async def work(self, chunk: Chunk) -> tuple[JobResult, ...] | Failure:
        """Return what came of a chunk."""
        shop = self._ready()
        return shop if isinstance(shop, Failure) else await shop.work(chunk)

    async def state(self) -> WorkerState | Failure:
        """Return what it has done and spent."""
        shop = self._ready()
        return shop if isinstance(shop, Failure) else shop.state

    def _ready(self) -> Workshop | Failure:
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(_IDLE, os._exit, 0)
        if self._shop is None:
            try:
                self._shop = Workshop(self._recipe)
            except CombeeError as error:
                self._shop = Failure.of(error)
        return self._shop


class RayWorker:
    """A worker as the driver sees it."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor

    async def work(self, chunk: Chunk) -> tuple[JobResult, ...]:
        """See `Worker.work`."""
        return tuple(await self._asked(self._actor.work.remote(chunk)))

    async def state(self) -> WorkerState:
        """See `Worker.state`."""
        try:
            async with asyncio.timeout(_BEGIN):
                state: WorkerState = await self._asked(self._actor.state.remote())
                return state
        except TimeoutError:
            free = self._ray.available_resources()
            raise UsageError(
                f"A worker did not begin within {_BEGIN:g} s: the cluster has {free.get('CPU', 0):g} cores free.",
                hint="Ask for fewer or smaller workers: count, cpus and memory under [workers].",
            ) from None

    async def close(self) -> None:
        """See `Worker.close`."""
        await asyncio.to_thread(self._ray.kill, self._actor)

    async def _asked(self, answer: Any) -> Any:
        try:
            given = await answer
        except self._ray.exceptions.RayActorError as error:
            raise WorkerLostError(str(error).partition("\n")[0]) from error
        if isinstance(given, Failure):
            raise given.error()
        return given


class OnRay:
    """The kind of workers that are actors on a Ray cluster."""

    def look(self, workers: WorkersTable) -> str:
        """Return what is there. Raises `UsageError` where there is no cluster, or no Ray."""
        ray = _connected(workers.address, workers.runtime_env)
        try:
            nodes, has = [node for node in ray.nodes() if node["Alive"]], ray.cluster_resources()
            where = workers.address or "this machine (it would begin here)"
            return f"Ray {ray.__version__} at {where}: {len(nodes)} nodes, {has.get('CPU', 0):g} cores"
        finally:
            ray.shutdown()

    @asynccontextmanager
    async def carried(self, prepared: Prepared, folder: Path) -> AsyncGenerator[Prepared]:
        """Yield a run whose tasks a Ray cluster does.

        Raises:
            UsageError: Ray is not installed, there is no cluster at the address, or a worker cannot begin.
        """
        workers = prepared.spec.workers
        live(prepared)
        ray = await asyncio.to_thread(_connected, workers.address, workers.runtime_env)
        most = int(ray.cluster_resources().get("CPU", 1) // workers.cpus)
        count = workers.count or max(1, most)
        recipe = recipe_of(prepared, count)
        actors, run = ray.remote(ActorBody), _name(folder, recipe)

        async def start(number: int) -> RayWorker:
            actor = await asyncio.to_thread(
                actors.options(
                    name=f"combee-{run}-{number}",
                    namespace="combee",
                    lifetime="detached",
                    get_if_exists=True,
                    num_cpus=workers.cpus,
                    memory=workers.memory,
                    max_concurrency=2 * workers.in_flight + 2,
                ).remote,
                recipe,
            )
            return RayWorker(ray, actor)

        try:
            async with carry(prepared, start, count) as working:
                yield working
        finally:
            await asyncio.to_thread(ray.shutdown)


def _name(folder: Path, recipe: Recipe) -> str:
    """Return the name that the actors of a run share; other settings give other actors."""
    identity = f"{folder.resolve()}\n{json.dumps(recipe.settings, sort_keys=True)}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _connected(address: str | None, runtime_env: dict[str, Any]) -> Any:
    """Return `ray`, connected to the cluster at an address, or to one that begins here."""
    try:
        import ray
    except ImportError as error:
        raise UsageError("Workers on Ray need the extra ray.", hint=how_to_install("ray")) from error
    where: dict[str, Any] = {"include_dashboard": False} if address is None else {"address": address}
    try:
        if address is not None:  # asked first, since Ray ends the whole process where nobody answers
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), _ANSWER).close()
        ray.init(
            namespace="combee", runtime_env=runtime_env or None, log_to_driver=False, logging_level="ERROR", **where
        )
    except (OSError, RuntimeError, ValueError) as error:
        reason, place = str(error).partition("\n")[0], "here" if address is None else f"at {address}"
        hint = "Run `ray status` on a machine of the cluster; Ray must have the same version and token here and there."
        raise UsageError(f"There is no Ray cluster {place}: {reason}", hint=hint) from error
    return ray
