"""What it is worth to start leaves while samples are still worked on, and not to wait for the last: modelled walls.

The real loop on a clock that jumps over sleeps. A sample takes 10 s (median, lognormal), a leaf 10.9 s + 0.06 s a
reflection with the same spread; 500 samples in steps of 125. Run: python -m benchmarks.bench_pipeline
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from benchmarks.simulate import simulated_time
from combee.kernel.aggregate import Method
from combee.kernel.journal import Scope
from combee.kernel.learn import LearnConfig, LearnResult, Reflection, Sampled, learn
from combee.kernel.playbook import Delta, Playbook, digest
from combee.lexical import LexicalCurator
from combee.lexical.agent import LexicalMethod
from combee.run.calibrate import planted

SEEDS = range(5)
STEPS, BATCH = 4, 125


@dataclass(frozen=True)
class Sample:
    """One thing to learn from."""

    id: str
    number: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """The map: waits as a rollout and a reflection would, and gives one lesson."""

    sigma: float
    seed: int

    async def __call__(self, sample: Sample, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Wait, then give the planted lesson."""
        await asyncio.sleep(10.0 * random.Random(f"{self.seed}/{sample.id}").lognormvariate(0, self.sigma))
        return Sampled(planted(sample.number))


@dataclass(frozen=True)
class SlowCurator:
    """The embedded curator, as slow as a model."""

    sigma: float
    seed: int

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        """Return the slow method."""
        return SlowMethod(LexicalCurator(), scope.address, slow=self)


@dataclass(frozen=True)
class SlowMethod(LexicalMethod):
    """Sleeps before each leaf."""

    slow: SlowCurator = field(default_factory=lambda: SlowCurator(0.0, 0))

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        """Sleep, then write."""
        draw = random.Random(f"{self.slow.seed}/{self.place}/{node}")
        await asyncio.sleep((10.9 + 0.06 * len(items)) * draw.lognormvariate(0, self.slow.sigma))
        return await super().leaf(items, node)


def run(sigma: float, seed: int, concurrency: int, *, pipeline: bool, quorum: float = 1.0) -> tuple[LearnResult, float]:
    """Return the result and the modelled wall in seconds."""
    config = LearnConfig(
        batch=BATCH, pipeline=pipeline, quorum=quorum, concurrency=concurrency, guard=False, near=None, seed=seed
    )
    samples = [Sample(f"s{n:04d}", n) for n in range(STEPS * BATCH)]
    return simulated_time(learn(samples, Waiting(sigma, seed), SlowCurator(sigma, seed), config=config))


def main() -> None:
    """Print walls by spread and concurrency."""
    print(
        f"{STEPS * BATCH} samples, steps of {BATCH}, means over {len(SEEDS)} seeds; modelled seconds of the whole run"
    )
    print(f"{'sigma':>6}{'at once':>9}{'barrier':>10}{'pipelined':>11}{'gain':>7}{'quorum .95':>12}{'gain':>7}   bytes")
    for concurrency in (512, 64, 16):
        for sigma in (0.3, 0.6, 1.0):
            rows = []
            same = True
            for seed in SEEDS:
                barrier, slow = run(sigma, seed, concurrency, pipeline=False)
                early, fast = run(sigma, seed, concurrency, pipeline=True)
                _, quick = run(sigma, seed, concurrency, pipeline=True, quorum=0.95)
                same &= digest(barrier.last) == digest(early.last)
                rows.append((slow, fast, quick))
            slow, fast, quick = (fmean(row[place] for row in rows) for place in range(3))
            print(
                f"{sigma:>6.1f}{concurrency:>9}{slow:>10.1f}{fast:>11.1f}{1 - fast / slow:>7.0%}{quick:>12.1f}"
                f"{1 - quick / slow:>7.0%}   {'barrier = pipelined' if same else 'DIFFERENT'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
