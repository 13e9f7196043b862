"""Text normalisation: equal content has equal bytes wherever it was written.

Unicode NFC; every line end becomes a line feed; a surrogate pair becomes its character and a lone surrogate U+FFFD,
which is logged.
Nothing else changes: white space, case and control characters stay as they were.
"""

from __future__ import annotations

import logging
import re
import unicodedata

__all__ = ["count_lone_surrogates", "equality_key", "normalize", "split_lines"]

_LOG = logging.getLogger("combee.kernel.playbook")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")
_LINE_END = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_ODD_ASCII = ("\r", "\v", "\f")
_ODD = (*_ODD_ASCII, "\x85", "\u2028", "\u2029")


def count_lone_surrogates(text: str) -> int:
    """Return how many characters `normalize` would replace because no file can hold them."""
    return 0 if text.isascii() else len(_LONE.findall(text))


def normalize(text: str) -> str:
    """Return `text` in the one form that bullets and operations hold.

    Idempotent; a lone surrogate is logged as a warning.
    """
    if text.isascii():
        return _line_feeds(text)
    if _SURROGATE.search(text):
        lone = count_lone_surrogates(text)
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if lone:
            _LOG.warning("replaced %d lone surrogate(s) by U+FFFD in %s", lone, ascii(text[:40]))
    return unicodedata.normalize("NFC", _line_feeds(text))


def _line_feeds(text: str) -> str:
    # Looking for each character is many times faster than one pattern, and nearly always there is none.
    odd = _ODD_ASCII if text.isascii() else _ODD
    return _LINE_END.sub("\n", text) if any(character in text for character in odd) else text


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a file, whatever ended them.

    The lines are not brought to NFC: `\n` and an accent would become one letter.
    """
    return _line_feeds(text).split("\n")


def equality_key(text: str) -> str:
    """Return what two normalised texts share when they are the same lesson.

    Blanks at line ends and around the text do not count.
    """
    return "\n".join(line.rstrip() for line in text.strip().split("\n")) if "\n" in text else text.strip()
