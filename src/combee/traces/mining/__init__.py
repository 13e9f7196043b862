"""Lessons mined from recorded runs by code: failure and fix, dead ends, flipped tests, corrections, contrasts.

No model, no network, the same lessons everywhere. Few and true rather than many: what cannot be said in a line with its
command, its error and its fix is not said.
"""

from __future__ import annotations

from combee.traces.mining.attempts import failed_calls
from combee.traces.mining.judged import JudgedReflector, evidence_of
from combee.traces.mining.lesson import HeldBack
from combee.traces.mining.method import MiningCurator, MiningReflector
from combee.traces.mining.stored import KeptTraces, StoredRuns, StoredTrace, TraceFile, keep, safe, vote_trace
from combee.traces.mining.survey import Survey, findings, survey
from combee.traces.mining.users import USERS, users_of, what_users_said

__all__ = [
    "USERS",
    "HeldBack",
    "JudgedReflector",
    "KeptTraces",
    "MiningCurator",
    "MiningReflector",
    "StoredRuns",
    "StoredTrace",
    "Survey",
    "TraceFile",
    "evidence_of",
    "failed_calls",
    "findings",
    "keep",
    "safe",
    "survey",
    "users_of",
    "vote_trace",
    "what_users_said",
]
