"""A brain on any model of `combee.model`. Tools are called in JSON of the reply, which any model can be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from combee.errors import CallError
from combee.model import Message, Model, Request, Response, Usage, complete_json
from combee.swarm.brain import Brain, FailedThoughtError, Thought, ToolSpec, View, use
from combee.swarm.mail import Mail
from combee.swarm.window import Call, Entry, WriteSummary
from combee.swarm.world import AgentRow

__all__ = ["ModelBrain", "summary_by"]

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


def summary_by(brain: Brain, role: str = "") -> WriteSummary:
    """Return a writer of summaries that lets a brain write them."""

    async def write(entries: Sequence[Entry], tokens: int) -> str:
        agent = AgentRow("summary", role, "", "serial", "none", 0, "live", 1)
        order = Entry("user", _HANDOVER.format(tokens=tokens))
        mail = Mail(0, "", "tell", "", "summary", 1, "", "", order.text, order.tokens)
        return (await brain.think(View(agent, mail, None, (*entries, order), 0))).text

    return write


@dataclass(frozen=True)
class ModelBrain:
    """Thinks with a model of `combee.model`, so its limiter, ledger, budget and retries hold.

    Attributes:
        model: The model.
        instructions: System prompts by role; "" stands for every other role.
        max_tokens: Most that one reply may have.
    """

    model: Model
    instructions: Mapping[str, str] = field(default_factory=dict)
    max_tokens: int = 2048
    slow: bool = field(default=True, init=False)

    async def think(self, view: View) -> Thought:
        """Return the model's reply, with what the endpoint charged for it.

        Raises:
            CallError: The model gave nothing usable; a `FailedThoughtError` where that was paid for.
            BudgetError: A limit is used up; nothing of the thought is booked, and the run ends.
        """
        text = self.instructions.get(view.agent.role, self.instructions.get("", "You are one of several agents."))
        messages = [Message("system", f"{text}\n\n{_how(view.tools)}"), *map(_message, view.entries)]
        request = Request(
            tuple(messages), _SCHEMA, self.max_tokens, role=f"swarm/{view.agent.role}", item=view.agent.name
        )
        metered = _Metered(self.model)
        try:
            reply = await complete_json(metered, request, required=("text",))
        except CallError as error:
            if metered.usage is None:
                raise
            raise FailedThoughtError(error, metered.usage) from error
        calls = reply.get("calls")
        return Thought(str(reply["text"] or ""), _calls(calls if isinstance(calls, list) else []), metered.usage)

    async def aclose(self) -> None:
        """Close the model's connections."""
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()


class _Metered:
    """A model that adds up what its replies took: a thought may need a second call to be in form."""

    def __init__(self, model: Model) -> None:
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


def _how(tools: Sequence[ToolSpec]) -> str:
    lines = "\n".join(
        f"- {tool.name}({', '.join(f'{name}: {about}' for name, about in tool.parameters.items())}): {tool.about}"
        for tool in tools
    )
    form = '{"text": "...", "calls": [{"tool": "...", "arguments": {}}]}'
    return f"Reply with one JSON object {form}. Without a call your text ends the turn. Tools:\n{lines}"


def _message(entry: Entry) -> Message:
    if entry.role == "assistant":
        said = "".join(f"\n[{call.name} {call.arguments}]" for call in entry.calls)
        return Message("assistant", entry.text + said)
    return Message("user", entry.text)


def _calls(raw: list[object]) -> tuple[Call, ...]:
    made = []
    for number, one in enumerate(raw):
        if isinstance(one, dict) and isinstance(one.get("arguments"), dict):
            made.append(use(str(one.get("tool")), number, **{str(k): str(v) for k, v in one["arguments"].items()}))
    return tuple(made)
