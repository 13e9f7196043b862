"""`combee.toml`: read and checked; unknown keys are errors that name the nearest key, wrong types say the right one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from combee.cli.keys import check_table
from combee.errors import DataError
from combee.files import read_regular

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
