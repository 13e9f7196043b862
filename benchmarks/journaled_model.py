"""A model whose replies go through the journal by themselves: the smallest user of journal and engine, to measure.

A run keeps what its roles return, not each reply. The address is the scope's with the request's role, item and attempt;
the hash covers the model, the messages and every parameter, so a changed prompt is a new call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, cast

from combee.kernel.journal import JSON, Scope
from combee.kernel.journal.values import Spelled, atom, canonical_json
from combee.model.asking import response_from_json, response_to_json
from combee.model.types import ChatModel, Request, Response

__all__ = ["JournaledModel", "inputs_of"]


def _digest(text: str) -> str:
    """Return what stands for a message: prompts are long, and the journal would write each out to hash it.

    In pieces under 2 kB: for larger ones hashlib gives the interpreter up, and waits for it beside a busy writer.
    """
    raw = memoryview(text.encode("utf-8", "surrogatepass"))
    hasher = hashlib.sha256()
    for start in range(0, len(raw), 2000):
        hasher.update(raw[start : start + 2000])
    return hasher.hexdigest()


def inputs_of(request: Request, model: ChatModel) -> Spelled:
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

    def __init__(self, model: ChatModel, scope: Scope) -> None:
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
