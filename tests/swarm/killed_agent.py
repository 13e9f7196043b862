"""The policy of the rehearsal; kills its own process at the reply whose number the environment gives."""

from __future__ import annotations

import os
import signal

from combee.swarm import Reply, View
from combee.swarm.example import agent as living

_LEFT = [int(os.environ.get("KILL_AT", "0"))]


def agent(view: View) -> Reply | str:
    """Think, or die."""
    _LEFT[0] -= 1
    if _LEFT[0] == 0:
        os.kill(os.getpid(), signal.Signals[os.environ.get("KILL_WITH", "SIGKILL")])
    return living(view)
