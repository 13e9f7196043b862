"""Reaches a model and says what it can do, what a call costs and takes, and how to mend what fails."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from combee.errors import BudgetError, CallError, CallErrorKind, RunError, did_you_mean
from combee.model.dialect import Capabilities, what_changed
from combee.model.engine import LATER, Engine, RetryPolicy
from combee.model.limiter import Limiter
from combee.model.local import LocalModel
from combee.model.openai import OpenAIModel
from combee.model.outcome import Fault
from combee.model.provider_errors import shorten
from combee.model.structured import find_json
from combee.model.types import ChatModel, Message, Request, Response

_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
# A small model need not end a text or a number by itself.
_BOUNDED = {
    **_SCHEMA,
    "properties": {"city": {"type": "string", "maxLength": 20}, "people": {"type": "integer", "maximum": 99_000_000}},
}
_WRITTEN = 16
_LONG = (Message("user", "The ledger is closed on the last day of the month. " * 8),)
_QUESTION = Message("user", "Name one large city and how many people live there.")
_ASK = (Message("system", "Be brief."), _QUESTION)
_PATIENT = 60.0  # seconds that one call may take
_LONGEST_WAIT = 20.0  # seconds that an endpoint may ask for, or refuse every try; what is longer is said
_KEY_HEADERS = ("api-key", "x-api-key")


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """One thing looked at. `ok` is None for what is only good to know; `hint` says how to mend it."""

    name: str
    ok: bool | None
    detail: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """What was found. `latency` is seconds of a small call; `cost` what this check itself cost, US dollars or None."""

    model: str
    base_url: str
    checks: tuple[EndpointCheck, ...]
    capabilities: Capabilities
    latency: float | None
    cost: float | None
    models: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether calls work."""
        return all(check.ok is not False for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return {**asdict(self), "ok": self.ok}


async def check_endpoint(model: OpenAIModel) -> EndpointReport:
    """Make up to four small calls and return what they showed; nothing is raised for an endpoint that fails.

    What is learned of the endpoint (schema, JSON mode) is in `capabilities`: give it to the model that runs.
    """
    engine = _engine()
    probe = model.sibling(engine=engine, price=model.price)
    names = await _models(probe)
    checks: list[EndpointCheck] = []
    reply, took = await _try(probe, Request(_ASK, max_tokens=256, seed=1, role="doctor", accept_cut=True))
    if isinstance(reply, Response):
        checks.append(EndpointCheck("reachable", True, f"{probe.name} answered in {took:.2f} s"))
        checks.append(_usage_check(reply))
        if probe.name.rpartition("/")[2].lower() not in reply.model.lower():
            said = f"the reply says that {shorten(reply.model, 80)} made it"
            hint = "Some servers answer with whatever model is loaded: look there if that is not the one you mean."
            checks.append(EndpointCheck("model", None, said, hint))
        gone = what_changed(Capabilities(), probe.capabilities)
        if gone:
            checks.append(EndpointCheck("adapted", None, f"it does not take {gone}"))
        checks.extend([await _structured(probe, "json_schema"), await _structured(probe, "json_object")])
    else:
        checks.append(await _why(probe, reply, names))
    checks.append(_price_check(model))
    can = _settle(probe.capabilities, checks)
    known = took if isinstance(reply, Response) else None
    cost = engine.ledger.total.cost if model.price else None
    return EndpointReport(probe.name, probe.endpoint.base_url, tuple(checks), can, known, cost, names)


def _engine() -> Engine:
    return Engine(limiter=Limiter(1), retry=RetryPolicy(backoff=0.5, max_tries=5, longest_wait=_LONGEST_WAIT))


async def check_local(model: LocalModel) -> EndpointReport:
    """Make four small calls and return what they showed; nothing is raised for a model that fails."""
    engine = Engine(limiter=Limiter(1))
    probe = model.sibling(engine)
    weights = model.server.weights
    checks = [EndpointCheck("weights", True, f"{weights} ({weights.stat().st_size / 1e6:,.0f} MB)")]
    reply, took = await _try(probe, Request(_ASK, max_tokens=1, role="doctor", accept_cut=True))
    known = None
    if isinstance(reply, Response):
        checks.append(EndpointCheck("runs", True, f"loaded and answered in {took:.1f} s"))
        written, _ = await _try(probe, Request(_ASK, max_tokens=_WRITTEN, role="doctor", accept_cut=True))
        read, _ = await _try(probe, Request(_LONG, max_tokens=1, role="doctor", accept_cut=True))
        if isinstance(written, Response) and isinstance(read, Response):
            checks.append(_speed_check(written, read))
            known = written.timing.wire
        obeyed, _ = await _try(probe, Request(_ASK, _BOUNDED, max_tokens=64, role="doctor", accept_cut=True))
        checks.append(_obeyed(obeyed, "json_schema", "JSON schema"))
    else:
        checks.append(EndpointCheck("runs", False, reply.message, reply.hint))
    checks.append(_price_check(model))
    can = _settle(Capabilities(), checks)
    return EndpointReport(probe.name, "this process", tuple(checks), can, known, engine.ledger.total.cost)


def _speed_check(written: Response, read: Response) -> EndpointCheck:
    """Say how quick a model is, from a reply that was long and a prompt that was."""
    tokens = written.usage.completion if written.usage else 0
    prompt = read.usage.prompt - read.usage.cached if read.usage else 0
    said = f"{prompt / max(read.timing.wire, 1e-3):.0f} tokens a second read"
    return EndpointCheck(
        "speed", None, f"{said}, {tokens / max(written.timing.wire, 1e-3):.0f} written, one call at a time"
    )


async def _try(
    model: ChatModel, request: Request, limit: float = _PATIENT
) -> tuple[Response | CallError | RunError, float]:
    """Make one call; it may take so many seconds, but for weights of our own, which may take long to load."""
    began = time.monotonic()
    try:
        return await asyncio.wait_for(
            model.complete(request), limit if isinstance(model, OpenAIModel) else None
        ), time.monotonic() - began
    except TimeoutError:
        error = CallError(f"no answer within {limit:g} s", kind=CallErrorKind.TIMEOUT)
        return error, time.monotonic() - began
    except (CallError, BudgetError, RunError) as error:
        return error, time.monotonic() - began


async def _models(model: OpenAIModel) -> tuple[str, ...]:
    """Return the names that the endpoint lists; empty where it lists none."""
    reply = await model.endpoint.get("/models")
    if isinstance(reply, Fault) or reply.status != 200:
        return ()
    try:
        data = json.loads(reply.body)
        return tuple(str(entry["id"]) for entry in data["data"])
    except (ValueError, KeyError, TypeError):
        return ()


async def _why(model: OpenAIModel, error: CallError | RunError, names: Sequence[str]) -> EndpointCheck:
    """Return the check that failed, with the hint that fits best."""
    kind = getattr(error, "kind", None)
    hint = error.hint
    if kind is CallErrorKind.NO_SUCH_MODEL and names:
        hint = did_you_mean(model.name, names) if len(names) <= 20 else f"{did_you_mean(model.name, names)[:400]}"
    elif kind is CallErrorKind.NO_SUCH_MODEL:
        hint = "The endpoint lists no models: look its names up on the provider's pages."
    elif kind is CallErrorKind.AUTH and model.endpoint.has_key:
        hint = await _other_header(model) or hint
    elif kind is CallErrorKind.BAD_REQUEST and "azure" in model.endpoint.host:
        hint = f"An Azure deployment is at {_AZURE}."
    elif kind in {CallErrorKind.BAD_REQUEST, CallErrorKind.NOT_JSON}:
        path = "/v1/chat/completions"
        if not model.endpoint.base_url.endswith("/v1"):
            other = await model.endpoint.post(b"{}", path)
            if not isinstance(other, Fault) and other.status in {200, 400, 401, 403, 422}:
                hint = f"There is a chat endpoint one level down: use {model.endpoint.base_url}/v1 as the base URL."
    elif kind in {CallErrorKind.RATE_LIMIT, CallErrorKind.SERVER, CallErrorKind.TIMEOUT}:
        busy = "The endpoint is there but busy; try again later. Nothing was paid."
        hint = busy if hint in {None, LATER} else hint
    return EndpointCheck("reachable", False, error.message.removeprefix("stopped: "), hint)


_AZURE = "https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=2024-10-21"


async def _other_header(model: OpenAIModel) -> str | None:
    """Return what to set where the endpoint takes the key from another header than the one it is sent in."""
    for name in _KEY_HEADERS:
        if name == model.endpoint.key_header.lower():
            continue
        other = model.sibling(engine=_engine(), endpoint=model.endpoint.with_key_header(name))
        reply, _ = await _try(
            other, Request((_QUESTION,), max_tokens=256, role="doctor", accept_cut=True), _PATIENT / 6
        )
        await other.aclose()
        if isinstance(reply, Response):
            return f'The endpoint takes the key from another header: write api_key_header = "{name}" below [model].'
    return None


def _usage_check(reply: Response) -> EndpointCheck:
    usage = reply.usage
    if usage is None or usage.estimated:
        return EndpointCheck(
            "usage",
            None,
            "replies do not say how many tokens they took",
            "Tokens and cost are estimated and marked so.",
        )
    return EndpointCheck("usage", True, f"{usage.prompt} prompt and {usage.completion} completion tokens reported")


async def _structured(model: OpenAIModel, form: str) -> EndpointCheck:
    """Return whether one form of structured output is obeyed."""
    can = replace(model.capabilities, structured="json_schema" if form == "json_schema" else "json_object")
    one = model.sibling(engine=model.engine, price=model.price, capabilities=replace(can, usage=True))
    reply, _ = await _try(one, Request(_ASK, _SCHEMA, max_tokens=256, role="doctor", accept_cut=True))
    label = "JSON schema" if form == "json_schema" else "JSON mode"
    if one.capabilities.structured != can.structured:
        return EndpointCheck(
            form, None, f"the endpoint refuses {label}", "It is asked for in another form, and in words at last."
        )
    return _obeyed(reply, form, label)


def _obeyed(reply: Response | CallError | RunError, form: str, label: str) -> EndpointCheck:
    if not isinstance(reply, Response):
        return EndpointCheck(
            form, None, f"{label} failed: {reply.message}", "Structured replies are asked for in words."
        )
    if find_json(reply.text, ("city", "people")) is None:
        return EndpointCheck(
            form, None, f"it takes {label} but does not obey it", "Replies are parsed, and re-asked once."
        )
    return EndpointCheck(form, True, f"{label} is obeyed")


def _price_check(model: OpenAIModel | LocalModel) -> EndpointCheck:
    price = model.price
    if price is None:
        return EndpointCheck(
            "price", None, "the price is not known", "Give it with --price PROMPT/COMPLETION to use --max-cost."
        )
    cached = f", cached {price.cached:g}" if price.cached is not None else ""
    return EndpointCheck(
        "price", True, f"${price.prompt:g} in and ${price.completion:g} out per million tokens{cached} ({price.source})"
    )


def _settle(can: Capabilities, checks: Sequence[EndpointCheck]) -> Capabilities:
    """Return the capabilities that the checks showed."""
    found = {check.name: check.ok for check in checks}
    if "json_schema" not in found:
        return can
    schema, mode = bool(found["json_schema"]), bool(found.get("json_object"))
    return replace(
        can,
        structured="json_schema" if schema else "json_object" if mode else "words",
        json_schema=schema,
        json_mode=mode,
        usage=found.get("usage") is True,
    )
