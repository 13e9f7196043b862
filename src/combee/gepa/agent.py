"""How a candidate works on a task: the agent protocol, and one prompt to a model, which is enough for most tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from combee.kernel.journal import Scope, hash_json
from combee.kernel.learn.roles import Rollout, Task
from combee.model import Message, Model, Request
from combee.model.asking import model_print
from combee.model.reply import strip_thinking

__all__ = ["Agent", "PromptAgent", "read_answer"]

_ANSWER = re.compile(r"^\W{0,4}(?:final )?answer\W{0,3}:\W{0,3}(.+)$", re.IGNORECASE | re.MULTILINE)


@runtime_checkable
class Agent(Protocol):
    """Works on one task with the texts of a candidate. Raises `CallError` for reasons outside the task."""

    @property
    def fingerprint(self) -> str:
        """Hash of what besides candidate and task decides an answer."""
        ...

    async def run(self, task: Task, candidate: Mapping[str, str], scope: Scope) -> Rollout:
        """Do the task. The target is not to be read."""
        ...


@dataclass(frozen=True, slots=True)
class PromptAgent:
    """One call a task: the candidate's texts are the system prompt, the question is the user's.

    A candidate of one component is sent as it stands; several stand under their names. The answer is what follows the
    last line `Answer:`, or else the whole reply.
    """

    model: Model
    max_tokens: int = 4096
    temperature: float = 0.0
    seed: int | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of what besides candidate and task decides an answer."""
        return hash_json(["prompt", *model_print(self.model), self.max_tokens, self.temperature, self.seed])

    async def run(self, task: Task, candidate: Mapping[str, str], scope: Scope) -> Rollout:
        """Do the task."""
        texts = {name: text for name, text in candidate.items() if text.strip()}
        whole = len(candidate) == 1
        system = "\n\n".join(text if whole else f"# {name}\n{text}" for name, text in texts.items())
        messages = (Message("system", system),) if system else ()
        request = Request(
            (*messages, Message("user", task.question)),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            role="rollout",
            item=task.id,
        )
        said = strip_thinking((await self.model.complete(request)).text).strip()
        return Rollout(task.id, read_answer(said), reasoning=said)


def read_answer(text: str) -> str:
    """Return the answer in a reply."""
    found = _ANSWER.findall(text)
    return str(found[-1]).strip().strip("*` ") if found else text.strip()
