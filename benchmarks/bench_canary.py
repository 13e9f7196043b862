"""The canary on simulated traffic: how often a version that is as good is rolled back, and how soon a worse one is.

Outcomes come one by one with the arm of their unit, which is drawn once; rates drift. One table, all seeds fixed.
"""

from __future__ import annotations

import math
import os
import random
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median

from combee.serve.canary import ArmEvidence

SHARE = 0.2
NULLS, NULL_LENGTH = 4_000, 1_500


def until(old: float, new: float, drift: float, most: int, seed: int) -> tuple[str | None, int]:
    """Return the verdict of one trial and after how many outcomes it fell; `drift` is the swing of both rates."""
    draw = random.Random(seed)
    evidence, phase = ArmEvidence(SHARE), draw.random() * 6
    for number in range(most):
        on_trial = draw.random() < SHARE
        rate = (new if on_trial else old) + drift * math.sin(phase + number / 250)
        evidence.add(on_trial=on_trial, failed=draw.random() < rate)
        if verdict := evidence.verdict():
            return verdict, number + 1
    return None, most


def trials(old: float, new: float, drift: float, most: int, count: int) -> list[tuple[str | None, int]]:
    """Return what many trials came to."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(until, old, new, drift, most), range(count), chunksize=20))


def main() -> None:
    print("| failures old → new | drift | outcomes at most | trials | rolled back | promoted | median outcomes |")
    print("|---|---|---|---|---|---|---|")
    for old, new, drift, most, count in (
        (0.30, 0.30, 0.20, NULL_LENGTH, NULLS),
        (0.30, 0.40, 0.00, 5_000, 300),
        (0.30, 0.40, 0.15, 5_000, 300),
        (0.30, 0.90, 0.00, 5_000, 300),
        (0.05, 0.10, 0.00, 5_000, 300),
        (0.20, 0.25, 0.00, 5_000, 300),
        (0.20, 0.10, 0.00, 5_000, 300),
    ):
        found = trials(old, new, drift, most, count)
        worse = [number for verdict, number in found if verdict == "worse"]
        good = [number for verdict, number in found if verdict == "good"]
        ended = [number for verdict, number in found if verdict]
        shown = f"{median(ended):,.0f}" if ended else "-"
        print(
            f"| {old:.0%} → {new:.0%} | ±{drift:.0%} | {most:,} | {count:,} | {len(worse) / count:.1%}"
            f" | {len(good) / count:.1%} | {shown} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
