"""What a call was charged, from any form in which endpoints count tokens; where parts and total differ, the dearer.

Thinking is output and is billed. OpenAI counts it inside `completion_tokens`, xAI and Gemini beside it, and some
servers show it in the total alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from combee.model.types import Usage

_PROMPT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_token_count", "prompt_eval_count")
_COMPLETION = ("completion_tokens", "output_tokens", "candidatesTokenCount", "candidates_token_count", "eval_count")
_TOTAL = ("total_tokens", "totalTokenCount", "total_token_count")
_INSIDE = ("completion_tokens_details", "output_tokens_details")
_BESIDE = ("thoughtsTokenCount", "thoughts_token_count")
_CACHED = ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens", "cachedContentTokenCount")
_CACHED_IN = ("prompt_tokens_details", "input_tokens_details")
_COUNTS = ("usageMetadata", "usage_metadata")
_AROUND = ("error", "metadata", "x_groq", "response", "detail")
_MOST = 1e12


def _count(value: object) -> int:
    """Return a number of tokens; 0 for what is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < _MOST else 0


def _first(raw: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        if name in raw and (count := _count(raw[name])):
            return count
    return 0


def _inside(raw: Mapping[str, Any], places: tuple[str, ...], name: str) -> int:
    most = 0
    for place in places:
        part = raw.get(place)
        if isinstance(part, dict):
            most = max(most, _count(part.get(name)))
    return most


def read_usage(raw: object) -> Usage | None:
    """Return the tokens that the endpoint counted, or None where it did not (all zero counts as not said)."""
    if not isinstance(raw, dict):
        return None
    prompt = _count(raw.get("prompt_tokens")) or _first(raw, _PROMPT)
    completion = _count(raw.get("completion_tokens")) or _first(raw, _COMPLETION)
    total = _count(raw.get("total_tokens")) or _first(raw, _TOTAL)
    cached = _inside(raw, _CACHED_IN, "cached_tokens") or _first(raw, _CACHED)
    if "input_tokens" in raw and "prompt_tokens" not in raw:  # Anthropic counts what a cache read or took beside
        prompt += _count(raw.get("cache_read_input_tokens")) + _count(raw.get("cache_creation_input_tokens"))
    thinking = max(_inside(raw, _INSIDE, "reasoning_tokens"), _inside(raw, _INSIDE, "thinking_tokens"))
    thinking = thinking or _count(raw.get("reasoning_tokens"))
    beside = _first(raw, _BESIDE)
    if not prompt and total > completion + beside and completion:
        prompt = total - completion - beside
    if beside or thinking > completion or not total:
        completion += beside or thinking
    if prompt or not completion:
        completion = max(completion, total - prompt)
    usage = Usage(prompt, completion, cached)
    return usage if usage.prompt or usage.completion else None


def find_usage(data: object, depth: int = 3) -> Usage | None:
    """Return the usage that stands anywhere an endpoint puts it: in a reply, an error, or beside one."""
    if isinstance(data, list):
        return next((usage for usage in (find_usage(part, depth - 1) for part in data[:8]) if usage), None)
    if not isinstance(data, dict) or depth < 0:
        return None
    usual = read_usage(data.get("usage"))
    if usual is not None:
        return usual
    stated = (read_usage(data.get(name)) for name in _COUNTS)
    around = (find_usage(data.get(name), depth - 1) for name in _AROUND)
    return next((usage for found in (stated, around) for usage in found if usage is not None), None)
