"""Agents on a language model through pydantic-ai (extra `combee-learn[swarm]`): the same loop, another model.

One reply is one request; tools, window and mail stay the runtime's.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from combee.errors import CallError, CallErrorKind, UsageError, how_to_install
from combee.model import Budget, Price, Usage
from combee.swarm.agents import Reply, View
from combee.swarm.context import Call, Entry

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters

__all__ = [
    "PydanticModel",
    "arguments_of",
    "at_endpoint",
    "known_name",
]


_REPLY = 1_000  # tokens that a reply is reckoned to have where nothing bounds it


@dataclass(frozen=True)
class PydanticModel:
    """Thinks with a model of pydantic-ai: a name ("openai:gpt-5") or one of its model objects.

    `instructions` are the system prompts by role; "" stands for every other role. `max_tokens` bounds one reply,
    `budget` all of them; `price` is needed for one in money.
    """

    model: Model | str | Callable[[View], Model]
    instructions: Mapping[str, str] = field(default_factory=dict)
    max_tokens: int | None = None
    briefed: bool = True
    budget: Budget = field(default_factory=Budget)
    price: Price | None = None
    slow: bool = field(default=True, init=False)

    async def reply(self, view: View) -> Reply:
        """Return the model's reply.

        Raises:
            BudgetError: A limit is used up, and the run ends.
            CallError: The model gave nothing usable.
            UsageError: pydantic-ai is not installed, or knows no such model.
        """
        expected = Usage(sum(entry.tokens for entry in view.entries), self.max_tokens or _REPLY, estimated=True)
        held = await self.budget.reserve(expected, self.price.cost(expected) if self.price else None)
        usage: Usage | None = None
        try:
            reply = await self._request(view)
            usage = reply.usage or expected
            return reply
        finally:
            cost = self.price.cost(usage) if self.price and usage else None
            self.budget.settle(held, usage, cost, counted=usage is not None)

    async def _request(self, view: View) -> Reply:
        try:
            from pydantic_ai.direct import model_request
            from pydantic_ai.exceptions import AgentRunError, UserError
            from pydantic_ai.models import Model
            from pydantic_ai.settings import ModelSettings
        except ImportError as error:
            raise UsageError("agents on a model need pydantic-ai", hint=how_to_install("swarm")) from error
        model = self.model if isinstance(self.model, Model | str) else self.model(view)
        settings = ModelSettings(max_tokens=self.max_tokens) if self.max_tokens else None
        text = self.instructions.get(view.agent.role, self.instructions.get("", ""))
        try:
            reply = await model_request(
                model,
                _messages(view.entries, text),
                model_settings=settings,
                model_request_parameters=_parameters(view),
            )
        except UserError as error:
            raise UsageError(f"pydantic-ai: {error}", hint="Check the model's name, its extra and its key.") from error
        except AgentRunError as error:
            raise CallError(f"{type(error).__name__}: {error}", kind=_kind(error)) from error
        return _thought(reply)

    async def aclose(self) -> None:
        """Close the connections of a model object that has a client of its own."""
        close = getattr(getattr(self.model, "client", None), "close", None)
        if close is not None:
            await close()


def known_name(name: str) -> str:
    """Return a model's name once pydantic-ai knows it and has what it takes to call it.

    Raises:
        UsageError: It knows no such model, or a package or a key is missing.
    """
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise UsageError("agents on a model need pydantic-ai", hint=how_to_install("swarm")) from error
    try:
        infer_model(name)
    except (ImportError, UserError, ValueError) as error:
        hint = "Check the model's name, its package and its key."
        raise UsageError(f"pydantic-ai cannot call {name!r}: {error}", hint=hint) from error
    return name


def at_endpoint(name: str, base_url: str, key: str | None) -> Model:
    """Return pydantic-ai's model for any endpoint that speaks OpenAI's chat completions, tools included.

    Raises:
        UsageError: The package `openai`, which pydantic-ai calls endpoints with, is not installed.
    """
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError as error:
        hint = f'{how_to_install("swarm")} Or use kind = "endpoint", which needs no more than Combee.'
        raise UsageError("pydantic-ai calls endpoints with the package openai", hint=hint) from error
    # Endpoints on this machine want no key, the client wants one.
    client = importlib.import_module("openai").AsyncOpenAI(base_url=base_url, api_key=key or "none")
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))


def _kind(error: Exception) -> CallErrorKind:
    """Return our name for an error; pydantic-ai's classes say what happened."""
    kinds = {
        "RateLimit": CallErrorKind.RATE_LIMIT,
        "ContextWindow": CallErrorKind.CONTEXT_TOO_LONG,
        "Authentication": CallErrorKind.AUTH,
        "NotFound": CallErrorKind.NO_SUCH_MODEL,
        "Timeout": CallErrorKind.TIMEOUT,
        "Connection": CallErrorKind.CONNECTION,
        "ContentFilter": CallErrorKind.CONTENT_FILTER,
        "Rejected": CallErrorKind.BAD_REQUEST,
    }
    name = type(error).__name__
    return next((kind for part, kind in kinds.items() if part in name), CallErrorKind.SERVER)


def _parameters(view: View) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=tool.name, description=tool.about, parameters_json_schema=tool.schema())
        for tool in view.tools
    ]
    return ModelRequestParameters(function_tools=tools, allow_text_output=True)


def _messages(entries: Sequence[Entry], instructions: str) -> list[ModelMessage]:
    """Return the entries as pydantic-ai's messages: what comes in is joined to one request between two replies."""
    from pydantic_ai.messages import (
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    messages: list[ModelMessage] = []
    incoming: list[ModelRequestPart] = [SystemPromptPart(instructions)] if instructions else []
    names: dict[str, str] = {}
    for entry in entries:
        if entry.role == "assistant":
            if incoming:
                messages.append(ModelRequest(parts=incoming))
                incoming = []
            said: list[ModelResponsePart] = [TextPart(entry.text)] if entry.text or not entry.calls else []
            said += [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in entry.calls]
            names |= {call.id: call.name for call in entry.calls}
            messages.append(ModelResponse(parts=said))
        elif entry.role == "tool" and entry.answers in names:
            incoming.append(ToolReturnPart(names[entry.answers], entry.text, tool_call_id=entry.answers))
        elif entry.role == "system":
            incoming.append(SystemPromptPart(entry.text))
        else:  # also a result whose call compaction took away
            incoming.append(UserPromptPart(entry.text))
    if incoming:
        messages.append(ModelRequest(parts=incoming))
    return messages


def _thought(reply: ModelResponse) -> Reply:
    from pydantic_ai.messages import TextPart, ToolCallPart

    text = "".join(part.content for part in reply.parts if isinstance(part, TextPart))
    calls = tuple(
        Call(part.tool_call_id, part.tool_name, arguments_of(part.args))
        for part in reply.parts
        if isinstance(part, ToolCallPart)
    )
    usage = reply.usage
    if not usage.has_values():
        return Reply(text, calls)
    return Reply(text, calls, Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens))


def arguments_of(args: str | Mapping[str, Any] | None) -> str:
    """Return arguments as the model wrote them; pydantic-ai's own text form is another than ours."""
    return args if isinstance(args, str) else json.dumps(args or {}, ensure_ascii=False)
