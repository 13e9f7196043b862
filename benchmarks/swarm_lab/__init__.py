"""The essay's claims about swarms as experiments that can fail: deterministic by seed, through the real runtime.

All agents are scripted. `lab` and `ways` are what the experiments are done with: small worlds whose agents have right
answers. A verdict is computed from the numbers, never written down.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.swarm_lab.budget import budget
from benchmarks.swarm_lab.capacity import capacity
from benchmarks.swarm_lab.errors import errors
from benchmarks.swarm_lab.joint import joints
from benchmarks.swarm_lab.learning import learning
from benchmarks.swarm_lab.load import loads
from benchmarks.swarm_lab.memory import asking, returns, staleness
from benchmarks.swarm_lab.reading import programs, rotting
from benchmarks.swarm_lab.result import Experiment, Setting
from benchmarks.swarm_lab.structure import structure
from benchmarks.swarm_lab.team import teams

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Callable[[Setting], Experiment]] = {
    "capacity": capacity,
    "budget": budget,
    "rot": rotting,
    "program": programs,
    "joint": joints,
    "load": loads,
    "team": teams,
    "returns": returns,
    "errors": errors,
    "staleness": staleness,
    "structure": structure,
    "asking": asking,
    "learning": learning,
}
