"""The heart: many items become one delta through groups, a shuffle, a tree and verified coverage (arXiv 2604.04247)."""

from __future__ import annotations

from combee.kernel.aggregate.baselines import BASELINES, ONE_CALL, UNUSED, aggregate
from combee.kernel.aggregate.cost import CallCost, Retention
from combee.kernel.aggregate.method import Method, input_room, output_limit
from combee.kernel.aggregate.plan import Expected, Paper, Plan, expected, plan
from combee.kernel.aggregate.scan import Absent, scan, scan_stream
from combee.kernel.aggregate.tree import Node, Scan

__all__ = [
    "BASELINES",
    "ONE_CALL",
    "UNUSED",
    "Absent",
    "CallCost",
    "Expected",
    "Method",
    "Node",
    "Paper",
    "Plan",
    "Retention",
    "Scan",
    "aggregate",
    "expected",
    "input_room",
    "output_limit",
    "plan",
    "scan",
    "scan_stream",
]
