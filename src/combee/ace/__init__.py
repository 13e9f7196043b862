"""ACE on any model: Generator, Reflector, Curator, and the refine pass (arXiv 2510.04618)."""

from __future__ import annotations

from combee.ace.asking import CallOptions
from combee.ace.budgets import RoleBudget
from combee.ace.curator import AceCurator, AceMethod, Summary
from combee.ace.estimate import ASSUMED, Workload, estimate_learning, refuse_too_small
from combee.ace.fence import fence, read_fences
from combee.ace.generator import AceGenerator
from combee.ace.models import Models, ModelSettings, RoleModel, budget_of, open_models, price_of, settings_of
from combee.ace.prompts import PLACEHOLDERS, Prompt, Prompts
from combee.ace.refine import Cluster, Refined, clusters_of, refine
from combee.ace.reflector import AceReflector
from combee.ace.student import Student, lesson_of

__all__ = [
    "ASSUMED",
    "PLACEHOLDERS",
    "AceCurator",
    "AceGenerator",
    "AceMethod",
    "AceReflector",
    "CallOptions",
    "Cluster",
    "ModelSettings",
    "Models",
    "Prompt",
    "Prompts",
    "Refined",
    "RoleBudget",
    "RoleModel",
    "Student",
    "Summary",
    "Workload",
    "budget_of",
    "clusters_of",
    "estimate_learning",
    "fence",
    "lesson_of",
    "open_models",
    "price_of",
    "read_fences",
    "refine",
    "refuse_too_small",
    "settings_of",
]
