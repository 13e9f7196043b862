"""A marked block in a file that belongs to somebody else: put in, replaced, never anything else touched.

The rest of the file keeps its bytes: line ends, a byte order mark, a missing last line end. The block takes the line
ends of the file. Marks count only where they are a line of their own.
"""

from __future__ import annotations

import re

from combee.errors import UsageError
from combee.export.forms import BEGIN, END

__all__ = ["put_block"]

_BEGIN = re.compile(rb"^" + re.escape(BEGIN.encode()) + rb"[ \t]*\r?$", re.MULTILINE)
_END = re.compile(rb"^" + re.escape(END.encode()) + rb"[ \t]*(?:\r\n|\r?$|\n)", re.MULTILINE)


def _span(content: bytes, where: str) -> tuple[int, int] | None:
    """Return where the block begins and ends, with its last line end; None where there is none."""
    begins, ends = list(_BEGIN.finditer(content)), list(_END.finditer(content))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        raise UsageError(
            f"{where} holds {len(begins)} `{BEGIN}` and {len(ends)} `{END}`.", hint="Leave one pair, or none."
        )
    end = ends[0].end()
    if content[end : end + 1] == b"\n":
        end += 1
    return begins[0].start(), end


def put_block(content: bytes | None, block: str, where: str = "the file") -> bytes:
    """Return the file with the block: in place of the old one, else at the end.

    Args:
        content: the file as it is; None where there is none.
        block: from `BEGIN` to `END`, each on a line of its own, with a line end. What stands before `BEGIN` says how it
            is read: it comes in with the first block, and is the file's own from then on.
        where: what to call the file in errors.

    Raises:
        UsageError: the file holds a mark without its partner, or more than one pair.
    """
    if not content:
        return block.encode()
    ends = b"\r\n" if content.count(b"\r\n") * 2 > content.count(b"\n") else b"\n"
    span = _span(content, where)
    text = block[block.index(BEGIN) if span is not None else 0 :].encode().replace(b"\n", ends)
    if span is not None:
        return content[: span[0]] + text + content[span[1] :]
    gap = b"" if content.endswith(b"\n") else ends
    return content + gap + ends + text
