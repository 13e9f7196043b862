"""How the providers differ where they all say "OpenAI-compatible": errors, refused fields, counted tokens, thinking.

Each shape is one that users of that provider have shown in public, or that its documentation gives (`source`); texts
are shortened, names are made up. None was recorded from a live endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Body = dict[str, Any] | list[Any]
THOUGHT, THINKING = "Let me think about it. So that is what is asked.", 40  # a thought, and its tokens


@dataclass(frozen=True, slots=True)
class Rejection:
    """An HTTP error: its status, what it says, its code, the field that it is about, seconds until it may be tried."""

    status: int
    message: str
    code: str = ""
    param: str | None = None
    wait: float | None = None


def _openai(said: Rejection) -> Body:
    kind = "invalid_request_error" if said.status < 429 else "requests" if said.status == 429 else "server_error"
    error = {"message": said.message, "type": kind, "param": said.param, "code": said.code or None}
    return {"error": error}


def _azure(said: Rejection) -> Body:
    if said.code == "content_filter":
        inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
        return {"error": {"message": said.message, "code": said.code, "status": said.status, "innererror": inner}}
    return {"error": {"code": said.code or str(said.status), "message": said.message, "param": said.param}}


def _gemini(said: Rejection) -> Body:
    status = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}.get(said.status, "INTERNAL")
    details: list[Any] = []
    message = said.message
    if said.status == 400:
        details.append({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"description": said.message}],
        })  # fmt: skip
    if said.wait is not None:
        message = (
            "You exceeded your current quota, please check your plan and billing details. For more information head to:"
            f" https://ai.google.dev/gemini-api/docs/rate-limits.\nPlease retry in {said.wait:.9g}s."
        )
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{said.wait:.9g}s"})
    return [{"error": {"code": said.status, "message": message, "status": status, "details": details}}]


def _openrouter(said: Rejection) -> Body:
    if said.status in {401, 402, 404}:
        return {"error": {"message": said.message, "code": said.status}}
    raw = json.dumps(_openai(said), indent=2)
    wrapped = {"message": "Provider returned error", "code": said.status}
    return {"error": {**wrapped, "metadata": {"raw": raw, "provider_name": "Mock"}}, "user_id": "user_made_up"}


def _mistral(said: Rejection) -> Body:
    if said.status == 401:
        return {"message": "Unauthorized", "request_id": "made-up"}
    message: Any = said.message
    if said.param is not None:
        detail = {"type": "extra_forbidden", "loc": ["body", said.param], "msg": "Extra inputs are not permitted"}
        message = {"detail": [{**detail, "input": "what was sent"}]}
    kind = "rate_limited" if said.status == 429 else "invalid_request_error"
    return {"object": "error", "message": message, "type": kind, "param": None, "code": said.code or None}


def _xai(said: Rejection) -> Body:
    words = {400: "Client specified an invalid argument", 429: "Some resource has been exhausted"}
    return {"code": words.get(said.status, "The system is not in a state to do that"), "error": said.message}


def _vllm(said: Rejection) -> Body:
    kind = "BadRequestError" if said.status < 500 else "InternalServerError"
    return {"object": "error", "message": said.message, "type": kind, "param": said.param, "code": said.status}


def _llamacpp(said: Rejection) -> Body:
    kind = said.code or ("invalid_request_error" if said.status < 500 else "server_error")
    return {"error": {"code": said.status, "message": said.message, "type": kind}}


def _ollama(said: Rejection) -> Body:
    return {"error": {"message": said.message, "type": "api_error", "param": None, "code": None}}


Counting = Literal["inside", "beside", "total", "none"]
Thoughts = Literal["hidden", "reasoning_content", "reasoning", "parts", "tag", "channel", "none"]


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider's ways.

    `error`: the body of an error. `refuses`: what it says to a field that it does not take, by field ("system" and
    "json_schema" for the role and the form). `status`: that of such a refusal. `thoughts`: where thinking is sent, and
    `counting` whether its tokens stand inside `completion_tokens`, beside them with their number, or in the total
    alone. `key_header`: the header that it takes the key from. `path`: where the chat endpoint is. `window`: tokens
    of the prompt that it reads; more are cut without a word where `cuts`. `every`: what each so many-th call comes to.
    `source`: where these facts are from.
    """

    error: Callable[[Rejection], Body] = _openai
    refuses: Mapping[str, str] = field(default_factory=dict)
    status: int = 400
    thoughts: Thoughts = "none"
    counting: Counting = "inside"
    key_header: str = "authorization"
    bad_key: Rejection = field(default_factory=lambda: Rejection(401, "Incorrect API key provided.", "invalid_api_key"))
    no_model: Rejection = field(
        default_factory=lambda: Rejection(404, "The model `{name}` does not exist", "model_not_found")
    )
    too_long: Rejection = field(
        default_factory=lambda: Rejection(
            400,
            "This model's maximum context length is {window} tokens. However, you requested {all} tokens ({read} in "
            "the messages, {room} in the completion).",
            "context_length_exceeded",
        )
    )
    path: str = "/v1"
    window: int | None = None
    cuts: bool = False
    every: Mapping[int, str] = field(default_factory=dict)
    source: str = ""


_LIMIT = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
_HEAT = "Unsupported value: 'temperature' does not support {value} with this model. Only the default (1) is supported."
_REASONING = {"max_tokens": _LIMIT, "temperature": _HEAT}

PLAIN = Provider()
"""OpenAI's shapes, and nothing is refused."""
PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        refuses=_REASONING, thoughts="hidden", source="issues of users, models o1 to gpt-5; the API reference"
    ),
    "azure": Provider(
        error=_azure,
        refuses=_REASONING,
        thoughts="hidden",
        key_header="api-key",
        bad_key=Rejection(401, "Access denied due to invalid subscription key or wrong API endpoint.", "401"),
        no_model=Rejection(404, "The API deployment for this resource does not exist.", "DeploymentNotFound"),
        path="/openai/deployments/{name}",
        source="issues of users",
    ),
    "gemini": Provider(
        error=_gemini,
        refuses={"seed": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'},
        thoughts="hidden",
        counting="total",
        bad_key=Rejection(400, "API key not valid. Please pass a valid API key."),
        no_model=Rejection(404, "models/{name} is not found for API version v1main"),
        too_long=Rejection(
            400, "The input token count ({read}) exceeds the maximum number of tokens allowed ({window})."
        ),
        path="/v1beta/openai",
        source="issues of users",
    ),
    "deepseek": Provider(
        refuses={"json_schema": "This response_format type is unavailable now"},
        thoughts="reasoning_content",
        bad_key=Rejection(401, "Authentication Fails (no such user)", "invalid_request_error"),
        no_model=Rejection(400, "Model Not Exist", "invalid_request_error"),
        every={9: "insufficient_system_resource"},
        source="issues of users; its documentation for the finish reason",
    ),
    "groq": Provider(
        thoughts="reasoning",
        every={7: "unfit"},
        source="issues of users; its documentation for rate limits",
    ),
    "openrouter": Provider(
        error=_openrouter,
        thoughts="reasoning",
        bad_key=Rejection(401, "No auth credentials found"),
        no_model=Rejection(404, "No endpoints found for {name}."),
        every={9: "upstream", 11: "error"},
        source="its documentation of errors; issues of users",
    ),
    "mistral": Provider(
        error=_mistral,
        refuses={"seed": "Extra inputs are not permitted"},
        status=422,
        thoughts="parts",
        no_model=Rejection(400, "Invalid model: {name}", "1500"),
        every={13: "model_length"},
        source="issues of users",
    ),
    "xai": Provider(
        error=_xai,
        refuses={"stop": "Argument not supported on this model: stop"},
        thoughts="reasoning_content",
        counting="beside",
        bad_key=Rejection(400, "Incorrect API key provided: xa***up. You can obtain an API key from the console."),
        no_model=Rejection(404, "The model {name} does not exist or your team does not have access to it."),
        too_long=Rejection(
            400, "This model's maximum prompt length is {window} but the request contains {read} tokens."
        ),
        source="issues of users; its documentation for thinking tokens",
    ),
    "vllm": Provider(
        error=_vllm,
        refuses={"system": "System role not supported"},
        thoughts="reasoning_content",
        source="issues of users",
    ),
    "sglang": Provider(
        error=_vllm,
        refuses={"system": "Internal Server Error: System role not supported"},
        status=500,
        thoughts="channel",
        too_long=Rejection(
            400, "The input ({read} tokens) is longer than the model's context length ({window} tokens)."
        ),
        every={9: "abort"},
        source="issues of users and its pull requests",
    ),
    "llamacpp": Provider(
        error=_llamacpp,
        refuses={"system": "Jinja Exception: Only user and assistant roles are supported!"},
        status=500,
        thoughts="tag",
        too_long=Rejection(400, "the request exceeds the available context size", "exceed_context_size_error"),
        source="issues of users and its pull requests",
    ),
    "ollama": Provider(
        error=_ollama,
        thoughts="tag",
        counting="none",
        no_model=Rejection(404, 'model "{name}" not found, try pulling it first'),
        window=4096,
        cuts=True,
        source="issues of users",
    ),
}
