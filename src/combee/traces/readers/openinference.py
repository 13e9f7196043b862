"""Attributes of OpenInference (Arize Phoenix; instrumentations of LlamaIndex, CrewAI, smolagents) as those of GenAI."""

from __future__ import annotations

import json
import re

from combee.traces.readers.values import objects, table, text

_MESSAGE = re.compile(r"llm\.(input|output)_messages\.(\d{1,6})\.message\.(.+)\Z")
_CONTENT = re.compile(r"contents\.(\d{1,6})\.message_content\.text\Z")
_LISTS = {"input": "gen_ai.prompt", "output": "gen_ai.completion"}
_NESTED = ("llm", "tool", "input", "output", "openinference", "session", "agent")
_DEEPEST = 12


def _flat(value: object, name: str, found: dict[str, object], depth: int = 0) -> None:
    """Enter nested attributes, as an export of Phoenix writes them, under their dotted names."""
    inside = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else None
    if inside is None or depth > _DEEPEST:
        found[name] = value
        return
    for key, each in inside.items():
        _flat(each, f"{name}.{key}" if name else str(key), found, depth + 1)


def as_gen_ai(attributes: dict[str, object], kind: str, span: str) -> dict[str, object]:
    """Return the attributes of a span under the names of GenAI; `kind` is what OpenInference calls the span."""
    if any(key.startswith("gen_ai.") for key in attributes):
        return attributes
    flat: dict[str, object] = {}
    for key, value in attributes.items():
        if key.startswith(_NESTED):
            _flat(value, key, flat)
        else:
            flat[key] = value
    kind = text(flat.get("openinference.span.kind")) or kind
    if not kind:
        return attributes
    made: dict[str, object] = {
        "gen_ai.request.model": flat.get("llm.model_name"),
        "gen_ai.provider.name": flat.get("llm.provider") or flat.get("llm.system"),
        "gen_ai.conversation.id": flat.get("session.id"),
        "gen_ai.agent.name": flat.get("agent.name"),
    }
    if kind == "TOOL":
        given = flat.get("input.value")
        made |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": flat.get("tool.name") or span,
            "gen_ai.tool.call.id": flat.get("tool_call.id") or flat.get("tool.id"),
            "gen_ai.tool.call.arguments": flat.get("tool.parameters") if given is None else given,
            "gen_ai.tool.call.result": flat.get("output.value"),
        }
    elif kind == "LLM":
        made |= {"gen_ai.operation.name": "chat"} | _messages(flat)
    return {key: value for key, value in made.items() if value is not None}


def _messages(flat: dict[str, object]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in flat.items():
        match = _MESSAGE.match(key)
        if match is None:
            continue
        head, rest = f"{_LISTS[match[1]]}.{match[2]}", match[3]
        if _CONTENT.match(rest):
            said = text(made.get(f"{head}.content"))
            made[f"{head}.content"] = f"{said}\n{text(value)}" if said else text(value)
        elif rest.startswith("tool_calls."):
            made[f"{head}.{rest.replace('.tool_call.function.', '.').replace('.tool_call.', '.')}"] = value
        else:
            made[f"{head}.{rest}"] = value
    if made:
        return made
    asked = _loaded(flat.get("input.value"))
    given = list(objects(table(asked).get("messages"))) or list(objects(asked))
    shown = text(flat.get("input.value"))
    if given or shown:
        made["gen_ai.input.messages"] = given or [{"role": "user", "content": shown}]
    if text(flat.get("output.value")):
        made["gen_ai.output.messages"] = [{"role": "assistant", "content": text(flat.get("output.value"))}]
    return made


def _loaded(value: object) -> object:
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return None
