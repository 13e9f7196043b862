"""ACE's Generator on any model: does a task with the playbook before it (arXiv 2510.04618, section 3)."""

from __future__ import annotations

from combee.ace.citing import cited_ids
from combee.ace.fence import fence
from combee.ace.prompts import Prompts
from combee.ace.schemas import GENERATOR
from combee.ace.showing import Shown
from combee.kernel.journal import Scope
from combee.kernel.learn.roles import Rollout, Task
from combee.kernel.playbook import Playbook
from combee.model import Model
from combee.model.asking import as_text, ask
from combee.model.settings import CallOptions

__all__ = ["AceGenerator"]


class AceGenerator:
    """One call a task. The target is never read here.

    Args:
        model: Any model.
        prompts: The prompts; ours by default.
        options: Length, temperature and seed of the replies.
    """

    def __init__(self, model: Model, *, prompts: Prompts | None = None, options: CallOptions | None = None) -> None:
        self._model = model
        self._prompts = prompts or Prompts.load()
        self._options = options or CallOptions()
        self._shown = Shown()

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Do the task.

        Raises:
            CallError: The call failed, or the reply was not in form after a re-ask.
        """
        values = {"playbook": self._shown(playbook), "task": fence("task", task.question)}
        reply = await ask(
            self._model,
            self._prompts["generator"].render(values),
            scope,
            role="generator",
            item=task.id,
            schema=GENERATOR,
            required=("final_answer",),
            options=self._options,
        )
        return Rollout(
            task=task.id,
            answer=as_text(reply["final_answer"]),
            used=cited_ids(reply.get("bullet_ids"), playbook),
            reasoning=as_text(reply.get("reasoning")),
        )
