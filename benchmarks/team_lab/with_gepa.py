"""The lead's rules as a text that gepa improves, reflecting through Combee; used by bench_team.py.

The language model is a script: it writes down the rules that stand in what it is shown, and invents none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.team_lab.learning import Arena, TeamReflector
from benchmarks.team_lab.meaning import stance
from benchmarks.team_lab.phrases import Intent
from benchmarks.team_lab.play import Played
from benchmarks.team_lab.repositories import Broken
from combee.gepa import CombeeReflection
from combee.kernel.journal import MemoryScope
from combee.kernel.playbook import Playbook

CALLS = 150
SEED_RULES = "You lead a team that repairs a Python repository."
_RULE = re.compile(r"Rule: (.+)")


def rules_of(text: str) -> dict[Intent, int]:
    """Return what the lead makes of a text of rules."""
    return stance((rule, 1) for rule in dict.fromkeys(_RULE.findall(text)))


def scribe(prompt: Any) -> str:
    """Return the rules of a prompt, each once."""
    text = prompt if isinstance(prompt, str) else "\n".join(str(message["content"]) for message in prompt)
    rules = dict.fromkeys(rule.strip() for rule in _RULE.findall(text))
    return "\n".join(["```", SEED_RULES, *(f"Rule: {rule}" for rule in rules), "```"])


class TeamAdapter:
    """Plays a team with the candidate's rules (`gepa.GEPAAdapter`)."""

    propose_new_texts = None

    def __init__(self, arena: Arena, seed: int) -> None:
        self._arena, self._reflector = arena, TeamReflector(seed=seed)

    def evaluate(self, batch: Sequence[Broken], candidate: Mapping[str, str], capture_traces: bool = False) -> Any:
        """Return the total score of each repository."""
        from gepa.core.adapter import EvaluationBatch

        played = self._arena.run(batch, rules_of(candidate["rules"]))
        scores = [one.score.total for one in played]
        return EvaluationBatch(outputs=played, scores=scores, trajectories=played if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: Mapping[str, str], eval_batch: Any, components_to_update: Sequence[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """Return a record a run: the joined trace, and what the reflector concludes from it."""
        records = [self._record(one) for one in eval_batch.trajectories]
        return dict.fromkeys(components_to_update, records)

    def _record(self, played: Played) -> dict[str, Any]:
        found = asyncio.run(self._reflector.reflect_trace(played.trace, Playbook(), MemoryScope()))
        lessons = "\n".join(f"Rule: {lesson}" for lesson in found.lessons) if found else "No fault was seen."
        talk = "\n".join(step.text for step in played.trace.steps)
        return {"Task": played.trace.task, "Generated": talk, "Feedback": lessons, "Score": played.score.total}


class _Quiet:
    def log(self, message: str) -> None:
        """Drop the message."""


def learn_with_gepa(train: Sequence[Broken], arena: Arena, seed: int) -> str:
    """Return the best rules: half of `train` is learned from, the other half decides what is kept."""
    from gepa.api import optimize

    half = len(train) // 2
    with CombeeReflection(scribe, seed=seed) as reflection:
        result: Any = optimize(
            seed_candidate={"rules": SEED_RULES},
            trainset=list(train[:half]),
            valset=list(train[half:]),
            adapter=TeamAdapter(arena, seed),  # type: ignore[arg-type]  # gepa's protocol names its types otherwise
            reflection_strategy=reflection,
            reflection_minibatch_size=half,
            max_metric_calls=CALLS,
            logger=_Quiet(),
            seed=seed,
        )
    return str(result.best_candidate["rules"])
