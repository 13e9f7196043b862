"""What kind of file it is, by its first bytes and records; bounded lines; JSON with errors that say what is wrong.

A file is one JSON document (over one line or many), lines of JSON (also documents written one after the other), an
archive (zip, tar), or something else, with the reason. What is packed with gzip is read as what it holds.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader, FileIO, RawIOBase
from pathlib import Path
from typing import Literal, cast

Kind = Literal["folder", "document", "lines", "archive", "other"]
SPACE = b" \t\r\n"
_HEAD_BYTES = 1 << 16
_HEAD_RECORDS = 20
_RECORD = re.compile(r"\{\s*\"\w+\"\s*:")
_HAS_RECORDS = re.compile(rb"[\[{][\s\0]*\"\w+\"")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; a link, pipe, socket or device is an OSError, and nothing is waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("not a regular file")
    file: BufferedReader = BufferedReader(FileIO(descriptor, "rb"), 1 << 18)
    if file.peek(2)[:2] == b"\x1f\x8b":
        packed = gzip.GzipFile(fileobj=file, mode="rb")
        packed.myfileobj = cast("FileIO", file)  # closed together
        return BufferedReader(cast("RawIOBase", packed), 1 << 18)
    return file


def read_bounded(file: BufferedReader, limit: int) -> bytes | None:
    """Return the whole file, or None where it is larger than `limit` bytes."""
    # A read of n bytes takes n bytes of memory at once, whatever the size of the file.
    parts: list[bytes] = []
    left = limit + 1
    while left and (data := file.read(min(left, 1 << 20))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts) if left else None


def parse_json(data: bytes) -> object:
    """Return the JSON value.

    Raises:
        ValueError: not JSON, not UTF-8, too deeply nested; the message says which.
    """
    try:
        value: object = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _NotJSONError(f"not JSON: {error.msg} (column {error.colno})", error) from None
    except ValueError:
        raise ValueError("not JSON: a number with too many digits") from None
    return value


class _NotJSONError(ValueError):
    def __init__(self, message: str, cause: json.JSONDecodeError) -> None:
        super().__init__(message)
        self.line = cause.lineno
        self.extra_data = cause.msg == "Extra data"


@dataclass(slots=True)
class Shape:
    """What kind of file it is, found once: `first` are its first records; `values` all of them where they fit."""

    kind: Kind
    first: tuple[object, ...] = ()
    values: tuple[tuple[int, object], ...] | None = None
    reason: str = ""
    line: int | None = None


def bounded_lines(file: BufferedReader, limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield (number, line) without ever holding more than `limit` bytes; None stands for a longer line."""
    number = 0
    while data := file.readline(limit + 1):
        number += 1
        if len(data) > limit:
            while not data.endswith(b"\n") and (data := file.readline(1 << 20)):
                pass
            yield number, None
        else:
            yield number, data


def shape_of(file: BufferedReader, limit: int) -> Shape:
    """Return what the file is; `limit` bounds one record in bytes."""
    head = file.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    known = _head_shape(head)
    if known is not None:
        return known
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip(SPACE + b"\0")[:1]
    first: list[object] = []
    broken: Shape | None = None
    for line, data in bounded_lines(file, limit):
        value, trouble = _try_line(data, limit)
        if isinstance(value, dict | list):
            first.append(value)
        elif trouble and broken is None:
            broken = Shape("other", reason=trouble, line=line)
            whole = _whole(file, limit) if start in {b"{", b"["} and not first else None
            if whole is not None and whole.kind != "other":
                return whole
            broken = whole or broken
        if line >= _HEAD_RECORDS or file.tell() > _HEAD_BYTES:
            break
    if not first:
        return broken or Shape("other", reason="not JSON")
    if len(first) == 1 and broken is None and not file.read(1 << 12).strip(SPACE):
        return Shape("document", (first[0],), ((1, first[0]),))
    return Shape("lines", tuple(first))


def _head_shape(head: bytes) -> Shape | None:
    if not head.strip(SPACE) and len(head) < _HEAD_BYTES:
        return Shape("other", reason="empty file")
    if head.startswith(b"PK\x03\x04") or head[257:262] == b"ustar":
        return Shape("archive")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Shape("other", reason="UTF-16 text; save it as UTF-8")
    if head.startswith(b"SQLite format 3\0"):
        return Shape(
            "other", reason="a SQLite database: export its sessions as JSON (`opencode export ID`, for example)"
        )
    holes = head[:4096].count(0)  # a crash leaves some in a file of lines
    binary = holes and not (_HAS_RECORDS.search(head) and head.replace(b"\0", b"").isascii())
    return Shape("other", reason="binary file") if binary else None


def _try_line(data: bytes | None, limit: int) -> tuple[object, str]:
    """Return the value of a line, or what is wrong with it; a blank line is neither."""
    if data is None:
        return None, f"line longer than {limit >> 20} MiB"
    if not data.strip(SPACE + b"\0"):
        return None, ""
    try:
        return parse_json(data.removeprefix(b"\xef\xbb\xbf").replace(b"\0", b"")), ""
    except ValueError as error:
        return None, str(error)


def _whole(file: BufferedReader, limit: int) -> Shape | None:
    """Return the file as one document over many lines, or as several one after the other; None where it is neither."""
    at = file.tell()
    file.seek(0)
    data = read_bounded(file, limit)
    file.seek(at)
    if data is None:
        return Shape("other", reason=f"one JSON document larger than {limit >> 20} MiB")
    try:
        value = parse_json(data.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        if getattr(error, "extra_data", False):
            return _one_after_another(data)
        return Shape("other", reason=str(error), line=getattr(error, "line", 1))
    return Shape("document", (value,), ((1, value),)) if isinstance(value, dict | list) else None


def whole_records(data: bytes, depth: int = 0) -> list[object]:
    """Return the whole objects of a damaged line: one that was torn may have the next one on its heels.

    Only what reaches to the end of the line, or to another such object, counts: what lies inside a torn one does not.
    """
    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    for match in list(_RECORD.finditer(text))[: 50 if depth < 20 else 0]:
        try:
            value, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        rest = text[end:].strip()
        if not rest:
            return [value]
        if rest.startswith("{") and (more := whole_records(rest.encode(), depth + 1)):
            return [value, *more]
    return []


def _one_after_another(data: bytes) -> Shape | None:
    """Return pretty-printed documents written one after the other (console exporters do), with their lines."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    decoder = json.JSONDecoder()
    values: list[tuple[int, object]] = []
    at, line = 0, 1
    while at < len(text):
        rest = len(text) - len(text[at:].lstrip()) if text[at].isspace() else at
        line += text.count("\n", at, rest)
        if rest >= len(text):
            break
        try:
            value, end = decoder.raw_decode(text, rest)
        except (ValueError, RecursionError):
            return None
        values.append((line, value))
        line += text.count("\n", rest, end)
        at = end
    return Shape("lines", tuple(value for _, value in values[:_HEAD_RECORDS]), tuple(values))
