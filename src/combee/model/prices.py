"""What tokens cost: the list in `genai-prices` (the snapshot that came with it, never fetched), and prices given.

A price that is not known is None, and stays so: a budget in money refuses to run on it. Where the list has prices by
the hour, the dearest of the coming day holds: a run may cross into it, and a budget must not count too little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from combee.errors import UsageError
from combee.model.types import Usage

Tiers = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens. `cached` is for prompt tokens read from the provider's cache (None: as `prompt`).

    Above `tiers[i][0]` prompt tokens the whole call costs `tiers[i][1]` times as much (0 or more tiers, ascending).
    `source` says where the price is from.
    """

    prompt: float
    completion: float
    cached: float | None = None
    tiers: Tiers = ()
    source: str = "given"

    def __post_init__(self) -> None:
        for value in (self.prompt, self.completion, self.cached or 0.0):
            if not 0 <= value < 1e6:
                raise UsageError(f"a price of {value} is not usable", hint="Give US dollars per million tokens.")

    def cost(self, usage: Usage) -> float:
        """Return US dollars for one call."""
        cached = min(usage.cached, usage.prompt)
        per_cached = self.prompt if self.cached is None else self.cached
        total = (usage.prompt - cached) * self.prompt + cached * per_cached + usage.completion * self.completion
        factor = 1.0
        for start, times in self.tiers:
            if usage.prompt > start:
                factor = times
        return total * factor / 1e6


def parse_price(text: str) -> Price:
    """Read `prompt/completion` or `prompt/completion/cached` in US dollars per million tokens.

    Raises:
        UsageError: The text is not two or three numbers.
    """
    try:
        numbers = [float(part) for part in text.split("/")]
    except ValueError:
        numbers = []
    if len(numbers) not in {2, 3}:
        raise UsageError(
            f"{text!r} is not a price",
            hint="Write prompt/completion or prompt/completion/cached in dollars per million tokens: 0.27/1.10/0.07.",
        )
    return Price(numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else None)


def _number(value: object) -> tuple[float, list[tuple[int, float]]] | None:
    """Return (base, [(start, price)]) of one entry of the list: a number, or a number with tiers."""
    if isinstance(value, Decimal | int | float):
        return float(value), []
    base = getattr(value, "base", None)
    if base is None:
        return None
    return float(base), [(int(tier.start), float(tier.price)) for tier in getattr(value, "tiers", [])]


_LIST = "genai-prices"
_HALF_HOURS = 48  # of a day; list prices change on the half hour


def _listed(model: str, url: str | None, provider: str | None = None) -> Iterator[Any]:
    """Yield what the list says of now and, where it may change, of each half hour of the coming day."""
    import genai_prices

    usage, now = genai_prices.Usage(input_tokens=1, output_tokens=1), datetime.now(UTC)
    for number in range(_HALF_HOURS + 1):
        at = now + timedelta(minutes=30 * number)
        if provider is None:
            found = genai_prices.calc_price(usage, model, provider_api_url=url, genai_request_timestamp=at)
        else:
            found = genai_prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=at)
        yield found
        if not isinstance(found.model.prices, list):
            break


def _lookup(model: str, url: str | None, provider: str | None = None) -> Price | None:
    try:
        listed = list(_listed(model, url, provider))
    except (LookupError, ValueError):
        return None
    found = listed[0]
    prices = [
        _price(one.model_price, f"{_LIST} {version(_LIST)}: {found.provider.id}/{found.model.id}") for one in listed
    ]
    known = [one for one in prices if one is not None]
    return None if len(known) < len(prices) else _dearest(known)


def _price(listed: Any, source: str) -> Price | None:
    """Return the price at one time, None where the list has only a part of it."""
    prompt = _number(getattr(listed, "input_mtok", None))
    completion = _number(getattr(listed, "output_mtok", None))
    if prompt is None or completion is None:
        return None
    cached = _number(getattr(listed, "cache_read_mtok", None))
    # One factor a tier, on the safe side: the dearest of prompt and completion.
    tiers: dict[int, float] = {}
    for base, steps in (prompt, completion):
        for start, price in steps:
            tiers[start] = max(tiers.get(start, 1.0), price / base if base else 1.0)
    return Price(prompt[0], completion[0], cached[0] if cached else None, tuple(sorted(tiers.items())), source)


def _dearest(prices: list[Price]) -> Price:
    """Return the most that prompt, completion and cached tokens cost at any of the times."""
    first = prices[0]
    if all(one == first for one in prices):
        return first
    cached = [one.cached for one in prices]
    tiers: dict[int, float] = {}
    for start, times in (tier for one in prices for tier in one.tiers):
        tiers[start] = max(tiers.get(start, 1.0), times)
    return Price(
        max(one.prompt for one in prices),
        max(one.completion for one in prices),
        None if None in cached else max(one for one in cached if one is not None),
        tuple(sorted(tiers.items())),
        f"{first.source}, at its dearest hour of the day",
    )


def price_hint(model: str | None = None) -> str:
    """Say how a price is given; for a model that the list has elsewhere, what it costs at its own provider."""
    hint = "Give its price in dollars per million tokens: --price 0.27/1.10/0.07, or price=Price(prompt, completion)"
    elsewhere = "" if model is None else price_elsewhere(model)
    if not elsewhere:
        return f"{hint}; 0/0 for a model that costs nothing. Or limit calls or tokens instead of money."
    return f"{hint}. {elsewhere}"


def price_elsewhere(model: str) -> str:
    """Say what a model costs at its own provider, or return "" where the list does not have it."""
    known = _lookup(model, None)
    if known is None:
        return ""
    return f"At its own provider ({known.source}) it costs {known.prompt:g}/{known.completion:g}."


_NAMED_BY_LITELLM = {
    "bedrock": "aws",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "together_ai": "together",
    "vertex_ai": "google",
    "xai": "x-ai",
}


def price_at_provider(name: str) -> Price | None:
    """Return the list price of `PROVIDER/MODEL`, as litellm names models; None where the list does not have it."""
    provider, _, model = name.partition("/") if "/" in name else ("openai", "", name)
    return _lookup(model, None, _NAMED_BY_LITELLM.get(provider, provider))


def find_price(model: str, base_url: str) -> Price | None:
    """Return the list price of `model` at the provider behind `base_url`, or None where the list does not have it."""
    host = urlsplit(base_url).hostname or ""
    if host in {"localhost", "127.0.0.1", "::1"}:
        return None
    return _lookup(model, base_url)
