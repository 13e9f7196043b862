"""What a swarm's file may say: the tables with their keys, the kind of each value, and who must be there.

Everything that can be told without looking at the disk; what lies there is looked at in `combee.swarm.config`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Set
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from combee.errors import UsageError, did_you_mean
from combee.swarm.endpoint import BUDGET, MODEL
from combee.swarm.swarm import USER, SwarmLimits

__all__ = ["check_data"]

_OPTIONS = frozenset(one.name for one in fields(SwarmLimits))
_TABLES: dict[str, Set[str]] = {
    "model": MODEL,
    "budget": BUDGET,
    "options": _OPTIONS,
    "documents": {"folder", "glob"},
    "task": {"to", "question", "subject"},
    "learn": {"tasks", "to", "view_tokens", "rounds", "batch", "scorer", "question", "answer", "id"},
}
_ROWS: dict[str, Set[str]] = {
    "agents": {"name", "role", "mode", "returns", "window", "instructions", "reads"},
    "channels": {"name", "members"},
}
_TOP = {"world", "repository", "playbook", "playbook_tokens", *_TABLES, *_ROWS}
_WORDS = {"mode": {"fork", "serial", "once"}, "returns": {"none", "digest", "full"}}
_AMOUNTS = {"max_cost", "max_minutes"}
_WHOLE = (_OPTIONS | BUDGET | {"window", "view_tokens", "rounds", "batch", "playbook_tokens"}) - _AMOUNTS
_LISTS = {"reads", "members"}
_OTHERWISE = {*_WHOLE, *_AMOUNTS, *_LISTS, *_TABLES, *_ROWS}  # everything else is text
_MOST = 10**15  # SQLite counts to 2**63; this leaves room to add
_PLACES = {"world", "playbook", "repository", "folder", "glob", "tasks"}
_NEEDED = _PLACES | {"question", "name"}  # texts that say something


def check_data(path: Path, data: dict[str, Any]) -> None:
    """Refuse a description that says something that is not understood.

    Raises:
        UsageError: It does; the message names the file and the place.
    """
    _known(data, _TOP, f"{path}: the file")
    for name, keys in _TABLES.items():
        _known(data.get(name, {}), keys, f"{path}: [{name}]")
    for name, keys in _ROWS.items():
        if not isinstance(data.get(name, []), list):
            raise UsageError(f"{path}: {name} is not a list of tables", hint=f"Write [[{name}]].")
        for row in data.get(name, []):
            _known(row, keys, f"{path}: [[{name}]]")
            if "name" not in row:
                raise UsageError(f"{path}: [[{name}]] without a name", hint='Add name = "...".')
    names = _names(path, data.get("agents", []))
    task = data.get("task", {})
    if task:
        _there(task.get("to", ""), names, f"{path}: the task goes to")
        if "question" not in task:
            raise UsageError(f"{path}: [task] asks nothing", hint="Add a question.")
    for channel in data.get("channels", []):
        for member in channel.get("members", []):
            _there(member, names, f"{path}: the channel {channel['name']!r} has the member")
    learn = data.get("learn", {})
    if "learn" in data and "tasks" not in learn:
        raise UsageError(f"{path}: [learn] names no tasks", hint='Add tasks = "tasks.jsonl".')
    if "to" in learn:
        _there(learn["to"], names, f"{path}: the tasks of [learn] go to")


def _there(name: str, names: Set[str], what: str) -> None:
    if name not in names:
        raise UsageError(f"{what} {name!r}, who is not described", hint=did_you_mean(name, names))


def _known(table: object, allowed: Set[str], where: str) -> dict[str, Any]:
    """Return a table whose keys and values are what they must be."""
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table", hint="See docs/swarm.md for an example.")
    for key, value in table.items():
        if key not in allowed:
            raise UsageError(f"{where} has no {key!r}", hint=did_you_mean(key, allowed))
        _check(key, value, f"{where}: {key} = {value!r}")
    return table


def _check(key: str, value: object, what: str) -> None:
    """Refuse a value of another kind than its key has; TOML's true is no 1."""
    least = 0 if key == "reserve" else 1
    if key in _AMOUNTS and not (type(value) in {int, float} and 0 < cast("float", value) < math.inf):
        raise UsageError(what, hint="Give a number above 0; leave it out for no limit.")
    if key in _WHOLE and not (type(value) is int and least <= value <= _MOST):
        raise UsageError(what, hint=f"Give a whole number from {least} to {_MOST:,}.")
    if key in _LISTS and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        raise UsageError(what, hint='Give a list of texts, like ["http.md"].')
    if key not in _OTHERWISE and not isinstance(value, str):
        raise UsageError(what, hint="Give a text in quotes.")
    if key in _NEEDED and not str(value).strip():
        raise UsageError(what, hint="Say something there, or leave the line out.")
    if key in _PLACES and any(len(os.fsencode(part)) > 255 for part in Path(str(value)).parts):
        raise UsageError(what, hint="No file can have so long a name.")
    if any("\0" in str(one) for one in (value if isinstance(value, list) else [value])):
        raise UsageError(what, hint="No text may hold a zero byte.")
    if key in _WORDS and value not in _WORDS[key]:
        raise UsageError(what, hint=did_you_mean(str(value), _WORDS[key]))


def _names(path: Path, agents: list[dict[str, Any]]) -> set[str]:
    if not agents:
        raise UsageError(f"{path} describes no agents", hint="Add [[agents]] with a name.")
    names = [str(agent["name"]) for agent in agents]
    for name in names:
        if name in {"", USER} or "~" in name:
            raise UsageError(f"{path}: no agent can be called {name!r}", hint=f"Choose a name without ~, not {USER!r}.")
        if names.count(name) > 1:
            raise UsageError(f"{path}: there are several agents {name!r}", hint="Give each a name of its own.")
    return set(names)
