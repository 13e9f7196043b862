"""The essay's claims about swarms as experiments that can fail: deterministic by seed, through the real runtime."""

from __future__ import annotations

from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Table, Verdict
from benchmarks.swarm_lab.suite import EXPERIMENTS, check_names, measure

__all__ = ["EXPERIMENTS", "Claim", "Curve", "Experiment", "Table", "Verdict", "check_names", "measure"]
