"""`combee.toml`: read, checked, with unknown keys as errors that name the nearest key."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from combee.errors import DataError, UsageError, did_you_mean
from combee.learn import LearnConfig

__all__ = ["CONFIG_NAME", "ProjectConfig", "read_config"]

CONFIG_NAME = "combee.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectConfig:
    """The tables of `combee.toml`, each still as plain values; commands check the ones they use."""

    tasks: Mapping[str, Any] = field(default_factory=dict)
    agent: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    learn: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    guard: Mapping[str, Any] = field(default_factory=dict)


# The keys of each table; a table of tables (model.reflector) takes the keys of its parent.
KEYS: dict[str, frozenset[str]] = {
    "tasks": frozenset({"source", "question", "answer", "id", "scorer", "train", "val", "test", "seed", "data_dir"}),
    "agent": frozenset({"kind", "forget", "output_limit", "prompts", "reflection_rounds", "method", "metric_calls"}),
    "model": frozenset(
        {
            "name",
            "base_url",
            "api_key_env",
            "max_in_flight",
            "requests_per_minute",
            "tokens_per_minute",
            "timeout",
            "temperature",
            "max_output_tokens",
            "extra",
            "generator",
            "reflector",
            "curator",
        }
    ),
    "learn": frozenset(item.name for item in dataclasses.fields(LearnConfig)),
    "budget": frozenset({"max_cost", "max_calls", "max_tokens", "max_minutes", "generator", "reflector", "curator"}),
    "prices": frozenset(),
    "guard": frozenset({"alert_command", "alert_timeout", "tenants", "clearance"}),
}
ROLES = frozenset({"generator", "reflector", "curator"})


def read_config(path: Path | None) -> ProjectConfig:
    """Read `path`, or `combee.toml` in this folder if there is one. Raises `UsageError` for what cannot be used."""
    if path is None:
        path = Path(CONFIG_NAME)
        if not path.is_file():
            return ProjectConfig()
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8 text", path=path, hint="Save the file as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"is not TOML: {error}", path=path) from error
    for table, content in values.items():
        _check(table, content, path)
    return ProjectConfig(**values)


def _check(table: str, content: object, path: Path) -> None:
    if table not in KEYS:
        raise UsageError(f"{path}: there is no table [{table}].", hint=did_you_mean(table, KEYS))
    if not isinstance(content, dict):
        raise UsageError(f"{path}: {table} must be a table.", hint=f"Write [{table}] on a line of its own.")
    if not KEYS[table]:
        return
    for key, value in content.items():
        if key not in KEYS[table]:
            raise UsageError(f"{path}: [{table}] has no key {key!r}.", hint=did_you_mean(key, KEYS[table]))
        if table in {"model", "budget"} and key in ROLES:
            _check_role(table, key, value, path)


def _check_role(table: str, role: str, content: object, path: Path) -> None:
    if not isinstance(content, dict):
        raise UsageError(f"{path}: {table}.{role} must be a table.", hint=f"Write [{table}.{role}].")
    known = KEYS[table] - ROLES
    for key in content:
        if key not in known:
            raise UsageError(f"{path}: [{table}.{role}] has no key {key!r}.", hint=did_you_mean(key, known))
