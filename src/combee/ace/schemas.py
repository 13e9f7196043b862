"""The forms of the replies as JSON schemas, closed so that endpoints can hold a model to them strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["CURATOR", "GENERATOR", "REFINE", "REFLECTOR", "SUMMARY"]

_TEXT: Mapping[str, Any] = {"type": "string"}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_NUMBERS = _list({"type": "integer"})

GENERATOR = _object(reasoning=_TEXT, bullet_ids=_list(_TEXT), final_answer=_TEXT)
REFLECTOR = _object(
    reasoning=_TEXT,
    error_identification=_TEXT,
    root_cause_analysis=_TEXT,
    correct_approach=_TEXT,
    key_insight=_TEXT,
    bullet_tags=_list(_object(id=_TEXT, tag={"type": "string", "enum": ["helpful", "harmful", "neutral"]})),
)
CURATOR = _object(
    reasoning=_TEXT,
    operations=_list(
        _object(
            type={"type": "string", "enum": ["ADD", "UPDATE", "MERGE", "REMOVE"]},
            section=_TEXT,
            content=_TEXT,
            bullet_ids=_list(_TEXT),
            sources=_NUMBERS,
        )
    ),
)
SUMMARY = _object(reasoning=_TEXT, lessons=_list(_object(text=_TEXT, sources=_NUMBERS)))
REFINE = _object(reasoning=_TEXT, bullets=_list(_object(text=_TEXT, bullet_ids=_list(_TEXT))))
