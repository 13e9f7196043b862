"""Agents on any model of `combee.model`, and the choice of a model by the table [model] of a swarm's file.

Tools are called in JSON of the reply, which any model can be asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from combee.errors import CallError, CallErrorKind, UsageError
from combee.model import (
    Budget,
    ChatModel,
    Message,
    Request,
    Response,
    StoppedError,
    Usage,
    complete_json,
)
from combee.model.settings import ModelSettings
from combee.run.settings import settings_of
from combee.swarm.agents import (
    AgentModel,
    FailedReplyError,
    PolicyModel,
    Reply,
    ToolSpec,
    View,
    first_words,
    lookup,
    use,
)
from combee.swarm.briefing import indented
from combee.swarm.context import Call, Entry, WriteSummary
from combee.swarm.mail import Mail
from combee.swarm.settings import OUTPUT, SwarmSettings
from combee.swarm.world import AgentRow
from combee.tasks.scorers import import_function

__all__ = ["EndpointModel", "budget_of", "calls_of", "how_to_call", "message_of", "model_of", "summary_by"]

_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "what you say; it ends your turn when you call no tool"},
        "calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
                "required": ["tool", "arguments"],
            },
        },
    },
    "required": ["text", "calls"],
}
_HANDOVER = (
    "Your context is full. Write what the next of you must know to go on, in at most {tokens} tokens: facts with their"
    " numbers and names, what is done, what is open, and which documents hold what. One fact a line, the most needed"
    " first. Use no tool."
)


def summary_by(model: AgentModel, role: str = "") -> WriteSummary:
    """Return a writer of summaries that lets a model write them."""

    async def write(entries: Sequence[Entry], tokens: int) -> str:
        agent = AgentRow("summary", role, "", "serial", "none", 0, "live", 1)
        order = Entry("user", _HANDOVER.format(tokens=tokens))
        mail = Mail(0, "", "tell", "", "summary", 1, "", "", order.text, order.tokens)
        return (await model.reply(View(agent, mail, None, (*entries, order), 0))).text

    return write


@dataclass(frozen=True)
class EndpointModel:
    """Thinks with a model of `combee.model`, so its limiter, ledger, budget and retries hold.

    Attributes:
        model: The model.
        instructions: System prompts by role; "" stands for every other role.
        max_tokens: Most that one reply may have.
    """

    model: ChatModel
    instructions: Mapping[str, str] = field(default_factory=dict)
    max_tokens: int = 2048
    slow: bool = field(default=True, init=False)
    briefed: bool = field(default=True, init=False)

    async def reply(self, view: View) -> Reply:
        """Return the model's reply, with what the endpoint charged for it.

        Raises:
            CallError: The model gave nothing usable; a `FailedReplyError` where that was paid for.
            BudgetError: A limit is used up; nothing of the reply is booked, and the run ends.
        """
        text = self.instructions.get(view.agent.role, self.instructions.get("", "You are one of several agents."))
        named = {call.id: call.name for entry in view.entries for call in entry.calls}
        messages = [Message("system", f"{text}\n\n{_form(view.tools)}")]
        messages += [message_of(entry, named) for entry in view.entries]
        request = Request(
            tuple(messages), _SCHEMA, self.max_tokens, role=f"swarm/{view.agent.role}", item=view.agent.name
        )
        metered = _Metered(self.model)
        try:
            reply = await complete_json(metered, request, required=("text",))
        except StoppedError as error:  # nothing further can be had: an outage, which ends no task
            raise CallError(error.message, kind=CallErrorKind.CONNECTION, hint=error.hint) from error
        except CallError as error:
            if metered.usage is None:
                raise
            raise FailedReplyError(error, metered.usage) from error
        calls = reply.get("calls")
        return Reply(str(reply["text"] or ""), calls_of(calls if isinstance(calls, list) else []), metered.usage)

    async def aclose(self) -> None:
        """Close the model's connections."""
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()


class _Metered:
    """A model that adds up what its replies took: a reply may need a second call to be in form."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.usage: Usage | None = None

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: Request) -> Response:
        response = await self._model.complete(request)
        new, old = response.usage, self.usage or Usage(0, 0)
        if new is not None:
            self.usage = Usage(
                old.prompt + new.prompt, old.completion + new.completion, old.cached + new.cached,
                old.estimated or new.estimated,
            )  # fmt: skip
        return response


def _form(tools: Sequence[ToolSpec]) -> str:
    return f"Reply with one JSON object. Without a call your text ends the turn. {how_to_call(tools)}"


def how_to_call(tools: Sequence[ToolSpec]) -> str:
    """Return how a tool is used, and which there are."""
    lines = "\n".join(
        f"- {tool.name}({', '.join(f'{name}: {about}' for name, about in tool.parameters.items())}): {tool.about}"
        for tool in tools
    )
    form = '{"text": "...", "calls": [{"tool": "...", "arguments": {}}]}'
    return f"{form} uses tools. Tools:\n{lines}"


def message_of(entry: Entry, named: Mapping[str, str]) -> Message:
    """Return an entry as a message; the result of a tool is set in, so that no line of it looks like a message."""
    if entry.role == "assistant":
        said = "".join(f"\n[{call.name} {call.arguments}]" for call in entry.calls)
        return Message("assistant", entry.text + said)
    if entry.role == "tool":
        return Message("user", f"[result of {named.get(entry.answers or '', 'a tool')}]\n  {indented(entry.text)}")
    return Message("user", entry.text)


def calls_of(raw: list[object]) -> tuple[Call, ...]:
    """Return the tools that a reply uses; what is no use of one is left out."""
    made = []
    for number, one in enumerate(raw):
        if isinstance(one, dict) and isinstance(one.get("arguments"), dict):
            made.append(use(str(one.get("tool")), number, **{str(k): str(v) for k, v in one["arguments"].items()}))
    return tuple(made)


def model_of(settings: SwarmSettings, instructions: Mapping[str, str]) -> tuple[AgentModel, WriteSummary]:
    """Return the model of a description, and who writes summaries when a window is full.

    Raises:
        UsageError: A setting of it is missing or cannot be used, or a limit in money meets a model without a price.
    """
    table = settings.model.given()
    kind = table.pop("kind", "lookup")
    programs = any(agent.kind == "command" for agent in settings.agents)
    if kind in {"lookup", "script"} and settings.budget.given() and not programs:
        hint = 'It holds for "endpoint" and "pydantic-ai".'
        raise UsageError(f"[budget] does nothing for a model of the kind {kind!r}", hint=hint)
    if kind == "lookup":
        return PolicyModel(lookup), first_words
    if not table.get("name"):
        raise UsageError(f"[model] of the kind {kind!r} has no name", hint="Say which model.")
    if kind == "script":
        return PolicyModel(import_function(table["name"], "script")), first_words
    one = settings_of({"max_output_tokens": OUTPUT, **table}, settings.prices)
    budget = _budget(one, settings.budget.given())
    if kind == "endpoint":
        from combee.model.clients import open_model

        model: AgentModel = EndpointModel(open_model(one, budget=budget), instructions, one.max_output_tokens)
    else:
        from combee.swarm.pydantic_agents import PydanticModel, at_endpoint, known_name

        url = table.get("base_url")
        known = known_name(one.name) if url is None else at_endpoint(one.name, url, os.environ.get(one.api_key_env))
        limit = table.get("max_output_tokens")
        model = PydanticModel(known, instructions, limit, budget=budget, price=one.known_price())
    return model, summary_by(model)


def budget_of(settings: SwarmSettings) -> Budget:
    """Return what the programs of a description may spend; what they say that they cost counts."""
    return Budget(**(_UNLESS_SAID | settings.budget.given()))


_UNLESS_SAID: dict[str, Any] = {"max_cost": 10.0, "max_calls": 10_000, "max_tokens": 50_000_000}
"""What one process may spend where [budget] says nothing else; dollars where the price is known."""


def _budget(one: ModelSettings, limits: Mapping[str, Any]) -> Budget:
    priced = one.known_price() is not None
    if limits.get("max_cost") is not None and not priced:
        line = f'"{one.name}" = {{ input = 0.27, output = 1.10 }}'
        hint = f"Write it below [prices], in dollars per million tokens: {line}; 0 and 0 for one that is free."
        raise UsageError(f"the price of {one.name!r} is not known, so max_cost cannot be held", hint=hint)
    unsaid: dict[str, Any] = {key: most for key, most in _UNLESS_SAID.items() if priced or key != "max_cost"}
    return Budget(**(unsaid | dict(limits)))
