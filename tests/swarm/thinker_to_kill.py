"""An agent with a slow model (WORLD HOW): its reply kills the process, fails, meets a limit, or ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from combee.errors import BudgetError, CallError, CallErrorKind
from combee.model import Usage
from combee.swarm import USER, Reply, Swarm, View, World


@dataclass
class AgentModel:
    """What a model is to a swarm."""

    how: str
    slow: bool = True

    async def reply(self, view: View) -> Reply:
        if self.how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "fails":
            raise CallError("the line is down", kind=CallErrorKind.CONNECTION)
        if self.how == "limit":
            raise BudgetError("the limit is reached")
        return Reply("42", usage=Usage(70, 5))


def main(path: Path, how: str) -> None:
    with World.open(path) as world:
        world.spawn("a", mode="serial")
        swarm = Swarm(world, {"": AgentModel(how)})
        swarm.ask(USER, "how many?", to="a", key="q")
        with suppress(BudgetError):
            asyncio.run(swarm.run())


main(Path(sys.argv[1]), sys.argv[2])
