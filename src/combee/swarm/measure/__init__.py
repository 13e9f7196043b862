"""The essay's claims about swarms as experiments that can fail: deterministic by seed, through the real runtime."""

from __future__ import annotations

from combee.swarm.measure.result import Claim, Curve, Experiment, Table, Verdict
from combee.swarm.measure.suite import EXPERIMENTS, check_names, measure

__all__ = ["EXPERIMENTS", "Claim", "Curve", "Experiment", "Table", "Verdict", "check_names", "measure"]
