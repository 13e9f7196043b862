"""The world of a described swarm, opened by its one running process: checked first, then locked, then made.

The lock is the world's own (`swarm.sqlite.lock` beside `swarm.sqlite`): other worlds in the folder run meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from combee.errors import LockedError, UsageError
from combee.journal.lock import RunLock
from combee.swarm import Swarm, World
from combee.swarm.config import SwarmFile, check_places, prepare

__all__ = ["running", "starting"]


@contextmanager
def starting(described: SwarmFile) -> Iterator[Swarm]:
    """Open or make the world of a description; what is wrong with it is said before anything is made."""
    check_places(described)
    with running(described) as swarm:
        yield swarm


@contextmanager
def running(described: SwarmFile) -> Iterator[Swarm]:
    """Open the world of a description for its one running process.

    Raises:
        LockedError: Another process runs it.
        UsageError: The description cannot be used.
    """
    swarm_on = prepare(described)
    lock = _lock(described.world.resolve())
    try:
        with World.open(described.world) as world:
            yield swarm_on(world)
    finally:
        lock.release()


def _lock(world: Path) -> RunLock:
    folder = world.with_name(f"{world.name}.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"no world can be made at {world}: {error.strerror}", hint="Name a place that you may write to."
        ) from error
    try:
        return RunLock(folder)
    except LockedError as error:
        hint = "Wait until it ends, or stop it. `combee swarm ask`, `status` and `log` work meanwhile."
        raise LockedError(error.message.replace(str(folder), str(world)), hint=hint) from error
