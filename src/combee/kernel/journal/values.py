"""JSON values, their one canonical text, and their hash: what addresses and content addresses are made of.

Equal values have equal bytes (sorted keys, no spaces, UTF-8). Lone surrogates, which no file can hold, become U+FFFD.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, TypeAlias, cast

from combee.errors import StorageError, UsageError

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""What comes back out of a journal."""

JSONLike: TypeAlias = "bool | int | float | str | Sequence[JSONLike] | Mapping[str, JSONLike] | None"
"""What may go in: also tuples and read-only mappings; they come back as lists and dicts."""


def clean_text(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class Spelled(dict[str, Any]):
    """A JSON object that brings its canonical text: for small ones of a fixed form that are made at each call.

    Not to be changed once it is made, and plain in itself: read from `text`, it is an equal value.
    """

    __slots__ = ("text",)
    text: str


def atom(value: JSONLike) -> str:
    """Return the canonical text of a value, which may stand inside a larger one; quick for texts and numbers."""
    if type(value) is str:
        return encode_basestring(value if value.isascii() else clean_text(value))
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)
    return "null" if value is None else canonical_json(value)


def canonical_json(value: JSONLike) -> str:
    """Return the one text of a JSON value.

    Raises:
        UsageError: The value is not JSON (an object of another type, NaN, infinity, mixed key types, a circle).
    """
    if type(value) is Spelled:
        return value.text
    try:
        text = _ENCODE(value)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "Store only None, bool, finite numbers, text, lists and dicts with text keys."
        raise UsageError(f"a value cannot be stored as JSON: {error}", hint=hint) from error
    return clean_text(text)


def hash_json(value: JSONLike) -> str:
    """Return the SHA-256 (64 hex digits) of the canonical text."""
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()


def parse_json(text: str) -> JSON:
    """Return the value of a text that `canonical_json` wrote. Raises `StorageError` when it is something else."""
    try:
        return cast("JSON", json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        hint = "The file is damaged: run `combee doctor` on its folder."
        raise StorageError("a stored value cannot be read", hint=hint) from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def _encoder() -> Callable[[object], str]:
    """Return the encoder, made once: `JSONEncoder.encode` makes one for each value, which takes longer than most."""
    made = getattr(json.encoder, "c_make_encoder", None)
    if made is None:  # not CPython
        return json.JSONEncoder(
            ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain
        ).encode
    encode = made(None, _plain, encode_basestring, None, ":", ",", True, False, False)
    return lambda value: "".join(encode(value, 0))


_ENCODE = _encoder()
