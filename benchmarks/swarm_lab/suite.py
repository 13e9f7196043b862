"""All experiments, each in the module of its name. A verdict is computed from the numbers, never written down.

`lab`, `ways`, `chains` and `teamwork` are what they are done with: small worlds whose agents have right answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchmarks.swarm_lab.asking import asking
from benchmarks.swarm_lab.budget import budget
from benchmarks.swarm_lab.capacity import capacity
from benchmarks.swarm_lab.errors import errors
from benchmarks.swarm_lab.joint import joints
from benchmarks.swarm_lab.load import loads
from benchmarks.swarm_lab.result import Experiment, Setting
from benchmarks.swarm_lab.returns import returns
from benchmarks.swarm_lab.staleness import staleness
from benchmarks.swarm_lab.structure import structure
from benchmarks.swarm_lab.team import teams
from combee.errors import UsageError, did_you_mean

__all__ = ["EXPERIMENTS", "check_names", "measure"]

EXPERIMENTS: dict[str, Callable[[Setting], Experiment]] = {
    "capacity": capacity,
    "budget": budget,
    "joint": joints,
    "load": loads,
    "team": teams,
    "returns": returns,
    "errors": errors,
    "staleness": staleness,
    "structure": structure,
    "asking": asking,
}


def check_names(names: Sequence[str]) -> list[str]:
    """Return the experiments meant: all when none is named.

    Raises:
        UsageError: There is no such experiment.
    """
    for name in names:
        if name not in EXPERIMENTS:
            raise UsageError(f"there is no experiment {name!r}", hint=did_you_mean(name, EXPERIMENTS))
    return list(names or EXPERIMENTS)


def measure(names: Sequence[str] = (), *, quick: bool = False) -> Iterator[Experiment]:
    """Run experiments, all by default, one after the other. Quick: the same code, small sizes and one seed.

    Raises:
        UsageError: There is no such experiment.
    """
    for name in check_names(names):
        yield EXPERIMENTS[name](Setting(quick))
