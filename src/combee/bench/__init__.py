"""Side-by-side comparisons of ways to aggregate, as the demo and the benchmarks show them."""

from __future__ import annotations

from combee.bench.compare import Row, Setup, compare, sequential

__all__ = ["Row", "Setup", "compare", "sequential"]
