"""The one JSON object that was asked for, out of any reply: found, repaired, or asked for again; else a typed error.

A reply is data: nothing in it is ever run. Of several objects the last whole one with the required keys counts, since
models show the form or a draft first. Our own reader (`tolerant`) is used where the text is not JSON: `json-repair`
repairs more kinds of damage, but turns any prose into some value and keeps strings that were cut off in the middle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from combee.errors import CallError, CallErrorKind
from combee.kernel.journal import clean_text
from combee.model.answer_text import strip_thinking
from combee.model.dialect import ask_in_words
from combee.model.provider_errors import shorten
from combee.model.tolerant import Allowance, read_value
from combee.model.types import ChatModel, Message, Request

_DECODER = json.JSONDecoder(strict=False)  # raw line breaks in strings are read as they stand
_TYPES: dict[str, type | tuple[type, ...]] = {"array": list, "object": dict}
# LaTeX whose first letters are JSON escapes: "\beta" reads as backspace + "eta".
_LATEX = re.compile(
    "\x08(?=[a-z])|\x0c(?=[a-z])|\t(?=imes\\b|heta\\b|ext[{a-z]|au\\b|frac)|\n(?=abla\\b|eq\\b)|\r(?=ho\\b|ight\\b|angle\\b)"
)
_LATEX_LETTER = {"\x08": "\\b", "\x0c": "\\f", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class Found:
    """An object with the required keys. `cut`: the reply ended before the object did, what was half is left out."""

    value: dict[str, Any]
    repaired: bool = False
    cut: bool = False


def _required(required: Sequence[str], schema: Mapping[str, Any] | None) -> tuple[str, ...]:
    return tuple(required) or tuple((schema or {}).get("required", ()))


def _fits(value: object, keys: Sequence[str], schema: Mapping[str, Any] | None) -> bool:
    """Whether a value is an object with the keys, and lists and objects where the schema wants them."""
    if not isinstance(value, dict) or (not value and not keys):
        return False
    if any(key not in value for key in keys):
        return False
    for key, part in (schema or {}).get("properties", {}).items():
        kind = _TYPES.get(str(part.get("type"))) if isinstance(part, Mapping) else None
        if kind is not None and key in keys and not isinstance(value[key], kind):
            return False
    return True


def _inside(value: object, keys: Sequence[str], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the objects in a value, outermost first, with their keys as they were asked for.

    An object may be wrapped in a list, under a key, or written as a string.
    """
    if isinstance(value, dict):
        yield (
            value if all(key in value for key in keys) else {_as_asked(key, keys): part for key, part in value.items()}
        )
    if isinstance(value, str) and depth and value.lstrip()[:1] == "{":
        try:
            yield from _inside(_DECODER.decode(value.strip()), keys, depth + 1)
        except (ValueError, RecursionError):
            return
    if depth < 3 and isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _inside(part, keys, depth + 1)


def _as_asked(key: str, keys: Sequence[str]) -> str:
    """Return the key that is meant by one in other letters or with blanks around it."""
    return next((asked for asked in keys if asked.lower() == key.strip().lower()), key)


def _unwrapped(value: object, keys: Sequence[str], schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the object that was meant by its only list written bare, or under another key, or by one row of it."""
    part = (schema or {}).get("properties", {}).get(keys[0], {}) if len(keys) == 1 else {}
    row = part.get("items", {}).get("properties", {}) if part.get("type") == "array" else {}

    def is_row(one: object) -> bool:
        return isinstance(one, dict) and sum(name in one for name in row) >= min(2, len(row)) > 0

    for one in (value, *(value.values() if isinstance(value, dict) else ())):
        rows = one if isinstance(one, list) else [one]
        if any(map(is_row, rows)):
            return {keys[0]: rows}
    return None


def _lists(text: str) -> Iterator[object]:
    """Yield the JSON lists that stand in a text, in order; a text may hold many brackets that begin none."""
    at = text.find("[")
    for _ in range(50):
        if at < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield value
        at = text.find("[", end)


def _mend(value: Any) -> Any:
    """Return the value without thinking, with LaTeX commands restored that JSON escapes ate, and no lone surrogates."""
    if isinstance(value, str):
        mended = _LATEX.sub(lambda found: _LATEX_LETTER[found.group()], value) if _LATEX.search(value) else value
        mended = strip_thinking(mended)
        return clean_text(mended)
    if isinstance(value, list):
        return [_mend(part) for part in value]
    if isinstance(value, dict):
        return {str(_mend(key)): _mend(part) for key, part in value.items()}
    return value


def _candidates(text: str, fits: Callable[[object], dict[str, Any] | None]) -> Iterator[Found]:
    """Yield what fits from each place where an object begins, in order, in linear time."""
    allowance = Allowance(4 * len(text) + 10_000)
    strict_tries = 20  # the strict reader counts all lines up to its error, so it is not asked for ever
    at = text.find("{")
    while at >= 0 and allowance.left > 0:
        value, end, repaired, cut = None, at + 1, False, False
        try:
            if strict_tries <= 0:
                raise ValueError
            value, end = _DECODER.raw_decode(text, at)
            allowance.left -= end - at
        except (ValueError, RecursionError):
            strict_tries -= 1
            read = read_value(text, at, allowance)
            if read is None:
                allowance.left -= 40  # a fruitless start costs more than its characters
            else:
                value, end, repaired, cut = read.value, read.end, True, read.cut
        found = fits(value)
        if found is not None:
            yield Found(found, repaired, cut)
        # A damaged object that does not fit may have swallowed the next one: the search goes on just behind its start.
        whole = value is not None and not cut and (found is not None or not repaired)
        at = text.find("{", end if whole else at + 1)


def find_json(text: str, required: Sequence[str] = (), schema: Mapping[str, Any] | None = None) -> Found | None:
    """Return the object in a reply, or None.

    Args:
        text: The reply.
        required: Keys that the object must have (default: those that the schema requires).
        schema: JSON schema; only its required keys and its lists and objects are checked here.
    """
    keys = _required(required, schema)
    text = strip_thinking(text).strip()
    for _ in range(3):  # JSON inside a JSON string, at most twice
        try:
            whole = _DECODER.decode(text)
        except (ValueError, RecursionError):
            break
        if isinstance(whole, str):
            text = whole.strip()
            continue
        found = next((part for part in _inside(whole, keys) if _fits(part, keys, schema)), None)
        found = found or _unwrapped(whole, keys, schema)
        return Found(_mend(found)) if found is not None else None
    best: Found | None = None

    def fits(value: object) -> dict[str, Any] | None:
        return next((part for part in _inside(value, keys) if _fits(part, keys, schema)), None)

    for candidate in _candidates(text, fits):
        if best is None or _rank(candidate) >= _rank(best):
            best = candidate
    if best is None:
        meant = [found for value in _lists(text) if (found := _unwrapped(value, keys, schema)) is not None]
        best = Found(meant[-1]) if meant else _escaped(text, fits)
    return replace(best, value=_mend(best.value)) if best is not None else None


def _escaped(text: str, fits: Callable[[object], dict[str, Any] | None]) -> Found | None:
    r"""Return the object that is written as the inside of a JSON string: `{\"a\": 1}`."""
    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end or not re.match(r'\{\s*\\+"', text[start:]):
        return None
    try:
        found = fits(_DECODER.decode(_DECODER.decode(f'"{text[start:end]}"')))
    except (ValueError, RecursionError):
        return None
    return Found(found, repaired=True) if found is not None else None


def _rank(found: Found) -> tuple[bool, bool, bool]:
    """Order candidates: whole before cut, with content before empty, sound before repaired; the later of equals."""
    return (not found.cut, any(found.value.values()), not found.repaired)


def parse_json(text: str, required: Sequence[str] = (), schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the object in a reply.

    Raises:
        CallError: There is none with the required keys (kind SCHEMA).
    """
    found = find_json(text, required, schema)
    if found is None:
        raise _no_object(text, _required(required, schema))
    return found.value


def _no_object(text: str, keys: Sequence[str]) -> CallError:
    wanted = f" with {', '.join(keys)}" if keys else ""
    return CallError(
        f"the reply holds no JSON object{wanted}: {shorten(text, 160)!r}",
        kind=CallErrorKind.SCHEMA,
        hint="A stronger model, or one whose endpoint takes a JSON schema, answers in form more often.",
    )


async def complete_json(
    model: ChatModel,
    request: Request,
    *,
    required: Sequence[str] = (),
    schema: Mapping[str, Any] | None = None,
    judge: Callable[[dict[str, Any]], CallError | None] = lambda _: None,
) -> dict[str, Any]:
    """Ask a model for one JSON object; ask once more where the reply has none, cannot be used, or was cut off.

    The second call is booked under the role `<role>/again`, so that a journal keeps both. `judge` says why an object
    of the right form cannot be used.

    Raises:
        CallError: Neither reply held an object with the required keys (kind SCHEMA), or one that can be used (what the
            judge says of the second), or a call failed.
    """
    schema = schema if schema is not None else request.schema
    keys = _required(required, schema)
    request = replace(request, schema=schema, accept_cut=True)
    response = await model.complete(request)
    first = find_json(response.text, keys, schema)
    bad = None if first is None else judge(first.value)
    if first is not None and not first.cut and bad is None:
        return first.value
    is_cut = bad is None and (response.finish == "length" or first is not None)
    again = _again(request, response.text, keys, schema, is_cut=is_cut, bad=bad)
    second_text = (await model.complete(again)).text
    second = find_json(second_text, keys, schema)
    worse = None if second is None else judge(second.value)
    best = max(
        (found for found, why in ((first, bad), (second, worse)) if found is not None and why is None),
        key=lambda found: (not found.cut, len(json.dumps(found.value))),
        default=None,
    )
    if best is None:
        raise worse or bad or _no_object(second_text, keys)
    return best.value


def _again(
    request: Request,
    text: str,
    keys: Sequence[str],
    schema: Mapping[str, Any] | None,
    *,
    is_cut: bool,
    bad: CallError | None,
) -> Request:
    """Return the second request: with more room where the reply was cut off, else with what was wrong."""
    role = f"{request.role}/again"
    if is_cut:
        return replace(request, role=role, max_tokens=2 * request.max_tokens)
    wanted = f" with the keys {', '.join(keys)}" if keys else ""
    said = f"That was not one JSON object{wanted}. Write the same answer again as one JSON object and nothing else."
    if bad is not None:
        said = f"That cannot be used: {bad.message}. Do what was asked, and answer with one JSON object{wanted}."
    if schema is not None:
        said = f"{said}\n{ask_in_words(schema)}"
    messages = (*request.messages, Message("assistant", text[:8000] or "(nothing)"), Message("user", said))
    return replace(request, role=role, messages=messages)
