"""What one model at one endpoint takes, how a request is written for it, and what is given up when it is refused.

Nothing is asked in advance: the full form is sent, and what the endpoint refuses is dropped or rewritten (JSON schema,
then JSON mode, then asking in words; `max_tokens` by its other name; the system role folded into the first message; any
other field left out) and remembered. What went wrong with one call alone is mended for that call alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from combee.errors import CallErrorKind
from combee.model.outcome import ErrorBody, Fault
from combee.model.types import Message, Request

_CONTROLS = bytes(range(32)) + b"\x7f"
_CONTROL = re.compile(b"[\x00-\x1f\x7f]")
StructuredBy = Literal["json_schema", "json_object", "words"]
_FORMS_OF_JSON: tuple[StructuredBy, ...] = ("json_schema", "json_object", "words")
_LIMITS = ("max_tokens", "max_completion_tokens", None)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What is known of a model at an endpoint; None: not tried yet.

    `structured`: the form in which JSON is asked for now. `limit_name`: what the limit of a reply is called (None: it
    takes none); `most_tokens`: the largest that it takes. `system`: whether it takes the system role. `without`: fields
    of the request that it does not take. `least_temperature`: the lowest that it takes. `demands`: switches that it
    wants set (`stream`: then the reply is put together from its chunks).
    """

    structured: StructuredBy = "json_schema"
    json_schema: bool | None = None
    json_mode: bool | None = None
    usage: bool | None = None
    limit_name: str | None = "max_tokens"
    most_tokens: int | None = None
    system: bool = True
    without: tuple[str, ...] = ()
    least_temperature: float = 0.0
    demands: tuple[tuple[str, bool], ...] = ()

    def narrowed(self, other: Capabilities) -> Capabilities:
        """Return what both allow: many calls in flight find out the same thing, or different ones."""
        most = [one.most_tokens for one in (self, other) if one.most_tokens is not None]
        return Capabilities(
            structured=max(self.structured, other.structured, key=_FORMS_OF_JSON.index),
            json_schema=_and(self.json_schema, other.json_schema),
            json_mode=_and(self.json_mode, other.json_mode),
            usage=other.usage if self.usage is None else self.usage,
            limit_name=max(self.limit_name, other.limit_name, key=_LIMITS.index),
            most_tokens=min(most, default=None),
            system=self.system and other.system,
            without=tuple(sorted({*self.without, *other.without})),
            least_temperature=max(self.least_temperature, other.least_temperature),
            demands=tuple(sorted({**dict(self.demands), **dict(other.demands)}.items())),
        )


def _and(one: bool | None, other: bool | None) -> bool | None:
    return False if one is False or other is False else one if other is None else other


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


def _folded(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return the messages without the system role: its text opens the first message, and neighbours are joined."""
    made: list[dict[str, str]] = []
    for message in messages:
        role = "user" if message.role == "system" else message.role
        if made and made[-1]["role"] == role:
            made[-1]["content"] += f"\n\n{message.content}"
        else:
            made.append({"role": role, "content": message.content})
    return made


def write_body(request: Request, model: str, can: Capabilities, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a chat completion; `extra` is added last and wins."""
    messages = [{"role": one.role, "content": one.content} for one in request.messages]
    if not can.system:
        messages = _folded(request.messages)
    body: dict[str, Any] = {"model": model, "messages": messages}
    if can.limit_name is not None:
        body[can.limit_name] = min(request.max_tokens, can.most_tokens or request.max_tokens)
    body["temperature"] = max(request.temperature, can.least_temperature)
    if request.seed is not None:
        body["seed"] = request.seed
    if request.stop:
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
    for name, value in can.demands:
        body[name] = value
        if name == "stream":
            body["stream_options"] = {"include_usage": True}
    for name in can.without:
        body.pop(name, None)
    return body


_FORMAT = re.compile(
    r"response[_ ]?format|json[_ ]?(schema|object|mode)|guided|grammar|structured[_ ]outputs?|\bschema\b",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"max(?:imum)?[_ ]?(completion[_ ]?|output[_ ]?|new[_ ]?)?tokens", re.IGNORECASE)
_CEILING = re.compile(
    r"(?:less than(?: or equal to)?|no more than|at most|up to|maximum(?: allowed)?(?: value)?(?: of| is)?|"
    r"range of \S+ (?:is|should be) [\[(] ?\d+ ?,|取值范围\W{0,2}[\[(] ?\d+ ?,|model limit of|"
    r"range is from \d+ (?:\(inclusive\) )?to|between \d+ and|"
    r"(?:: \d+ )?>|<=|≤) ?[`'\"]?(\d+)",
    re.IGNORECASE,
)
_TOO_LOW = re.compile(r"must be (greater|higher|larger|more|at least)|too (small|low)", re.IGNORECASE)
_DEMAND = re.compile(
    r"\b(?!input\b|value\b|field\b)([a-z][a-z_]*)[`'\"]{0,2} "
    r"?(?:must|should|has to|needs to) be (?:set )?(?:to )?[`'\"]?(true|false)\b",
    re.IGNORECASE,
)
_STREAMS = re.compile(
    r"only (support|accept|allow|work)\w* .{0,20}stream|stream(ing)?( mode)? (is )?(required|mandatory)|"
    r"(require|enable)s? .{0,16}\bstream|stream ?= ?[`'\"]?false",
    re.IGNORECASE,
)
_SYSTEM = re.compile(
    r"system (role|message|prompt|instruction)s?\b.{0,40}(not|n[o']t|un)\s?(support|allow|permit|enabl|accept)|"
    r"(does not|doesn't|not|un)\s?support\w*.{0,30}\bsystem\b|developer instruction is not enabled|"
    r"(only|roles?).{0,60}\b(user|assistant)\b.{0,60}(supported|allowed|permitted|expected|accepted)|"
    r"roles must alternate|valid role: (?!.{0,40}system)|"
    r"(invalid|unknown|unexpected|got).{0,30}(role|variant).{0,12}system|"
    r"got [`'\"]?system|unknown variant .{0,3}system|system[`'\"]? is not (one of|a valid|allowed)|"
    r"should be .{0,3}user.{0,9}assistant|roles? must be (?!.{0,60}system).{0,30}(user|assistant)|"
    r"不支持.{0,6}system|system.{0,6}不支持",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"(not|n't|un) ?(supported|support|permitted|allowed|implemented|available|accept\w*)|unknown|unrecognized|"
    r"unexpected (keyword|field|arg\w*|param\w*)|invalid (param|arg|field|value)|extra_forbidden|extra (inputs|fields)",
    re.IGNORECASE,
)
_POSITIVE = re.compile(
    r"strictly positive|(greater|larger|more) than (0|zero)|> ?0\b|cannot be (0|zero)", re.IGNORECASE
)
_NEVER = frozenset({"model", "messages"})
_LOWEST = 0.01
_ADAPTABLE = {CallErrorKind.BAD_REQUEST, CallErrorKind.SERVER, CallErrorKind.ERROR_IN_BODY}


def adapt(request: Request, can: Capabilities, fault: Fault, sent: Mapping[str, Any]) -> Capabilities | None:
    """Return what is left after the endpoint refused a request, or None where nothing is to give up.

    Args:
        request: What was asked.
        can: What was taken for granted when it was sent.
        fault: The refusal.
        sent: The body that was sent.
    """
    said = fault.body
    if said is None or fault.kind not in _ADAPTABLE:
        return None
    words = said.words
    if _SYSTEM.search(words) and can.system and _folded(request.messages) != sent["messages"]:
        return replace(can, system=False)
    if fault.kind is not CallErrorKind.BAD_REQUEST and not _REFUSES.search(words):
        return None
    left = _demanded(can, said, sent) or _limited(can, said, sent) or _without_named(request, can, said, sent)
    return None if left == can else left


def _demanded(can: Capabilities, said: ErrorBody, sent: Mapping[str, Any]) -> Capabilities | None:
    """Return what is left with the switch that the endpoint wants set; None where it wants none, or it is set."""
    found = _DEMAND.search(said.words)
    name, value = (found[1], found[2] == "true") if found else ("stream", True)
    if (found is None and not _STREAMS.search(said.words)) or sent.get(name) is value or name in can.without:
        return None
    return replace(can, demands=tuple(sorted({**dict(can.demands), name: value}.items())))


def _without_named(
    request: Request, can: Capabilities, said: ErrorBody, sent: Mapping[str, Any]
) -> Capabilities | None:
    by_us = request.schema is not None and can.structured != "words"
    named = [name for name in sent if name not in _NEVER and name != can.limit_name and said.names(name)]
    if by_us and "response_format" in sent and ("response_format" in named or _FORMAT.search(said.words)):
        return next_form(can)
    if "temperature" in named and _POSITIVE.search(said.words) and not can.least_temperature:
        return replace(can, least_temperature=_LOWEST)
    return replace(can, without=tuple(sorted({*can.without, *named}))) if named else None


def plain(can: Capabilities) -> Capabilities:
    """Return what every chat endpoint takes: messages, and a limit of the reply."""
    without = tuple(sorted({*can.without, "seed", "stop", "temperature"}))
    return replace(can, structured="words", without=without)


def next_form(can: Capabilities) -> Capabilities:
    """Return what is left without the form in which JSON is asked for now."""
    if can.structured == "json_schema":
        return replace(can, structured="json_object", json_schema=False)
    return replace(can, structured="words", json_mode=False)


def _limited(can: Capabilities, said: ErrorBody, sent: Mapping[str, Any]) -> Capabilities | None:
    """Return what is left where the limit of the reply is refused: its size, or its name."""
    if can.limit_name is None or can.limit_name not in sent or not _LIMIT.search(said.words):
        return None
    ceilings = [int(number) for number in _CEILING.findall(said.words)]
    if "(exclusive)" in said.words:
        ceilings = [number - 1 for number in ceilings]
    if not ceilings and _TOO_LOW.search(said.words):
        return None
    lower = [number for number in ceilings if 0 < number < sent[can.limit_name]]
    if lower:
        return replace(can, most_tokens=max(lower))
    return replace(can, limit_name=_LIMITS[_LIMITS.index(can.limit_name) + 1])


_WINDOW = re.compile(
    r"(?:context (?:length|window|size|limit)|context_length|max_model_len)\D{0,40}?(\d[\d,_]*)", re.IGNORECASE
)
_READ = re.compile(
    r"(\d[\d,_]*) (?:(?:input|prompt) tokens|(?:tokens? )?(?:in the messages|in your prompt|from the input))",
    re.IGNORECASE,
)
_SUM = re.compile(r"(\d+) \+ (\d+) > (\d+)")
_ASKED = re.compile(r"limit:? ~?(\d+).{0,60}requested:? ~?(\d+)", re.IGNORECASE | re.DOTALL)
_LEAST_ROOM = 128


def in_another_form(request: Request, fault: Fault) -> Request | None:
    """Return this request as the endpoint may take it, for this call alone; None where there is no such form.

    A reply that was not in the form is asked for in words. Where prompt and room for the reply together exceed a
    window or a limit, and the prompt alone does not, the room is made smaller.
    """
    if fault.body is None:
        return None
    if fault.kind is CallErrorKind.SCHEMA and request.schema is not None:
        *before, last = request.messages
        asked = replace(last, content=f"{last.content}\n\n{ask_in_words(request.schema)}")
        return replace(request, messages=(*before, asked), schema=None)
    if fault.kind is not CallErrorKind.CONTEXT_TOO_LONG:
        return None
    room = _room(fault.body.message, request.max_tokens)
    return replace(request, max_tokens=room) if room is not None and room >= _LEAST_ROOM else None


def _room(text: str, asked: int) -> int | None:
    """Return the tokens that are left for a reply, where an endpoint says what it counted; None where it does not."""
    if (sums := _SUM.search(text)) is not None:
        room = int(sums[3]) - int(sums[1])
    elif (window := _WINDOW.search(text)) is not None and (read := _READ.search(text)) is not None:
        room = _number(window[1]) - _number(read[1])
    elif (requested := _ASKED.search(text)) is not None:
        room = asked - (int(requested[2]) - int(requested[1])) - 16
    else:
        return None
    return room if room < asked else None


def _number(text: str) -> int:
    return int(text.replace(",", "").replace("_", ""))


def what_changed(old: Capabilities, new: Capabilities) -> str:
    """Say what an endpoint turned out not to take; "" where nothing changed."""
    said = []
    if new.structured != old.structured:
        said.append(f"{_SAID[old.structured]} (it is asked {_INSTEAD[new.structured]})")
    if new.limit_name != old.limit_name:
        said.append(f"{old.limit_name} ({new.limit_name or 'nothing'} is sent in its place)")
    if new.most_tokens != old.most_tokens:
        said.append(f"replies of more than {new.most_tokens} tokens")
    if new.system != old.system:
        said.append("the system role (its text opens the first message)")
    if new.least_temperature != old.least_temperature:
        said.append(f"a temperature below {new.least_temperature:g}")
    said += [f"requests unless {name} is {str(value).lower()}" for name, value in set(new.demands) - set(old.demands)]
    gone = [name for name in new.without if name not in old.without]
    return ", ".join([*said, *(f"{name} (it is left out)" for name in gone)])


_SAID = {"json_schema": "a JSON schema", "json_object": "JSON mode", "words": ""}
_INSTEAD = {"json_schema": "by schema", "json_object": "in JSON mode", "words": "in words"}
