"""The guard: notices loss before users do. After each reduce: checks, a verdict, and who is told.

Pure functions over plain data (`notify` alone starts a program). See `judge`, `gate`, `screen` and `admit`.
"""

from __future__ import annotations

from combee.guard.evidence import Evidence, Finding, Limits
from combee.guard.gate import Gate, GateLimits, Metrics, gate
from combee.guard.isolation import Admission, Policy, Violation, admit, check_book, check_delta, readable
from combee.guard.leaks import HeldOut, LeakIndex, find_secrets, screen
from combee.guard.notify import Notified, notify
from combee.guard.regression import Comparison, Rows, Spending, Trial, compare
from combee.guard.specific import echoed
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
    "admit",
    "after",
    "alert_payload",
    "check_book",
    "check_delta",
    "compare",
    "echoed",
    "find_secrets",
    "from_json",
    "gate",
    "judge",
    "notify",
    "readable",
    "screen",
    "to_json",
]
