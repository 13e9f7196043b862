"""Attributes and events of spans as plain values, from the SDK's JSON (a mapping) or OTLP (lists of typed values)."""

from __future__ import annotations

import re

from combee.traces.readers.values import number, objects, rows, table, text

__all__ = ["attributes_of", "numbered_messages", "span_events"]

_NUMBERED = re.compile(r"\.(\d{1,6})\.([\w.]{1,100})\Z")
_DEEPEST = 40


def _plain(value: object, depth: int = 0) -> object:
    """Return the value inside OTLP's typed wrapper."""
    typed = table(value)
    if not typed or depth > _DEEPEST:
        return value
    if "arrayValue" in typed:
        return [_plain(item, depth + 1) for item in rows(table(typed["arrayValue"]).get("values"))]
    if "kvlistValue" in typed:
        listed = objects(table(typed["kvlistValue"]).get("values"))
        return {text(item.get("key")): _plain(item.get("value"), depth + 1) for item in listed}
    if "intValue" in typed:
        return number(typed["intValue"])
    for key in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if key in typed:
            return typed[key]
    return value


def attributes_of(value: object) -> dict[str, object]:
    """Return attributes by name."""
    if isinstance(value, list):
        return {text(item.get("key")): _plain(item.get("value")) for item in objects(value)}
    return table(value)


def span_events(value: object) -> list[tuple[str, dict[str, object]]]:
    """Return the name and the attributes of every event of a span."""
    return [(text(event.get("name")), attributes_of(event.get("attributes"))) for event in objects(value)]


def numbered_messages(attributes: dict[str, object], prefix: str) -> list[dict[str, object]]:
    """Return messages that are spread over attributes like `gen_ai.prompt.0.content`, with their calls."""
    found: dict[int, dict[str, object]] = {}
    calls: dict[int, dict[int, dict[str, object]]] = {}
    for name, value in attributes.items():
        if not name.startswith(prefix + "."):
            continue
        match = _NUMBERED.match(name, len(prefix))
        if match is None:
            continue
        at, key = int(match[1]), match[2]
        if key.startswith("tool_calls."):
            _, which, part = (key + ".").split(".", 2)
            if which.isdigit():
                calls.setdefault(at, {}).setdefault(int(which), {})[part.strip(".")] = value
        else:
            found.setdefault(at, {})[key] = value
    for at, made in calls.items():
        found.setdefault(at, {})["tool_calls"] = [made[which] for which in sorted(made)]
    return [found[at] for at in sorted(found)]
