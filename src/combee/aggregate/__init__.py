"""The heart: many items become one delta through groups, a shuffle, a tree and verified coverage (arXiv 2604.04247, section 3)."""

from __future__ import annotations

from combee.aggregate.protocol import Method
from combee.aggregate.result import Node, Scan

__all__ = ["Method", "Node", "Scan"]
