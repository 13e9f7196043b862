"""Side-by-side comparisons of ways to aggregate, as the demo and the benchmarks show them."""

from __future__ import annotations

from combee.bench.compare import Setup, WayResult, compare, sequential

__all__ = ["Setup", "WayResult", "compare", "sequential"]
