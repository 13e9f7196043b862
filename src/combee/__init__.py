"""Combee learns from many agent runs at once: reflections become a playbook, and model weights never change.

Everything here is loaded when it is used. What the command line does, `learn` and `evaluate` do too: same settings,
same guard, same budgets, same folders.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from combee import redaction as redaction
    from combee.api import (
        AgentFunction,
        Model,
        Result,
        Scores,
        aevaluate,
        alearn,
        aresume,
        evaluate,
        learn,
        load_playbook,
        resume,
    )
    from combee.errors import BudgetError, CallError, CombeeError, RunError, UsageError
    from combee.kernel.learn import Score, Task
    from combee.kernel.playbook import Bullet, Playbook

__version__ = "0.1.0"
__all__ = [
    "AgentFunction",
    "BudgetError",
    "Bullet",
    "CallError",
    "CombeeError",
    "Model",
    "Playbook",
    "Result",
    "RunError",
    "Score",
    "ScoredRow",
    "Scores",
    "Task",
    "UsageError",
    "__version__",
    "aevaluate",
    "alearn",
    "aresume",
    "evaluate",
    "learn",
    "load_playbook",
    "redaction",
    "resume",
]

_HOMES = {
    **dict.fromkeys(("BudgetError", "CallError", "CombeeError", "RunError", "UsageError"), "combee.errors"),
    **dict.fromkeys(("Score", "Task"), "combee.kernel.learn"),
    **dict.fromkeys(("Bullet", "Playbook"), "combee.kernel.playbook"),
}


if not TYPE_CHECKING:  # a type checker knows the names above, and that there are no others

    def __getattr__(name: str) -> object:
        if name == "redaction":
            return importlib.import_module("combee.redaction")
        if name not in __all__:
            raise AttributeError(f"module 'combee' has no attribute {name!r}")
        found = globals()[name] = getattr(importlib.import_module(_HOMES.get(name, "combee.api")), name)
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
