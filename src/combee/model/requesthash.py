"""What stands for a request in a journal: a hash of all that its reply depends on."""

from __future__ import annotations

import hashlib
from typing import cast

from combee.kernel.journal import JSON
from combee.model.types import Model, Request

__all__ = ["model_print", "request_hash"]


def model_print(model: Model) -> list[JSON]:
    """Return what of a model decides its replies."""
    return [model.name, cast("JSON", dict(getattr(model, "parameters", {})))]


def request_hash(request: Request, model: Model) -> str:
    """Return the hash of messages, settings and model; not by JSON, since prompts can be long and calls many."""
    settings = [model_print(model), request.max_tokens, request.temperature, request.seed]
    digest = hashlib.blake2b(digest_size=20)
    for part in (repr(settings), *(message.content for message in request.messages)):
        data = part.encode("utf-8", "replace")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()
