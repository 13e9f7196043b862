"""All experiments. A verdict is computed from the numbers, never written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from combee.errors import UsageError, did_you_mean
from combee.swarm.measure.capacity_claims import capacity, joints
from combee.swarm.measure.growth_claims import asking, returns, staleness, structure
from combee.swarm.measure.load_claims import loads
from combee.swarm.measure.result import Experiment
from combee.swarm.measure.setting import Setting

__all__ = ["EXPERIMENTS", "measure"]

EXPERIMENTS: dict[str, Callable[[Setting], Experiment]] = {
    "capacity": capacity,
    "joint": joints,
    "load": loads,
    "returns": returns,
    "staleness": staleness,
    "structure": structure,
    "asking": asking,
}


def measure(names: Sequence[str] = (), *, quick: bool = False) -> Iterator[Experiment]:
    """Run experiments, all by default, one after the other. Quick: small sizes and one seed, within a minute.

    Raises:
        UsageError: There is no such experiment.
    """
    for name in names:
        if name not in EXPERIMENTS:
            raise UsageError(f"there is no experiment {name!r}", hint=did_you_mean(name, EXPERIMENTS))
    setting = Setting((0,) if quick else (0, 1, 2), 4 if quick else 32, quick)
    for name in names or EXPERIMENTS:
        yield EXPERIMENTS[name](setting)
