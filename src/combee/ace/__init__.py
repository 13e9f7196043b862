"""ACE on any model: Generator, Reflector, Curator, and the refine pass (arXiv 2510.04618)."""

from __future__ import annotations

from combee.ace.curator import AceCurator
from combee.ace.prompts import PLACEHOLDERS, Prompt, Prompts, fence, read_fences
from combee.ace.refine import Refined, clusters_of, refine
from combee.ace.roles import AceGenerator, AceReflector

__all__ = [
    "PLACEHOLDERS",
    "AceCurator",
    "AceGenerator",
    "AceReflector",
    "Prompt",
    "Prompts",
    "Refined",
    "clusters_of",
    "fence",
    "read_fences",
    "refine",
]
