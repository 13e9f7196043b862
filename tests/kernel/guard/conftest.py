"""The simulated world of benchmarks/bench_guard.py, for smaller runs of the same simulations."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[3] / "benchmarks" / "bench_guard.py"


@pytest.fixture(scope="session")
def world() -> ModuleType:
    """Reflections, aggregators, scores and the loop's part of a run."""
    if not BENCH.is_file():
        pytest.skip("benchmarks/bench_guard.py is not in this copy of the sources")
    spec = importlib.util.spec_from_file_location("bench_guard", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_guard"] = module
    spec.loader.exec_module(module)
    return module
