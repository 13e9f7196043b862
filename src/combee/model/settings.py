"""What a model is asked for, as checked plain data: one model for each role, with its price."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from combee.errors import UsageError
from combee.kernel.learn.config import Amount, Count, Positive
from combee.model.local import FREE, is_local
from combee.model.prices import Price, find_price
from combee.redaction import find_secrets

ROLES = ("generator", "reflector", "curator")
LIMITS = ("max_cost", "max_calls", "max_tokens", "max_minutes")
LOCAL_CONTEXT = 4096  # tokens of the window that a local model is opened with
LOCAL_OUTPUT = 512  # tokens of a reply where nothing is set: a small model rarely ends by itself, and is slow here


_SECRET_QUERY = re.compile(r"[?&][^=&]*(key|token|secret|sig|password)[^=&]*=", re.IGNORECASE)
_ALLOWED = {"email", "home_path"}  # private in a lesson, harmless in a setting


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How a role calls its model."""

    max_tokens: int = 4096
    """Tokens that one reply may take."""
    context_tokens: int | None = None
    """Tokens of the model's window, where that is known."""
    temperature: float = 0.0
    seed: int | None = None
    """Sent to endpoints that take one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """One model. A `local/...` runs in this process: no URL, no key.

    Raises:
        UsageError: No name, a number that is not above zero, or a setting that holds a key.
    """

    name: str
    """Its name, as the endpoint knows it, or local/smollm2 or local/FILE.gguf, which run in this process."""
    base_url: str | None = None
    """Any OpenAI-compatible endpoint, like https://api.deepseek.com/v1. [$OPENAI_BASE_URL]"""
    api_key_env: str = "OPENAI_API_KEY"
    """NAME of the environment variable that holds the key, never the key."""
    api_key_header: str = "Authorization"
    """Header that carries the key; Authorization gets "Bearer " before it (Azure: api-key)."""
    max_in_flight: Count | None = None
    """Calls in flight at most. [found by slow start; a local model: 2]"""
    requests_per_minute: Positive | None = None
    """Calls that may begin in a minute. [no limit]"""
    tokens_per_minute: Positive | None = None
    """Tokens that may be asked for in a minute. [no limit]"""
    timeout: Positive | None = None
    """Seconds of one call at most; not for a local model. [600]"""
    ca_file: str | None = None
    """Certificates to trust in place of the system's: a file, or a folder of files."""
    client_cert: str | None = None
    """A PEM file with a certificate and its key, for endpoints that ask who connects."""
    temperature: Amount = 0.0
    """Sampling temperature."""
    max_output_tokens: Count = 4096
    """Tokens that one reply may take; a local model's are 512 unless set."""
    context_tokens: Count | None = None
    """Tokens of its window: aggregating calls, replies included, stay below nine tenths. [not known; local: 4096]"""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the request body."""
    price: Price | None = None
    """What it costs, where no list knows it."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise UsageError("No model is named.", hint="Give a name, as the endpoint knows the model.")
        limits = ("max_in_flight", "requests_per_minute", "tokens_per_minute", "timeout")
        for key in (*limits, "max_output_tokens", "context_tokens"):
            value = getattr(self, key)
            if value is not None and not value > 0:
                raise UsageError(f"{key} of a model is {value}.", hint="Give a number above zero.")
        for key in ("name", "base_url", "api_key_env", "extra"):
            refuse_secret(key, getattr(self, key))

    def options(self, seed: int | None) -> CallOptions:
        """Return how a role calls this model."""
        return CallOptions(
            max_tokens=self.max_output_tokens,
            context_tokens=self.context_tokens,
            temperature=self.temperature,
            seed=seed,
        )

    def known_price(self) -> Price | None:
        """Return the given price, else the list price, else None; a local model is free."""
        if self.price is not None:
            return self.price
        return FREE if is_local(self.name) else find_price(self.name, self.base_url or "")


def refuse_secret(key: str, value: object) -> None:
    """Refuse a setting of a model that holds a secret: settings are kept in the run's journal.

    Raises:
        UsageError: It names the setting, never its value.
    """
    text = value if isinstance(value, str) else repr(value)
    if key == "api_key_env" and (not text.isascii() or not text.isidentifier() or find_secrets(text)):
        raise UsageError(
            "api_key_env of a model is not the name of an environment variable.",
            hint="Put the key into a variable and give the variable's NAME, such as DEEPSEEK_API_KEY.",
        )
    if (key == "base_url" and _SECRET_QUERY.search(text)) or set(find_secrets(text)) - _ALLOWED:
        raise UsageError(
            f"{key} of a model holds a key or a password, and settings are kept with the run.",
            hint="Put a key into the variable that api_key_env names; a URL with a login into OPENAI_BASE_URL.",
        )
