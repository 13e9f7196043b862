"""The heart: many items become one delta through groups, a shuffle, a tree and verified coverage (arXiv 2604.04247)."""

from __future__ import annotations

from combee.aggregate.cost import Cost, Retention, best_fan_in, best_tree, tree_seconds
from combee.aggregate.plan import Plan, plan
from combee.aggregate.protocol import Method
from combee.aggregate.result import Node, Scan
from combee.aggregate.scan import scan

__all__ = [
    "Cost",
    "Method",
    "Node",
    "Plan",
    "Retention",
    "Scan",
    "best_fan_in",
    "best_tree",
    "plan",
    "scan",
    "tree_seconds",
]
