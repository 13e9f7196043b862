"""Teams of ClawTeam's kind: state and git history as traces, and a score of four parts.

State and files are those of ClawTeam 0.2.0, whose own command line was run to check the readers.
"""

from __future__ import annotations

from combee.team.history import Commit, LeadEdit, TeamHistory, is_production, read_history
from combee.team.hooks import install_shim, install_trailer, record_transitions
from combee.team.joined import team_trace
from combee.team.score import WEIGHTS, Roles, TeamScore, roles_of, score_run
from combee.team.state import TeamMessage, TeamState, TeamTask, Transition, read_state
from combee.team.testing import check_by, check_commit, check_folder

__all__ = [
    "WEIGHTS",
    "Commit",
    "LeadEdit",
    "Roles",
    "TeamHistory",
    "TeamMessage",
    "TeamScore",
    "TeamState",
    "TeamTask",
    "Transition",
    "check_by",
    "check_commit",
    "check_folder",
    "install_shim",
    "install_trailer",
    "is_production",
    "read_history",
    "read_state",
    "record_transitions",
    "roles_of",
    "score_run",
    "team_trace",
]
