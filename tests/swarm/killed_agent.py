"""The policy of the rehearsal; kills its own process at the thought whose number the environment gives."""

from __future__ import annotations

import os
import signal

from combee.swarm import Thought, View
from combee.swarm.rehearsal import agent as living

_LEFT = [int(os.environ.get("KILL_AT", "0"))]


def agent(view: View) -> Thought | str:
    """Think, or die."""
    _LEFT[0] -= 1
    if _LEFT[0] == 0:
        os.kill(os.getpid(), signal.Signals[os.environ.get("KILL_WITH", "SIGKILL")])
    return living(view)
