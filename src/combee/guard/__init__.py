"""The guard: notices loss before users do. After each reduce: checks, a verdict, and who is told.

Pure functions over plain data (`notify` alone starts a program). See `judge`, `gate`, `screen` and `admit`.
"""

from __future__ import annotations

from combee.guard.checks import check, yield_of
from combee.guard.evidence import Evidence, Finding, Limits, lessons
from combee.guard.exact import p_not_above, smallest_drop
from combee.guard.gate import Gate, GateLimits, Metrics, gate
from combee.guard.history import Yield
from combee.guard.isolation import (
    Admission,
    Labels,
    Policy,
    Violation,
    admit,
    admitted,
    check_book,
    check_delta,
    labels_of,
    propagate,
    readable,
)
from combee.guard.leaks import HeldOut, LeakIndex, distinctive, find_secrets, screen
from combee.guard.notify import Notified, notify
from combee.guard.regression import Comparison, Rows, Spending, Trial, compare
from combee.guard.specific import count_specific, specific_terms
from combee.guard.verdict import GuardState, Verdict, after, alert_payload, from_json, judge, to_json

__all__ = [
    "Admission",
    "Comparison",
    "Evidence",
    "Finding",
    "Gate",
    "GateLimits",
    "GuardState",
    "HeldOut",
    "Labels",
    "LeakIndex",
    "Limits",
    "Metrics",
    "Notified",
    "Policy",
    "Rows",
    "Spending",
    "Trial",
    "Verdict",
    "Violation",
    "Yield",
    "admit",
    "admitted",
    "after",
    "alert_payload",
    "check",
    "check_book",
    "check_delta",
    "compare",
    "count_specific",
    "distinctive",
    "find_secrets",
    "from_json",
    "gate",
    "judge",
    "labels_of",
    "lessons",
    "notify",
    "p_not_above",
    "propagate",
    "readable",
    "screen",
    "smallest_drop",
    "specific_terms",
    "to_json",
    "yield_of",
]
