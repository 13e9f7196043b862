"""Further parts for experiments: a window that hands over to disk, and a policy on the very path that a model takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from combee.swarm.agents import Policy, Reply, View
from combee.swarm.context import Entry, Window, count, spoken, whole_lines
from combee.swarm.pydantic_agents import PydanticModel, arguments_of

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.models.function import AgentInfo

__all__ = ["ToDisk", "policy_behind_pydantic"]


@dataclass(frozen=True, slots=True)
class ToDisk:
    """Writes every entry to notes first (`keep` returns the pointer), then lists as many pointers as fit.

    Nothing is lost; what is no longer listed can be found by search only.
    """

    keep: Callable[[str, Entry], str]
    tokens: int
    name: str = "to disk"
    uses_model: bool = False

    async def compact(self, entries: Sequence[Entry], window: Window, agent: str) -> list[Entry] | None:
        """Return one entry with pointers, the newest first."""
        pointers: list[str] = []
        for entry in entries:
            if entry.kind == "summary":
                pointers = entry.text.split("\n")[::-1] + pointers
            elif entry.text:
                pointers.append(self.keep(agent, entry))
        return [Entry("user", whole_lines(pointers[::-1], self.tokens), kind="summary")]


def policy_behind_pydantic(policy: Policy) -> PydanticModel:
    """Return a model that runs a scripted policy behind pydantic-ai's function model, metered like the plain driver."""

    def model_of(view: View) -> Model:
        from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel
        from pydantic_ai.usage import RequestUsage

        async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            said = policy(view)
            reply = Reply(said) if isinstance(said, str) else said
            parts: list[ModelResponsePart] = [TextPart(reply.text)] if reply.text or not reply.calls else []
            parts += [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in reply.calls]
            said_tokens = spoken(reply.text, reply.calls)
            usage = RequestUsage(input_tokens=_metered(messages), output_tokens=said_tokens)
            return ModelResponse(parts=parts, usage=usage)

        return FunctionModel(reply)

    return PydanticModel(model_of, briefed=False)


def _metered(messages: Sequence[ModelMessage]) -> int:
    """Return the tokens of what reached the model, by the window's own rule."""
    from pydantic_ai.messages import ToolCallPart

    total = 0
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                total += count(part.tool_name) + count(arguments_of(part.args))
            else:
                content = getattr(part, "content", "")
                total += count(content if isinstance(content, str) else json.dumps(content))
    return total
