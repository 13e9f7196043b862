"""What a mock endpoint says: a function of the request, a list of rules, or a small object that fits the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from combee.errors import DataError
from combee.files import read_regular

Scripted = Callable[[Mapping[str, Any]], str]
"""A function from the request body to the text of the reply."""

_DEPTH = 8


def last_message(body: Mapping[str, Any]) -> str:
    """Return the text of the last message of a request."""
    messages = body.get("messages") or [{}]
    return str(messages[-1].get("content") or "")


def whole_prompt(body: Mapping[str, Any]) -> str:
    """Return the text of all messages of a request."""
    return "\n".join(str(message.get("content") or "") for message in body.get("messages") or ())


def sample(schema: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a small value that fits a JSON schema (types, enum, const, required, items, anyOf); its texts are "ok"."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return sample(schema[key][0], depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        wanted = schema.get("required", list(properties)) if depth < _DEPTH else ()
        return {name: sample(properties.get(name, {}), depth + 1) for name in wanted}
    if kind == "array":
        least = max(int(schema.get("minItems", 0)), 1 if depth < _DEPTH else 0)
        return [sample(schema.get("items", {}), depth + 1) for _ in range(least)]
    simple = {
        "string": "ok",
        "integer": schema.get("minimum", 1),
        "number": schema.get("minimum", 1.0),
        "boolean": True,
        "null": None,
    }
    return simple.get(str(kind), "ok")


@dataclass(slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replies: Sequence[str]
    used: int = 0


class Rules:
    """Replies by pattern: the first rule whose `match` (a regular expression) is found in the prompt answers.

    A rule is `{"match": "...", "reply": "..."}` or has a list `replies` that is gone through and begun again. A reply
    that is not a string is sent as JSON. `{1}` in it stands for the first group of the match, and so on.
    """

    def __init__(self, rules: Sequence[Mapping[str, Any]], default: str = "ok") -> None:
        self._default = default
        self._rules: list[_Rule] = []
        for number, rule in enumerate(rules, start=1):
            if not isinstance(rule, Mapping):
                raise DataError(f"rule {number} is no object", hint='A rule is {"match": "pattern", "reply": "text"}.')
            replies = rule.get("replies", [rule["reply"]] if "reply" in rule else [])
            if not isinstance(replies, list) or not replies:
                raise DataError(f"rule {number} has no reply", hint='A rule is {"match": "pattern", "reply": "text"}.')
            try:
                pattern = re.compile(str(rule.get("match", "")), re.DOTALL)
            except re.error as error:
                raise DataError(f"rule {number}: {error} in its pattern") from None
            self._rules.append(
                _Rule(pattern, [text if isinstance(text, str) else json.dumps(text) for text in replies])
            )

    @classmethod
    def load(cls, path: Path) -> Rules:
        """Read a JSON file: a list of rules, or `{"rules": [...], "default": "..."}`."""
        try:
            data = json.loads(read_regular(path).decode("utf-8"))
        except ValueError as error:
            raise DataError(f"is not JSON: {error}", path=path) from None
        if isinstance(data, list):
            return cls(data)
        return cls(data.get("rules", []), str(data.get("default", "ok")))

    def __call__(self, body: Mapping[str, Any]) -> str:
        """Return the reply to one request."""
        prompt = whole_prompt(body)
        for rule in self._rules:
            found = rule.pattern.search(prompt)
            if found:
                reply = rule.replies[rule.used % len(rule.replies)]
                rule.used += 1
                for number, group in enumerate(found.groups(), start=1):
                    reply = reply.replace(f"{{{number}}}", group or "")
                return reply
        return self._default
