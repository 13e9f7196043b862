"""The heart: many items become one delta through groups, a shuffle, a tree and verified coverage (arXiv 2604.04247)."""

from __future__ import annotations

from combee.kernel.aggregate.baselines import BASELINES, aggregate
from combee.kernel.aggregate.calibrate import (
    SIZES,
    Calibration,
    CalibrationPrice,
    Measured,
    calibrate,
    calibration_price,
    recommend,
)
from combee.kernel.aggregate.cost import Cost, Retention, best_fan_in, best_tree, tree_seconds
from combee.kernel.aggregate.fit import Fit, fit_retention
from combee.kernel.aggregate.plan import Paper, Plan, plan
from combee.kernel.aggregate.protocol import Method
from combee.kernel.aggregate.result import Node, Scan
from combee.kernel.aggregate.retention import Expected, expected
from combee.kernel.aggregate.scan import scan
from combee.kernel.aggregate.simulate import SimulatedMethod, simulated_time
from combee.kernel.aggregate.stream import Absent, scan_stream

__all__ = [
    "BASELINES",
    "SIZES",
    "Absent",
    "Calibration",
    "CalibrationPrice",
    "Cost",
    "Expected",
    "Fit",
    "Measured",
    "Method",
    "Node",
    "Paper",
    "Plan",
    "Retention",
    "Scan",
    "SimulatedMethod",
    "aggregate",
    "best_fan_in",
    "best_tree",
    "calibrate",
    "calibration_price",
    "expected",
    "fit_retention",
    "plan",
    "recommend",
    "scan",
    "scan_stream",
    "simulated_time",
    "tree_seconds",
]
