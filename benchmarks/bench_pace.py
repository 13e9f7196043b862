"""The batch-size law under noise: bias and spread of alpha, wild points, and the chosen size against the analytic one.

Run: python -m benchmarks.bench_pace
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from statistics import fmean, pstdev

from combee.kernel.pace import Delay, DelayLaw, next_batch, start, state_choice
from combee.kernel.pace.law import fit_curve

SIZES = [2, 4, 8, 16, 32, 64]
NOISE = 0.1


def fits(alpha: float, runs: int, trials: int, wild: float = 1.0) -> Iterator[DelayLaw | None]:
    """Fits to noisy power laws; `wild` multiplies one sample at a random place."""
    rng = random.Random(1)
    for _ in range(trials):
        sizes = SIZES * runs
        times = [100 * b**-alpha * math.exp(rng.gauss(0, NOISE)) for b in sizes]
        times[rng.randrange(len(times))] *= wild
        law = fit_curve(sizes, times)
        yield law if isinstance(law, DelayLaw) else None


def _bias(trials: int = 5000) -> None:
    print(f"alpha fitted at sizes 2..64, {NOISE:.0%} noise, {trials} trials (wanted: |bias| < 0.01, 95 % within 0.05)")
    print("  alpha  runs    bias      sd   within 0.05   no law")
    for alpha in (0.1, 0.3, 0.6, 1.0, 1.5):
        for runs in (1, 2, 3):
            laws = [law for law in fits(alpha, runs, trials) if law]
            errors = [law.alpha - alpha for law in laws]
            near = sum(abs(error) <= 0.05 for error in errors) / len(errors)
            none = trials - len(laws)
            print(f"  {alpha:5.1f} {runs:5} {fmean(errors):+8.4f} {pstdev(errors):7.4f} {near:12.1%} {none:8}")


def _wild(trials: int = 3000) -> None:
    print(f"one wild sample among them, alpha 0.7, {trials} trials")
    print("  factor  runs    bias   within 0.05   within 0.1   no law")
    for factor in (0.1, 0.5, 1.5, 2.0, 3.0, 10.0, 1000.0):
        for runs in (1, 2):
            errors = [law.alpha - 0.7 for law in fits(0.7, runs, trials, factor) if law]
            near = [sum(abs(error) <= width for error in errors) / len(errors) for width in (0.05, 0.1)]
            print(
                f"  {factor:6} {runs:5} {fmean(errors):+8.4f} {near[0]:12.1%} {near[1]:12.1%} {trials - len(errors):8}"
            )


def _controller(trials: int = 300, n: int = 2000) -> None:
    print(f"the controller over 12 profile steps on N={n}: chosen size against the analytic b*")
    print("  alpha  analytic   median   within a factor 2")
    for alpha in (0.3, 0.5, 0.8, 1.0):
        exact = 2 * 62.5 ** (1 / (1 + alpha))
        chosen = []
        for seed in range(trials):
            rng, state = random.Random(seed), start(n, SIZES)
            seen: list[Delay] = []
            for _ in range(13):
                batch, state = next_batch(state, seen)
                law = 500 * batch**-alpha * math.exp(rng.gauss(0, NOISE)) / math.ceil(n / batch)
                seen = [Delay(batch, law)]
            chosen.append(state_choice(state).batch)
        near = sum(exact / 2 <= batch <= exact * 2 for batch in chosen) / trials
        print(f"  {alpha:5.1f} {exact:9.1f} {sorted(chosen)[trials // 2]:8} {near:12.1%}")


def main() -> None:
    """Print the tables."""
    began = time.perf_counter()
    _bias()
    _wild()
    _controller()
    print(f"({time.perf_counter() - began:.0f} s)")


if __name__ == "__main__":
    main()
