"""A plug-in for the stock `gepa` package: parallel reflection over large minibatches (arXiv 2604.04247, 2507.19457).

`CombeeReflection` is a gepa `ReflectionLM`, `CombeeSampler` a `BatchSampler`, `TaskAdapter` a `GEPAAdapter`. gepa stays
a dependency: nothing of it is copied, and what a version of it can do is found by looking, not by its number.
"""

from __future__ import annotations

from combee.gepa.stock import require_gepa

require_gepa()

from combee.gepa.adapter import PromptAgent, TaskAdapter, Trajectory  # noqa: E402 - gepa is checked first
from combee.gepa.background import Background  # noqa: E402 - likewise
from combee.gepa.options import ReflectionOptions  # noqa: E402 - likewise
from combee.gepa.recording import GepaRecorder  # noqa: E402 - likewise
from combee.gepa.reflection import CombeeReflection  # noqa: E402 - likewise
from combee.gepa.sampler import CombeeSampler  # noqa: E402 - likewise
from combee.gepa.stock import keep_state  # noqa: E402 - likewise

__all__ = [
    "Background",
    "CombeeReflection",
    "CombeeSampler",
    "GepaRecorder",
    "PromptAgent",
    "ReflectionOptions",
    "TaskAdapter",
    "Trajectory",
    "keep_state",
]
