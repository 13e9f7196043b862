"""Lessons mined from recorded runs by code: failure and fix, dead ends, flipped tests, corrections, contrasts.

No model, no network, the same lessons everywhere. Few and true rather than many: what cannot be said in a line with its
command, its error and its fix is not said.
"""

from __future__ import annotations

from combee.mining.attempts import Attempt, attempts
from combee.mining.curator import MiningCurator, MiningMethod
from combee.mining.faults import Fault, fault_of, is_instruction
from combee.mining.finding import Finding
from combee.mining.reflector import MiningReflector
from combee.mining.stored import Kept, StoredRuns, StoredTrace, TraceFile, keep, safe, vote_trace
from combee.mining.survey import Survey, findings, survey

__all__ = [
    "Attempt",
    "Fault",
    "Finding",
    "Kept",
    "MiningCurator",
    "MiningMethod",
    "MiningReflector",
    "StoredRuns",
    "StoredTrace",
    "Survey",
    "TraceFile",
    "attempts",
    "fault_of",
    "findings",
    "is_instruction",
    "keep",
    "safe",
    "survey",
    "vote_trace",
]
