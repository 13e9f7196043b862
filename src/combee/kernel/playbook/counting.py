"""Token counters by name.

The name is part of the playbook and is never guessed from what is installed, so bytes are the same everywhere.

Every counter adds up over lines, so a book can be measured while it changes: tokens = total(sum of units of its lines).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from combee.errors import UsageError, did_you_mean

_NARROW = bytes(byte for byte in range(256) if not (0xE3 <= byte <= 0xED or byte in {0xEF, 0xF0}))
"""Bytes with which no character from U+3000 on begins in UTF-8."""


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """`units` measures one line with its line end; `total` turns the sum of units into tokens (rounding up once)."""

    name: str
    units: Callable[[str], int]
    total: Callable[[int], int]

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        *lines, last = text.split("\n")
        return self.total(sum(self.units(line + "\n") for line in lines) + (self.units(last) if last else 0))


def narrow_length(text: str) -> int:
    """Return the characters of a text, with a Chinese, Japanese or Korean one (from U+3000 on) counted as three.

    Tokenizers take about four Latin characters to a token, and 0.6 to 1.1 tokens for one of these.
    """
    if text.isascii():
        return len(text)
    return len(text) + 2 * len(text.encode("utf-8", "surrogatepass").translate(None, _NARROW))


def _words(line: str) -> int:
    return len(line.split())


def _quarter(characters: int) -> int:
    return -(-characters // 4)


def _same(units: int) -> int:
    return units


@lru_cache(maxsize=8)
def token_counter(name: str) -> TokenCounter:
    """Return the counter of this name: `chars/4`, `words`, or `tiktoken:ENCODING`.

    `chars/4` is characters over four, rounded up; a Chinese, Japanese or Korean one counts as three.

    Raises:
        UsageError: the name is unknown, tiktoken is not installed, or it does not know (or cannot fetch) the
            encoding.
    """
    if name == "chars/4":
        return TokenCounter(name, narrow_length, _quarter)
    if name == "words":
        return TokenCounter(name, _words, _same)
    if name.startswith("tiktoken:"):
        return TokenCounter(name, _tiktoken(name.removeprefix("tiktoken:")), _same)
    raise UsageError(
        f"unknown token counter {name!r}", hint=did_you_mean(name, ["chars/4", "words", "tiktoken:cl100k_base"])
    )


def _tiktoken(encoding: str) -> Callable[[str], int]:
    try:
        encode = importlib.import_module("tiktoken").get_encoding(encoding).encode_ordinary
    except ImportError as error:
        raise UsageError(
            f"the token counter 'tiktoken:{encoding}' needs the tiktoken package",
            hint="Install it with `pip install tiktoken`, or use the counter chars/4 or words.",
        ) from error
    except (ValueError, OSError) as error:  # an unknown name; a word list that is not on disk and cannot be fetched
        raise UsageError(
            f"tiktoken has no encoding {encoding!r} here: {error}",
            hint="Name one it knows (such as cl100k_base), and set TIKTOKEN_CACHE_DIR when there is no network.",
        ) from error
    return lambda line: len(encode(line))


def count_tokens(text: str, counter: str = "chars/4") -> int:
    """Return the tokens of `text` by the named counter.

    Raises:
        UsageError: see `token_counter`.
    """
    return token_counter(counter).count(text)
