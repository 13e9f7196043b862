"""What every model is to Combee: one async method from `Request` to `Response` (chat completions, the common part)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

FinishReason = Literal["stop", "length", "content_filter", "tool_calls", "unknown"]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message; `role` is system, user or assistant."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `role` and `item` say in the ledger what the call was for.

    `schema` is a JSON schema for the reply; it is not to be changed once it was sent.
    `accept_cut`: a reply that was cut off at `max_tokens` is returned with finish "length" instead of being tried again
    with twice the room and then raised as a `CallError`.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 4096
    temperature: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    role: str = "call"
    item: str = ""
    attempt: int = 0
    accept_cut: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. `estimated` is True when the endpoint did not say and we counted characters."""

    prompt: int
    completion: int
    cached: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call: waiting for a slot, on the wire (last try), and in retries before it."""

    queued: float = 0.0
    wire: float = 0.0
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Response:
    """A usable reply. `usage` is None when unknown; `cost` is US dollars or None when the price is unknown."""

    text: str
    usage: Usage | None = None
    finish: FinishReason = "stop"
    timing: Timing = field(default_factory=Timing)
    model: str = ""
    cost: float | None = None


@runtime_checkable
class ChatModel(Protocol):
    """Anything that completes a request. Raises `CallError` after its last retry, `BudgetError` at a limit."""

    @property
    def name(self) -> str:
        """The model's name as reports show it."""
        ...

    async def complete(self, request: Request) -> Response:
        """Return a usable reply or raise."""
        ...
