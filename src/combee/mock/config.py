"""How a mock endpoint behaves: every knob in one frozen dataclass, readable from JSON."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from combee.errors import UsageError, did_you_mean
from combee.mock.providers import PLAIN, PROVIDERS, Provider

# name: whether the endpoint charges for it. `reset` breaks off before any work, the others marked True after it.
FAULTS: dict[str, bool] = {
    "rate_limit": False,
    "server": False,
    "overloaded": False,
    "html": False,
    "html_502": False,
    "reset": False,
    "error_in_body": False,
    "error_text": False,
    "timeout": True,
    "truncated": True,
    "bad_json": True,
    "empty": True,
    "null": True,
    "length": True,
    "content_filter": True,
}


@dataclass(frozen=True, slots=True)
class LatencyLaw:
    """Seconds of a call: `base` + `slope` · x^`power`, times a lognormal factor of `sigma` (median 1).

    x is what `per` says: prompt tokens, or items (lines of the prompt that begin with `[`, `-` or a number).
    """

    base: float = 0.0
    slope: float = 0.0
    power: float = 1.0
    sigma: float = 0.0
    per: Literal["tokens", "items"] = "tokens"

    def seconds(self, size: float, rng: random.Random) -> float:
        """Return the latency of one call."""
        value = self.base + (self.slope * size**self.power if self.slope and size else 0.0)
        return value * math.exp(self.sigma * rng.gauss(0, 1)) if self.sigma else value


def parse_latency(text: str) -> LatencyLaw:
    """Read a law: `0.2`, `lognormal:0.2:0.6`, `linear:BASE:SLOPE[/items]`, `power:BASE:SLOPE:EXPONENT[/items]`.

    Raises:
        UsageError: The text is none of these.
    """
    law, _, per = text.partition("/")
    kind, *rest = law.split(":")
    try:
        numbers = [float(part) for part in rest] if rest else [float(kind)]
        if not all(0 <= number < math.inf for number in numbers) or per not in {"", "items", "tokens"}:
            raise ValueError
        unit: Literal["tokens", "items"] = "items" if per == "items" else "tokens"
        if not rest:
            return LatencyLaw(numbers[0])
        if kind == "lognormal" and len(numbers) == 2 and numbers[0] > 0:
            return LatencyLaw(numbers[0], sigma=numbers[1])
        if kind == "linear" and len(numbers) == 2:
            return LatencyLaw(numbers[0], numbers[1], per=unit)
        if kind == "power" and len(numbers) == 3:
            return LatencyLaw(numbers[0], numbers[1], numbers[2], per=unit)
    except ValueError:
        pass  # the one message below says what is right
    raise UsageError(
        f"{text!r} is not a latency",
        hint="Write 0.2, lognormal:0.2:0.6, linear:0.1:0.001 or power:0.1:0.002:0.8/items.",
    )


@dataclass(frozen=True, slots=True)
class MockConfig:
    """What a mock endpoint is like.

    `rate` and `burst`: a bucket, calls a second and its size (None: no limit). `max_in_flight`: more than so many at
    once are refused. `retry_after`: how a 429 says when to come back ("seconds" rounds up as the header asks).
    `faults`: share of calls by kind (see `FAULTS`). `hang`: seconds that a "timeout" fault keeps the client waiting.
    `key`: the one key that is accepted (None: any). `models`: the names that exist (empty: any). `context`: tokens of
    the window. `schema`, `json_mode`: whether `response_format` is obeyed, refused with 400, or ignored (prose).
    `like`: the provider whose shapes it plays (see `PROVIDERS`; None: plain OpenAI shapes, and nothing is refused).
    `usage`: whether replies carry it. `cached`: share of prompt tokens that count as cached. `thinking`: text sent
    before the answer, in `reasoning_content` or as a `<think>` block.
    """

    latency: LatencyLaw = field(default_factory=LatencyLaw)
    like: str | None = None
    rate: float | None = None
    burst: float = 50
    max_in_flight: int | None = None
    retry_after: Literal["seconds", "date", "milliseconds", "none"] = "seconds"
    faults: Mapping[str, float] = field(default_factory=dict)
    hang: float = 60.0
    key: str | None = None
    models: tuple[str, ...] = ()
    context: int | None = None
    schema: Literal["obey", "refuse", "ignore"] = "obey"
    json_mode: Literal["obey", "refuse", "ignore"] = "obey"
    usage: bool = True
    cached: float = 0.0
    thinking: Literal["none", "field", "tag"] = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.like is not None and self.like not in PROVIDERS:
            raise UsageError(f"the mock knows no provider {self.like!r}", hint=did_you_mean(self.like, PROVIDERS))
        for name, share in self.faults.items():
            if name not in FAULTS:
                raise UsageError(f"there is no fault {name!r}", hint=did_you_mean(name, FAULTS))
            if not 0 <= share <= 1:
                raise UsageError(f"the share of {name} is {share}", hint="Give a share from 0 to 1.")
        for name, least in (("rate", 0.0), ("burst", 0.0), ("hang", 0.0), ("cached", 0.0)):
            value = getattr(self, name)
            if value is not None and not (least <= value < math.inf and (value > 0 or name not in {"rate", "burst"})):
                raise UsageError(f"{name} of the mock is {value}", hint="Give a finite number above 0.")
        for name in ("context", "max_in_flight"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"{name} of the mock is {value!r}", hint="Give a whole number of at least 1.")
        if sum(self.faults.values()) > 1 + 1e-9:
            raise UsageError("the shares of the faults add up to more than 1")

    @property
    def provider(self) -> Provider:
        """The ways of the provider that it plays."""
        return PLAIN if self.like is None else PROVIDERS[self.like]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MockConfig:
        """Read a configuration; `latency` is a text as for `parse_latency`.

        Raises:
            UsageError: A name is not known.
        """
        if not isinstance(data, Mapping):
            raise UsageError("the settings of the mock are no object", hint='Write {"latency": "0.2", "rate": 10}.')
        known = {entry.name for entry in fields(cls)}
        for name in data:
            if name not in known:
                raise UsageError(f"there is no mock option {name!r}", hint=did_you_mean(name, known))
        values = dict(data)
        if isinstance(values.get("latency"), str | int | float):
            values["latency"] = parse_latency(str(values["latency"]))
        if "models" in values:
            values["models"] = tuple(values["models"])
        return cls(**values)
