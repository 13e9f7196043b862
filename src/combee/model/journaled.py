"""A model whose replies go through the journal: what was paid once is read again after a kill, not bought again.

The address is the scope's with the request's role, item and attempt; the hash covers the model, the messages and every
parameter, so a changed prompt is a new call. Failures are never stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, cast

from combee.journal import JSON, Scope
from combee.model.ledger import usage_to_json
from combee.model.types import Model, Request, Response, Timing, Usage

__all__ = ["JournaledModel", "response_from_json", "response_to_json"]


def response_to_json(response: Response) -> dict[str, JSON]:
    """Return a response as plain JSON data (by hand: `asdict` copies deeply, and this is done for each call)."""
    usage, timing = response.usage, response.timing
    return {
        "text": response.text,
        "usage": usage_to_json(usage) if usage is not None else None,
        "finish": response.finish,
        "timing": {"queued": timing.queued, "wire": timing.wire, "retries": timing.retries},
        "model": response.model,
        "cost": response.cost,
    }


def response_from_json(value: Mapping[str, Any]) -> Response:
    """Return the response that `response_to_json` wrote."""
    usage = value.get("usage")
    return Response(
        text=value["text"],
        usage=Usage(**usage) if usage is not None else None,
        finish=value["finish"],
        timing=Timing(**value["timing"]),
        model=value["model"],
        cost=value["cost"],
    )


def _digest(text: str) -> str:
    """Return what stands for a message: prompts are long, and the journal would write each out to hash it.

    In pieces under 2 kB: for larger ones hashlib gives the interpreter up, and waits for it beside a busy writer.
    """
    raw = memoryview(text.encode("utf-8", "surrogatepass"))
    hasher = hashlib.sha256()
    for start in range(0, len(raw), 2000):
        hasher.update(raw[start : start + 2000])
    return hasher.hexdigest()


def inputs_of(request: Request, model: Model) -> dict[str, JSON]:
    """Return all that a reply depends on."""
    return {
        "model": model.name,
        "messages": [[message.role, _digest(message.content)] for message in request.messages],
        "schema": cast("JSON", dict(request.schema)) if request.schema is not None else None,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "stop": list(request.stop),
        "parameters": cast("JSON", dict(getattr(model, "parameters", {}))),
    }


class JournaledModel:
    """`model`, with each reply kept under `scope`."""

    def __init__(self, model: Model, scope: Scope) -> None:
        self._model = model
        self._scope = scope

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self._model.name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The inner model's extra parameters."""
        found: Mapping[str, Any] = getattr(self._model, "parameters", {})
        return found

    async def complete(self, request: Request) -> Response:
        """Return the stored reply, or call the model and store what it says."""

        async def call() -> JSON:
            return response_to_json(await self._model.complete(request))

        value = await self._scope.once(
            request.role, request.item, inputs_of(request, self._model), call, attempt=request.attempt
        )
        return response_from_json(cast("dict[str, Any]", value))
