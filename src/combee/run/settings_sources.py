"""Where settings come from, layer over layer (environment, file, options, `--set`), and what is said of a wrong one.

pydantic says what is wrong; here that becomes one sentence with file, line, table and key, and the nearest right one.
"""

from __future__ import annotations

import bisect
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from combee.errors import DataError, UsageError, did_you_mean
from combee.files import read_regular
from combee.redaction import find_secrets

M = TypeVar("M", bound=BaseModel)
Place = tuple[str | int, ...]
"""Keys and indexes that lead to a value: ("model", "curator", "name")."""

_FAR = 2**53  # ranges as wide as 64 bits are not worth saying
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Layer:
    """Tables of one origin, such as a file's path; `text` is that of the file, for its lines."""

    origin: str
    tables: Mapping[str, Any]
    text: str | None = None
    moved: Mapping[Place, Place] = field(default_factory=dict)
    """Where the text has what stands elsewhere in the tables: keys of an older version."""

    def where(self, place: Place) -> tuple[str, int | None]:
        """Return origin and line of a place, or of the nearest thing around it that is there."""
        while place and not _has(self.tables, place):
            place = place[:-1]
        place = self.moved.get(place, place)
        return self.origin, None if self.text is None or not place else _line_of(self.text, place)


def read_layer(path: Path) -> Layer:
    """Read a TOML file. Raises `DataError`, with line and column, for what is none."""
    try:
        text = read_regular(path).decode("utf-8-sig")
        return Layer(str(path), tomllib.loads(text), text)
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8 text", path=path, hint="Save the file as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        said, _, where = str(error).partition(" (at line ")
        numbers = [int(number) for number in re.findall(r"\d+", where)]
        line, column = numbers if len(numbers) == 2 else (None, None)
        raise DataError(f"is not TOML: {said}", path=path, line=line, column=column) from error


def layer_of_set(text: str, model: type[BaseModel]) -> Layer:
    """Read `KEY=VALUE`: the value as in the file, or plain text; the key with its table, or alone where it is the only.

    Raises:
        UsageError: It has another form, or the key is unknown or in several tables.
    """
    name, equals, value = text.partition("=")
    form = "Write KEY=VALUE, such as learn.near=0.8."
    if not equals or not name.strip():
        raise UsageError(f"--set {text!r} sets nothing.", hint=form)
    try:
        ((place, _),) = leaves(tomllib.loads(f"{name} = 0"))
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise UsageError(f"--set {text!r} cannot be read.", hint=form) from error
    schema = _schema_of(model)
    if place[0] not in schema["properties"]:
        place = (_home_of(place, text, schema), *place)
    value = value.strip()
    if value[:1] in {'"', "'"}:
        with suppress(tomllib.TOMLDecodeError):
            value = tomllib.loads(f"value = {value}")["value"]
    return layer_of_option(f"--set {text}", place, value, model)


def layer_of_option(origin: str, place: Place, value: object, model: type[BaseModel]) -> Layer:
    """Return one value as a layer; text stands for what it would be in a file, unless the key takes text only."""
    if isinstance(value, str) and _words(_node(_schema_of(model), place), _schema_of(model)) != "text":
        with suppress(tomllib.TOMLDecodeError):
            value = tomllib.loads(f"value = {value}")["value"]
    for key in reversed(place):
        value = {key: value}
    return Layer(origin, cast("Mapping[str, Any]", value))


def _home_of(place: Place, text: str, schema: Mapping[str, Any]) -> str:
    """Return the only table that has a key; those of an environment, which few runs have, take no short name away."""
    key = place[0]
    homes = [table for table in schema["properties"] if key in _keys(schema, (table,))]
    if len(homes) > 1:
        homes = [table for table in homes if table != "environment"]
    if len(homes) > 1:
        hint = f"Write {' or '.join(f'{home}.{key}' for home in homes)}."
        raise UsageError(f"--set {text!r}: {key} is in several tables.", hint=hint)
    if not homes:
        known = {f"{table}.{one}" for table in schema["properties"] for one in _keys(schema, (table,))}
        alone = {one.partition(".")[2]: one for one in known}
        name = ".".join(map(str, place))
        raise UsageError(f"--set {text!r}: there is no setting {name!r}.", hint=did_you_mean(name, {*known, *alone}))
    return cast("str", homes[0])


@cache
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def nested(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return all tables as one; what a later layer says stands."""
    found: dict[str, Any] = {}
    for layer in layers:
        _put(found, layer.tables)
    return found


def _put(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping):
            below = under.get(key)
            under[key] = dict(below) if isinstance(below, dict) else {}
            _put(under[key], value)
        else:
            under[key] = value


def leaves(tables: Mapping[str, Any], above: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield each value that is no table, with its place."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


def checked(model: type[M], layers: Sequence[Layer]) -> M:
    """Return the settings that the layers make.

    Raises:
        UsageError: A value cannot be used, or a key or table is unknown; in a file it is the first such line.
    """
    data = nested(layers)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        wrong = [(_place(one["loc"], data, one["type"]), one) for one in error.errors(include_url=False)]
    unknown = {place[:-1] for place, one in wrong if one["type"] == "extra_forbidden"}
    found: list[tuple[int, UsageError]] = []
    for place, one in wrong:
        if one["type"] == "missing" and place[:-1] in unknown:
            continue  # it is there, and spelled wrongly

        layer = next((each for each in reversed(layers) if _has(each.tables, place[:-1])), layers[-1])
        layer = next((each for each in reversed(layers) if _has(each.tables, place)), layer)
        origin, line = layer.where(place)
        said, hint = _said(place, cast("dict[str, Any]", one), data, _schema_of(model))
        found.append((line or 0, DataError(said, path=origin or None, line=line, hint=hint)))
    raise min(found, key=lambda each: each[0])[1]


def _place(loc: Sequence[str | int], data: object, kind: str) -> Place:
    """Return where the error is, in terms of the data: pydantic's way there also names branches of unions."""
    place: list[str | int] = []
    for part in loc:
        if (isinstance(data, Mapping) and part in data) or (isinstance(data, list) and isinstance(part, int)):
            data = cast("Any", data)[part]
        else:
            if kind == "missing":
                place.append(part)
            break
        place.append(part)
    return tuple(place)


def _said(place: Place, error: Mapping[str, Any], data: object, schema: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the sentence and the hint for one error of pydantic's."""
    table, key = _table(place[:-1]), place[-1]
    at = f"[{table}]" if not table.startswith("[") else table
    if error["type"] == "extra_forbidden":
        value = _at(data, place)
        homes = [name for name in schema["properties"] if key in _keys(schema, (name,)) and (name,) != place[:-1]]
        known = _keys(schema, place[:-1])
        hint = did_you_mean(str(key), known)
        if homes and not hint.startswith("Did"):
            hint = f"It belongs below {' or '.join(f'[{home}]' for home in homes)}."
        if table:
            return f"{at} has no key {key!r}.", hint
        return (f"there is no table [{key}]." if isinstance(value, dict) else f"there is no key {key!r}."), hint
    if error["type"] == "missing":
        about = _node(schema, place).get("description", "").partition(". ")[0]
        return f"{at if table else 'this file'} has no {key!r}.", f"Add {key} = ...{f': {about}' if about else ''}"
    if error["type"] == "refused":  # by a check of ours, which has its own words
        return str(error["msg"]), error["ctx"]["hint"]
    node = _node(schema, place)
    words = _words(node, schema)
    if words == "a table":
        header = f"[{_table(place)}]"
        return f"{_table(place)} must be a table.", f"Write {header} on a line of its own, or {key} = {{ ... }}."
    if words == "a list of tables":
        return f"{key} is no list of tables.", f"Write [[{key}]] on a line of its own before each."
    named = f"{key} in {at}" if table else str(key)
    if isinstance(key, int):
        named, at = f"item {key + 1} of {place[-2]}", ""
    value = _at(data, place)
    hint = _HINTS.get(error["type"], f"It must be {words}.")
    if isinstance(value, str):
        options = [one for part in node.get("anyOf", (node,)) for one in part.get("enum", ())]
        near = did_you_mean(value, map(str, options))
        if near.startswith("Did"):
            hint = near
        elif error["type"] == "string_pattern_mismatch":
            hint = "No text may hold a zero byte." if "\0" in value else "Say something there, or leave the line out."
    return f"{named} cannot be {shown(value)}.", hint


_HINTS = {
    "string_unicode": "Its name is in another encoding than this system's (not UTF-8, or the locale is C): rename it."
}


def _table(place: Place) -> str:
    """Return a table's name as its header has it; with its brackets where it is one row of several."""
    parts = [part if _BARE.fullmatch(part) else json.dumps(part) for part in place if isinstance(part, str)]
    return f"[[{'.'.join(parts)}]]" if place and isinstance(place[-1], int) else ".".join(parts)


def _node(schema: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    """Return the part of a JSON schema that holds for a place; empty where it says nothing."""
    node: Mapping[str, Any] = schema
    for part in place:
        options = [_resolved(one, schema) for one in node.get("anyOf", (node,))]
        node = {}
        for one in options:
            inner = one.get("items") if isinstance(part, int) else one.get("properties", {}).get(part)
            if inner is None and isinstance(one.get("additionalProperties"), dict):
                inner = one["additionalProperties"]
            if inner is not None:
                node = _resolved(inner, schema)
    return node


def _resolved(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in node:
        node = {**schema["$defs"][node["$ref"].rpartition("/")[2]], **{k: v for k, v in node.items() if k != "$ref"}}
    return node


def _keys(schema: Mapping[str, Any], place: Place) -> set[str]:
    node = _node(schema, place)
    options = [_resolved(one, schema) for one in node.get("anyOf", (node,))]
    return {key for one in options for key in one.get("properties", ())}


def _words(node: Mapping[str, Any], schema: Mapping[str, Any], *, many: bool = False) -> str:
    """Say what a value must be: "a whole number of at least 1"; `many`: what the items of a list must be."""
    node = _resolved(node, schema)
    if "anyOf" in node:
        parts = [_words(one, schema, many=many) for one in node["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(parts))
    if "enum" in node or "const" in node:
        return " or ".join(json.dumps(one) for one in node.get("enum", [node.get("const")]))
    kind = node.get("type")
    if kind == "array":
        items = node.get("items") or (node.get("prefixItems") or [{}])[0]
        return f"a list of {_words(items, schema, many=True)}"
    if kind in {"integer", "number"}:
        return ("whole " if kind == "integer" else "") + "numbers" if many else _range(node, kind == "integer")
    return {"string": "text", "boolean": "true or false", "object": "tables" if many else "a table"}.get(
        str(kind), "something else"
    )


def _range(node: Mapping[str, Any], whole: bool) -> str:
    words = "a whole number" if whole else "a number"
    least, above, most = node.get("minimum"), node.get("exclusiveMinimum"), node.get("maximum")
    if above is not None:
        words += f" above {above:g}"
    if least is not None and abs(least) < _FAR:
        words += f" of at least {least:g}"
    if most is not None and abs(most) < _FAR:
        words += f" {'and' if least is not None or above is not None else 'of'} up to {most:,}"
    return words


def shown(value: object) -> str:
    """Return a value about as a file has it; a long one is cut, one with a secret is not shown."""
    if isinstance(value, str) and find_secrets(value):
        return "a text that holds a secret"
    if isinstance(value, bool | str):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = repr(value) if isinstance(value, int | float | list | dict) else str(value)
    if find_secrets(text):
        return "a value that holds a secret"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _has(data: object, place: Place) -> bool:
    try:
        _at(data, place)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _at(data: Any, place: Place) -> object:
    for part in place:
        data = data[part]
    return data


def _line_of(text: str, place: Place) -> int | None:
    """Return the line, from 1, where a place begins: behind the last lines that are TOML by themselves without it."""
    lines = text.splitlines(keepends=True)
    parsed: Callable[[int], tuple[int, Any]] = lambda number: _longest(lines, number)  # noqa: E731
    found = bisect.bisect_left(range(len(lines) + 1), True, key=lambda number: _has(parsed(number)[1], place))
    return None if found > len(lines) else parsed(found - 1)[0] + 1


def _longest(lines: Sequence[str], number: int) -> tuple[int, Any]:
    """Return how many of the first lines are TOML by themselves, and what they say."""
    for end in range(number, 0, -1):
        try:
            return end, tomllib.loads("".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
    return 0, {}
