"""What one model at one endpoint takes, and how a request is written for it.

Nothing is asked in advance: the full form is sent, and where the endpoint refuses a part of it, that part is given up
(JSON schema, then JSON mode, then asking in words) and remembered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from combee.model.outcome import Fault
from combee.model.types import Request

__all__ = ["Capabilities", "adapt", "ask_in_words", "to_bytes", "write_body"]

_CONTROLS = bytes(range(32)) + b"\x7f"
_CONTROL = re.compile(b"[\x00-\x1f\x7f]")
StructuredBy = Literal["json_schema", "json_object", "words"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What is known of a model at an endpoint; None: not tried yet. `structured` is the form that is used now."""

    structured: StructuredBy = "json_schema"
    json_schema: bool | None = None
    json_mode: bool | None = None
    usage: bool | None = None
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    seed: bool = True
    stop: bool = True


def _is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether a schema fits OpenAI's strict mode: every object closed, all its properties required."""
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != set(properties):
            return False
        return all(isinstance(part, Mapping) and _is_strict(part) for part in properties.values())
    items = schema.get("items")
    options = [option for key in ("anyOf", "oneOf") for option in schema.get(key, ())]
    return all(_is_strict(part) for part in [items, *options] if isinstance(part, Mapping))


class _Form(dict[str, Any]):
    """A `response_format` with its bytes: the same for every call of a role, and long beside a short prompt."""

    __slots__ = ("raw",)
    raw: bytes


_FORMS: dict[int, tuple[Mapping[str, Any], _Form]] = {}  # by identity; the schema is held, so that no id comes twice
_MOST_FORMS = 64


def _form_of(schema: Mapping[str, Any]) -> _Form:
    held = _FORMS.get(id(schema))
    if held is not None:
        return held[1]
    inner = {"name": "reply", "schema": schema, "strict": _is_strict(schema)}
    form = _Form(type="json_schema", json_schema=inner)
    form.raw = json.dumps(form, separators=(",", ":")).encode()
    if len(_FORMS) >= _MOST_FORMS:
        _FORMS.clear()
    _FORMS[id(schema)] = (schema, form)
    return form


def ask_in_words(schema: Mapping[str, Any]) -> str:
    """Return the sentence that asks for an object of this schema."""
    shown = json.dumps(schema, sort_keys=True)
    return f"Answer with one JSON object only, no other text, following this JSON schema:\n{shown}"


def _text(text: str) -> bytes:
    """Return a JSON string as UTF-8: five replaces over bytes, several times quicker than `json` for long prompts.

    Lone surrogates, which no server reads, become question marks.
    """
    raw = text.encode("utf-8", "replace").replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    raw = raw.replace(b"\n", b"\\n").replace(b"\r", b"\\r").replace(b"\t", b"\\t")
    if len(raw.translate(None, _CONTROLS)) != len(raw):
        raw = _CONTROL.sub(lambda found: b"\\u%04x" % found.group()[0], raw)
    return b'"' + raw + b'"'


def to_bytes(body: Mapping[str, Any]) -> bytes:
    """Return a body of `write_body` as UTF-8 JSON; the messages are what is long in it."""
    rest = {name: value for name, value in body.items() if name != "messages" and not isinstance(value, _Form)}
    form = body.get("response_format")
    messages = b",".join(
        b'{"role":"%b","content":%b}' % (message["role"].encode(), _text(message["content"]))
        for message in body["messages"]
    )
    start = b'"response_format":%b,' % form.raw if isinstance(form, _Form) else b""
    return b'{%b"messages":[%b],%b' % (start, messages, json.dumps(rest, separators=(",", ":")).encode()[1:])


def write_body(request: Request, model: str, can: Capabilities, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a chat completion; `extra` is added last and wins."""
    messages = [{"role": message.role, "content": message.content} for message in request.messages]
    body: dict[str, Any] = {"model": model, "messages": messages, can.limit_name: request.max_tokens}
    if can.temperature:
        body["temperature"] = request.temperature
    if request.seed is not None and can.seed:
        body["seed"] = request.seed
    if request.stop and can.stop:
        body["stop"] = list(request.stop)
    if request.schema is not None:
        if can.structured == "json_schema":
            body["response_format"] = _form_of(request.schema)
        else:
            # At the end: what comes before stays the same from call to call, for prefix caches.
            last = messages[-1]
            last["content"] = f"{last['content']}\n\n{ask_in_words(request.schema)}"
            if can.structured == "json_object":
                body["response_format"] = {"type": "json_object"}
    if extra:
        body.update(extra)
    return body


_FORMAT = re.compile(
    r"response_?format|json_?schema|json_?object|json mode|guided|grammar|structured output|schema", re.IGNORECASE
)
_LIMIT = re.compile(r"max_(completion_)?tokens", re.IGNORECASE)


def adapt(request: Request, can: Capabilities, fault: Fault) -> Capabilities | None:
    """Return what is left after the endpoint refused a request with `fault`, or None where nothing is to give up."""
    said = f"{fault.message} {fault.code}"
    if request.schema is not None and can.structured != "words" and _FORMAT.search(said):
        if can.structured == "json_schema":
            return replace(can, structured="json_object", json_schema=False)
        return replace(can, structured="words", json_mode=False)
    if _LIMIT.search(said) and "max_completion_tokens" in said and can.limit_name == "max_tokens":
        return replace(can, limit_name="max_completion_tokens")
    if can.limit_name == "max_completion_tokens" and re.search(
        r"max_completion_tokens.{0,80}(unknown|unsupport|not |extra)", said
    ):
        return replace(can, limit_name="max_tokens")
    if can.temperature and "temperature" in said.lower():
        return replace(can, temperature=False)
    if request.seed is not None and can.seed and re.search(r"\bseed\b", said):
        return replace(can, seed=False)
    if request.stop and can.stop and re.search(r"\bstop\b", said):
        return replace(can, stop=False)
    return None
