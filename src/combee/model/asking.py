"""One question of a role to its model: in form, re-asked once, and never paid for twice.

The loop and the tree keep the result of a role under one address; here only a first reply that could not be used is
kept, so that a kill during the re-ask loses nothing, and no reply is stored twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from combee.errors import CallError
from combee.kernel.journal import JSON, Scope, clean_text
from combee.kernel.journal.values import Spelled, atom
from combee.model.answer_text import why_unusable
from combee.model.ledger import usage_to_json
from combee.model.settings import CallOptions
from combee.model.structured import complete_json, find_json
from combee.model.types import ChatModel, Message, Request, Response, Timing, Usage


def model_print(model: ChatModel) -> list[JSON]:
    """Return what of a model decides its replies."""
    return [model.name, cast("JSON", dict(getattr(model, "parameters", {})))]


def request_hash(request: Request, model: ChatModel) -> str:
    """Return the hash of messages, settings and model; not by JSON, since prompts can be long and calls many."""
    settings = [model_print(model), request.max_tokens, request.temperature, request.seed]
    digest = hashlib.blake2b(digest_size=20)
    for part in (repr(settings), *(message.content for message in request.messages)):
        data = part.encode("utf-8", "replace")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


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


class _AfterFirst:
    """A model whose first reply is there already; the next ones are asked for."""

    def __init__(self, model: ChatModel, first: Response) -> None:
        self._model = model
        self._first: Response | None = first

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: Request) -> Response:
        first, self._first = self._first, None
        return first if first is not None else await self._model.complete(request)


async def ask(
    model: ChatModel,
    messages: tuple[Message, ...],
    scope: Scope,
    *,
    role: str,
    item: str,
    schema: Mapping[str, Any],
    required: Sequence[str],
    options: CallOptions,
    why: Callable[[str], CallError | None] = why_unusable,
) -> dict[str, Any]:
    """Return the object of the reply; what the schema asks for beyond `required` may be missing.

    `why` says why a required text cannot be used.

    Raises:
        CallError: The call failed after its retries, two replies held no such object (kind SCHEMA), or a refusal or an
            error stood in both where the text should.
    """

    def judge(value: dict[str, Any]) -> CallError | None:
        return next((bad for bad in (why(as_text(value.get(key))) for key in required) if bad), None)

    request = Request(
        messages=messages,
        schema=schema,
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        seed=options.seed,
        role=role,
        item=item,
        accept_cut=True,
    )
    first = _kept(scope, request, model)
    if first is None:
        first = await model.complete(request)
        found = find_json(first.text, required, schema)
        if found is not None and not found.cut and judge(found.value) is None:
            return found.value
        first = _keep(scope, request, model, first)
    return await complete_json(_AfterFirst(model, first), request, required=required, schema=schema, judge=judge)


def _kept(scope: Scope, request: Request, model: ChatModel) -> Response | None:
    """Return the reply that could not be used, if it is kept; the prompt is hashed only where there may be one."""
    name = f"unusable/{request.role}/{request.item}"
    if scope.peek(name) is None:
        return None
    reply = scope.peek(f"{name}/{request_hash(request, model)}")
    return None if reply is None else response_from_json(cast("dict[str, Any]", reply))


def _keep(scope: Scope, request: Request, model: ChatModel, reply: Response) -> Response:
    """Keep a reply that could not be used, and note that this role has one for this item."""
    name = f"unusable/{request.role}/{request.item}"
    scope.decide(name, True)
    kept = scope.decide(f"{name}/{request_hash(request, model)}", response_to_json(reply))
    return response_from_json(cast("dict[str, Any]", kept))


async def ask_and_keep(
    model: ChatModel,
    messages: tuple[Message, ...],
    scope: Scope,
    *,
    role: str,
    item: str,
    schema: Mapping[str, Any],
    required: Sequence[str],
    options: CallOptions,
) -> dict[str, Any]:
    """`ask`, with the object kept in the scope: for calls whose result nobody else keeps."""

    async def call() -> JSON:
        return await ask(
            model, messages, scope, role=role, item=item, schema=schema, required=required, options=options
        )

    request = Request(messages, max_tokens=options.max_tokens, temperature=options.temperature, seed=options.seed)
    return cast("dict[str, Any]", await scope.once(role, item, request_hash(request, model), call))


def as_text(value: object) -> str:
    """Return what a model wrote for a text: lists become lines, nothing becomes empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return "\n".join(part for part in map(as_text, value) if part)
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {as_text(part)}" for key, part in value.items())
    return str(value)
