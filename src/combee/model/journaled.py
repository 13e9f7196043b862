"""A reply as JSON for the journal, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from combee.kernel.journal import clean_text
from combee.kernel.journal.values import Spelled, atom
from combee.model.ledger import usage_to_json
from combee.model.types import Response, Timing, Usage

__all__ = ["response_from_json", "response_to_json"]


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
