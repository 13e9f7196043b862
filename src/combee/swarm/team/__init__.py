"""Teams of ClawTeam's kind: state and git history as traces, a score of four parts, scripted teams to learn on.

State and files are those of ClawTeam 0.2.0, whose own command line was run to check the readers.
"""

from __future__ import annotations

from combee.swarm.team.history import Commit, History, LeadEdit, is_production, read_history
from combee.swarm.team.hooks import install_shim, install_trailer, record_transitions
from combee.swarm.team.joined import team_trace
from combee.swarm.team.learning import Arena, Round, TeamReflector, learn_rules, reworded, stance_of
from combee.swarm.team.meaning import meanings, stance, understood
from combee.swarm.team.phrases import Intent
from combee.swarm.team.play import Played, play
from combee.swarm.team.repositories import Broken, Bug, generate, split, write_repository
from combee.swarm.team.score import WEIGHTS, Roles, TeamScore, score_run
from combee.swarm.team.stage import Cost
from combee.swarm.team.state import Message, TeamState, TeamTask, Transition, read_state
from combee.swarm.team.testing import check_commit, check_folder

__all__ = [
    "WEIGHTS",
    "Arena",
    "Broken",
    "Bug",
    "Commit",
    "Cost",
    "History",
    "Intent",
    "LeadEdit",
    "Message",
    "Played",
    "Roles",
    "Round",
    "TeamReflector",
    "TeamScore",
    "TeamState",
    "TeamTask",
    "Transition",
    "check_commit",
    "check_folder",
    "generate",
    "install_shim",
    "install_trailer",
    "is_production",
    "learn_rules",
    "meanings",
    "play",
    "read_history",
    "read_state",
    "record_transitions",
    "reworded",
    "score_run",
    "split",
    "stance",
    "stance_of",
    "team_trace",
    "understood",
    "write_repository",
]
