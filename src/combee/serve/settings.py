"""The settings of a service: the file `serve.toml` in its folder; options of the command override it.

How it learns (model, budget, guard) is set in `combee.toml` beside it, as for any other run.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from combee.errors import DataError, UsageError
from combee.files import read_regular

__all__ = ["FILE", "LEARNING", "ServeSettings", "read_serve_settings"]

FILE = "serve.toml"
LEARNING = "combee.toml"


class ServeSettings(BaseModel):
    """Times are in seconds, sizes in bytes, rates in traces a second."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    host: str = "127.0.0.1"
    port: int = Field(8765, ge=0, le=65535)
    workers: int = Field(default_factory=lambda: max(1, min(4, (os.cpu_count() or 2) // 2)), ge=1, le=64)
    """Processes that read and redact what comes in: half of the processors, up to four."""
    max_body: int = Field(32 << 20, ge=1024)
    """Of a request, as it is sent and unpacked."""
    max_depth: int = Field(100, ge=1)
    """Of nested JSON."""
    max_seconds: float = Field(60, gt=0)
    """Of reading one request, or some that came together."""
    max_rate: float = Field(0, ge=0)
    """Of requests of one token that write; 0: no limit."""
    max_backlog: int = Field(200_000, ge=1)
    """Traces that wait to be learned, of one tenant; more are refused with 429."""
    generation: int = Field(10_000, ge=1, le=10_000)
    """Traces of one generation at most."""
    settle: float = Field(5, ge=0)
    """How long a trace of OpenTelemetry is quiet before it counts as ended."""
    wait: float = Field(5, ge=0)
    """How long a trace waits for company before it is learned."""
    attempts: int = Field(3, ge=1)
    """Of a generation, before it is given up."""
    share: float = Field(0.2, ge=0, le=0.5)
    """Of the units that try a new version; 0: it becomes stable without a trial."""
    max_outcomes: int = Field(20_000, ge=1)
    """Of one trial, before it is held for a person to decide."""
    max_age: float = Field(24 * 3600, ge=1)
    """Of the oldest trace that waits, before an alert."""
    keep_days: float = Field(0, ge=0)
    """After which recorded runs, generations, outcomes and alerts are dropped; lessons and receipts stay. 0: never."""
    patterns: dict[str, str] = Field(default_factory=dict)
    """Secrets of your own: a regular expression by kind."""
    webhooks: list[str] = Field(default_factory=list)
    """Addresses that are told of alerts."""
    alert_command: str | None = None
    """A command that gets each alert as JSON on its standard input."""


def read_serve_settings(folder: Path, **options: Any) -> ServeSettings:
    """Return the settings of a service's folder; an option that is None was not given.

    Raises:
        UsageError: A value cannot be used; the message names it.
    """
    path = folder / FILE
    try:
        values = tomllib.loads(read_regular(path).decode("utf-8")) if path.exists() else {}
    except ValueError as error:
        raise DataError(f"is not TOML: {error}", path=path) from error
    values |= {key: value for key, value in options.items() if value is not None}
    try:
        return ServeSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        known = ", ".join(sorted(ServeSettings.model_fields))
        raise UsageError(f"{path}: {name}: {first['msg']}.", hint=f"Settings are {known}.") from error
