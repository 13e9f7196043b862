"""The learning loop and its roles: tasks or traces in, a better playbook out."""

from __future__ import annotations

from combee.kernel.learn.codec import (
    OperationsMethod,
    ReflectionsMethod,
    delta_to_json,
    reflection_from_json,
    reflection_to_json,
)
from combee.kernel.learn.collect import reflection_name
from combee.kernel.learn.config import LearnConfig
from combee.kernel.learn.events import (
    Alerted,
    BatchChosen,
    Event,
    FinishReason,
    GuardJudged,
    Observer,
    ReduceFailed,
    RunFinished,
    RunStarted,
    SampleDone,
    SampleRefused,
    StepFinished,
    StepStarted,
    Validated,
)
from combee.kernel.learn.judge import Judge, Validate
from combee.kernel.learn.loop import LearnResult, learn
from combee.kernel.learn.roles import (
    Curator,
    Generator,
    Reflection,
    Reflector,
    Rollout,
    Score,
    Scorer,
    Task,
    TraceReflector,
)
from combee.kernel.learn.sampling import (
    Answering,
    Evaluation,
    LiveTasks,
    RecordedTraces,
    Sample,
    Sampled,
    SampleMap,
    evaluate,
)
from combee.kernel.learn.snapshot import forget as forget_snapshot

__all__ = [
    "Alerted",
    "Answering",
    "BatchChosen",
    "Curator",
    "Evaluation",
    "Event",
    "FinishReason",
    "Generator",
    "GuardJudged",
    "Judge",
    "LearnConfig",
    "LearnResult",
    "LiveTasks",
    "Observer",
    "OperationsMethod",
    "RecordedTraces",
    "ReduceFailed",
    "Reflection",
    "ReflectionsMethod",
    "Reflector",
    "Rollout",
    "RunFinished",
    "RunStarted",
    "Sample",
    "SampleDone",
    "SampleMap",
    "SampleRefused",
    "Sampled",
    "Score",
    "Scorer",
    "StepFinished",
    "StepStarted",
    "Task",
    "TraceReflector",
    "Validate",
    "Validated",
    "delta_to_json",
    "evaluate",
    "forget_snapshot",
    "learn",
    "reflection_from_json",
    "reflection_name",
    "reflection_to_json",
]
