"""`combee.toml`: its tables and keys, and the type of each value: what a command reads later is checked here, once.

Unknown keys are errors that name the nearest one. A wrong type must not wait for the place that uses it:
`guard = "false"` would be true there, and text a traceback.
"""

from __future__ import annotations

import math
import tomllib
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from combee.errors import DataError, UsageError, did_you_mean
from combee.files import read_regular
from combee.kernel.aggregate import BASELINES
from combee.kernel.learn import LearnConfig

__all__ = ["CONFIG_NAME", "ProjectConfig", "check_table", "read_config"]

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


def read_config(path: Path | None) -> ProjectConfig:
    """Read `path`, or `combee.toml` in this folder if there is one. Raises `UsageError` for what cannot be used."""
    if path is None:
        path = Path(CONFIG_NAME)
        if not path.is_file():
            return ProjectConfig()
    try:
        values = tomllib.loads(read_regular(path).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8 text", path=path, hint="Save the file as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"is not TOML: {error}", path=path) from error
    for table, content in values.items():
        check_table(table, content, path)
    return ProjectConfig(**values)


# Seeds are stored as 64-bit integers.
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a value must be, in words, and the test for it."""

    words: str
    test: Callable[[Any], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(least: int) -> _Kind:
    return _Kind(f"a whole number of at least {least}", lambda value: _is_whole(value) and value >= least)


def _list_of(words: str, test: Callable[[Any], bool]) -> _Kind:
    return _Kind(f"a list of {words}", lambda value: isinstance(value, list) and all(map(test, value)))


def _one_of(*names: str) -> _Kind:
    return _Kind(" or ".join(f'"{name}"' for name in names), lambda value: value in names)


_TEXT = _Kind("text", _is_text)
_ANY_WHOLE = _Kind("a whole number", _is_whole)
_ABOVE_ZERO = _Kind("a number above 0", lambda value: _is_number(value) and value > 0)
_NOT_NEGATIVE = _Kind("a number of at least 0", lambda value: _is_number(value) and value >= 0)
_TABLE = _Kind("a table", lambda value: isinstance(value, dict))
_FLAG = _Kind("true or false", lambda value: isinstance(value, bool))
_WORDS = _list_of("text", _is_text)

# What one part of a type hint of `LearnConfig` asks for; ranges are its own to check.
_OF_HINT: Mapping[object, _Kind] = {
    int: _ANY_WHOLE,
    float: _Kind("a number", _is_number),
    bool: _FLAG,
    str: _TEXT,
    tuple[int, ...]: _list_of("whole numbers", _is_whole),
}


def _of_hint(hint: object) -> _Kind:
    is_union = typing.get_origin(hint) in {types.UnionType, typing.Union}
    parts = typing.get_args(hint) if is_union else (hint,)
    kinds = [
        _one_of(*typing.get_args(part)) if typing.get_origin(part) is Literal else _OF_HINT[part]
        for part in parts
        if part is not type(None)
    ]
    return _Kind(" or ".join(kind.words for kind in kinds), lambda value: any(kind.test(value) for kind in kinds))


_ROLES = ("generator", "reflector", "curator")
_LIMITS = dict.fromkeys(("max_cost", "max_calls", "max_tokens", "max_minutes"), _ABOVE_ZERO)
_MODEL: Mapping[str, _Kind] = {
    "name": _TEXT,
    "base_url": _TEXT,
    "api_key_env": _TEXT,
    "ca_file": _TEXT,
    "client_cert": _TEXT,
    "max_in_flight": _whole(1),
    "requests_per_minute": _ABOVE_ZERO,
    "tokens_per_minute": _ABOVE_ZERO,
    "timeout": _ABOVE_ZERO,
    "temperature": _NOT_NEGATIVE,
    "max_output_tokens": _whole(1),
    "extra": _TABLE,
}
_LEARN = {name: _of_hint(hint) for name, hint in typing.get_type_hints(LearnConfig).items()}
_KINDS: Mapping[str, Mapping[str, _Kind]] = {
    "tasks": {
        "source": _TEXT,
        "question": _TEXT,
        "answer": _TEXT,
        "id": _TEXT,
        "scorer": _TEXT,
        "train": _whole(1),
        "val": _whole(0),
        "test": _whole(0),
        "seed": _ANY_WHOLE,
        "data_dir": _TEXT,
    },
    "agent": {
        "kind": _one_of("lexical", "ace"),
        "forget": _ABOVE_ZERO,
        "output_limit": _whole(1),
        "prompts": _TEXT,
        "reflection_rounds": _whole(1),
        "method": _TEXT,
        "metric_calls": _whole(1),
    },
    "model": _MODEL,
    "learn": _LEARN | {"aggregate": _one_of(*sorted(BASELINES))},
    "budget": _LIMITS,
    "prices": {},
    "guard": {
        "alert_command": _Kind(
            'a command such as "notify-send combee", or a list of words',
            lambda value: _is_text(value) or (_WORDS.test(value) and bool(value)),
        ),
        "alert_timeout": _ABOVE_ZERO,
        "tenants": _WORDS,
        "clearance": _TEXT,
    },
}
_PRICE = {"input": _NOT_NEGATIVE, "output": _NOT_NEGATIVE, "cached": _NOT_NEGATIVE}


def check_table(table: str, content: object, path: object) -> None:
    """Check one table of the settings file `path`. Raises `UsageError` for what is unknown or has another type."""
    if table not in _KINDS:
        raise UsageError(f"{path}: there is no table [{table}].", hint=did_you_mean(table, _KINDS))
    if not isinstance(content, dict):
        raise UsageError(f"{path}: {table} must be a table.", hint=f"Write [{table}] on a line of its own.")
    if table == "prices":
        for model, price in content.items():
            _check_price(model, price, path)
        return
    roles = _ROLES if table in {"model", "budget"} else ()
    own = {key: value for key, value in content.items() if key not in roles}
    _check(table, own, _KINDS[table], path, more=roles)
    for role in roles:
        if role in content:
            _check_role(table, role, content[role], path)


def _check_role(table: str, role: str, content: object, path: object) -> None:
    if not isinstance(content, dict):
        raise UsageError(f"{path}: {table}.{role} must be a table.", hint=f"Write [{table}.{role}].")
    _check(f"{table}.{role}", content, _KINDS[table], path)


def _check_price(model: str, price: object, path: object) -> None:
    hint = f'Write "{model}" = {{ input = 0.28, output = 0.42 }} below [prices].'
    if not isinstance(price, dict):
        raise UsageError(f"{path}: the price of {model} must be a table.", hint=hint)
    _check(f'prices."{model}"', price, _PRICE, path)
    for key in ("input", "output"):
        if key not in price:
            raise UsageError(f"{path}: the price of {model} has no {key!r}.", hint=hint)


def _check(
    table: str, content: Mapping[str, object], kinds: Mapping[str, _Kind], path: object, more: tuple[str, ...] = ()
) -> None:
    for key, value in content.items():
        if key not in kinds:
            raise UsageError(f"{path}: [{table}] has no key {key!r}.", hint=did_you_mean(key, (*kinds, *more)))
        if not kinds[key].test(value):
            raise UsageError(
                f"{path}: {key} in [{table}] cannot be {_shown(value)}.", hint=f"It must be {kinds[key].words}."
            )


def _shown(value: object) -> str:
    """Return a value about as the file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    text = repr(value) if isinstance(value, int | float | list | dict) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
