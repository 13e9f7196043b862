"""A model whose replies go through the journal: what was paid once is read again after a kill, not bought again.

The address is the scope's with the request's role, item and attempt; the hash covers the model, the messages and every
parameter, so a changed prompt is a new call. Failures are never stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, cast

from combee.kernel.journal import JSON, Scope, clean_text
from combee.kernel.journal.values import Spelled, atom, canonical_json
from combee.model.ledger import usage_to_json
from combee.model.types import Model, Request, Response, Timing, Usage

__all__ = ["JournaledModel", "response_from_json", "response_to_json"]


def response_to_json(response: Response) -> Spelled:
    """Return a response as plain JSON data, with its text (by hand: this is done for each call)."""
    usage, timing, cost, finish = usage_to_json(response.usage), response.timing, response.cost, response.finish
    said, model = clean_text(response.text), clean_text(response.model)
    queued, wire, retries = timing.queued, timing.wire, timing.retries
    value = Spelled(
        text=said,
        usage=usage,
        finish=finish,
        timing={"queued": queued, "wire": wire, "retries": retries},
        model=model,
        cost=cost,
    )
    value.text = (
        f'{{"cost":{atom(cost)},"finish":{atom(finish)},"model":{atom(model)},"text":{atom(said)},'
        f'"timing":{{"queued":{atom(queued)},"retries":{atom(retries)},"wire":{atom(wire)}}},'
        f'"usage":{usage.text if usage is not None else "null"}}}'
    )
    return value


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


def inputs_of(request: Request, model: Model) -> Spelled:
    """Return all that a reply depends on, with its text."""
    name, stop, schema = model.name, list(request.stop), request.schema
    most, heat, seed = request.max_tokens, request.temperature, request.seed
    parameters = dict(getattr(model, "parameters", {}))
    messages = [[message.role, _digest(message.content)] for message in request.messages]
    value = Spelled(
        model=name,
        messages=messages,
        schema=schema,
        max_tokens=most,
        temperature=heat,
        seed=seed,
        stop=stop,
        parameters=parameters,
    )
    said = ",".join([f'[{atom(role)},"{digest}"]' for role, digest in messages])
    value.text = (
        f'{{"max_tokens":{atom(most)},"messages":[{said}],"model":{atom(name)},'
        f'"parameters":{canonical_json(parameters) if parameters else "{}"},"schema":{atom(schema)},'
        f'"seed":{atom(seed)},"stop":{canonical_json(stop) if stop else "[]"},"temperature":{atom(heat)}}}'
    )
    return value


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
        bought: tuple[Response, Spelled] | None = None

        async def call() -> JSON:
            nonlocal bought
            response = await self._model.complete(request)
            bought = response, response_to_json(response)
            return bought[1]

        value = await self._scope.once(
            request.role, request.item, inputs_of(request, self._model), call, attempt=request.attempt
        )
        if bought is not None and (bought[0].text, bought[0].model) == (bought[1]["text"], bought[1]["model"]):
            return bought[0]  # what a replay will read is equal to it
        return response_from_json(cast("dict[str, Any]", value))
