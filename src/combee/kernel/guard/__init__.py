"""The guard: notices loss before users do. After each reduce: checks, a verdict, and who is told.

Pure functions over plain data. See `judge`, `screen` and `isolate`.
"""

from __future__ import annotations

from combee.kernel.guard.checks import echoed
from combee.kernel.guard.erosion import follow
from combee.kernel.guard.evidence import Evidence, FindSecrets, GuardFinding, GuardLimits, no_secrets
from combee.kernel.guard.isolation import Policy, check_book, isolate, readable, why_refused
from combee.kernel.guard.leaks import HeldOut, LeakIndex, screen
from combee.kernel.guard.regression import Rows, Spending, Trial, compare
from combee.kernel.guard.verdict import GuardState, Notified, Verdict, after, alert_payload, from_json, judge, to_json

__all__ = [
    "Evidence",
    "FindSecrets",
    "GuardFinding",
    "GuardLimits",
    "GuardState",
    "HeldOut",
    "LeakIndex",
    "Notified",
    "Policy",
    "Rows",
    "Spending",
    "Trial",
    "Verdict",
    "after",
    "alert_payload",
    "check_book",
    "compare",
    "echoed",
    "follow",
    "from_json",
    "isolate",
    "judge",
    "no_secrets",
    "readable",
    "screen",
    "to_json",
    "why_refused",
]
