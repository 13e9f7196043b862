"""The bytes of a file as text, strictly: UTF-8, with or without a mark, or UTF-16 or UTF-32 with one.

Nothing is guessed and nothing replaced (a wrong guess would put wrong words into a playbook): what cannot be read is
named by line and byte.
"""

from __future__ import annotations

import codecs
import os
import stat
import unicodedata
from pathlib import Path

from combee.errors import DataError

__all__ = ["MAX_LINE", "check_lines", "clean", "is_folder", "normal_form", "read_text"]

MAX_LINE = 10_000_000
"""Characters in one line of a file of lines; a longer one is almost always a file of another kind."""

_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


def read_text(path: Path) -> tuple[str, str]:
    r"""Return the text of a file with `\n` line ends, and the name of its encoding.

    Raises:
        DataError: missing, a directory, not a regular file, no permission, or not text.
    """
    data = _read_bytes(path)
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _undecodable(path, data, error) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    nul = text.find("\0")
    if nul >= 0:
        wide = data[1:2] == b"\0" or data[:1] == b"\0"
        raise DataError(
            "a NUL character: this is not a text file" if not wide else "this looks like UTF-16 without a mark",
            path=path,
            line=text.count("\n", 0, nul) + 1,
            column=nul - text.rfind("\n", 0, nul),
            hint="Save it as UTF-8 text.",
        )
    return text, "utf-8" if encoding == "utf-8-sig" else encoding


def clean(text: str) -> str:
    r"""Return text that any file can hold: line ends are `\n`, lone surrogates and NUL become U+FFFD."""
    if text.isascii() and "\r" not in text and "\0" not in text:
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return paired.replace("\0", "\N{REPLACEMENT CHARACTER}")


def check_lines(path: Path, text: str) -> None:
    """Refuse text with a line longer than `MAX_LINE`.

    Raises:
        DataError: names the line and its length.
    """
    if len(text) <= MAX_LINE:
        return
    start = 0
    line = 1
    while True:
        end = text.find("\n", start)
        length = (len(text) if end < 0 else end) - start
        if length > MAX_LINE:
            raise DataError(
                f"a line of {length:,} characters; the limit is {MAX_LINE:,}",
                path=path,
                line=line,
                hint="Use JSON Lines: one object a line.",
            )
        if end < 0:
            return
        start = end + 1
        line += 1


def normal_form(text: str) -> str:
    """Return the form in which `exact` compares: NFKC, case folded, single spaces, no wrapping quotes or final stop."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return folded.strip("\"'` ").removesuffix(".").strip("\"'` ") or folded


def is_folder(path: Path) -> bool:
    """Return whether this is a folder; False where nothing is there.

    Raises:
        DataError: it cannot be looked at (no permission, a name that no file can have).
    """
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _read_bytes(path: Path) -> bytes:
    try:
        # Opening a pipe would wait for its writer, and a device may never end: look before opening.
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            hint = "Give one file, or a folder with train and test files."
            raise DataError("is a directory, not a file", path=path, hint=hint)
        if not stat.S_ISREG(mode):
            raise DataError("is not a regular file", path=path, hint="Write the data to a file first.")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError | ValueError) -> DataError:
    if isinstance(error, FileNotFoundError):
        hint = "Check the path; it is taken from the current directory."
        return DataError("no such file", path=path, hint=hint)
    if isinstance(error, PermissionError):
        return DataError("no permission to read it", path=path, hint="Change its mode or run as its owner.")
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    shown = str(path) if len(str(path)) < 300 else f"{str(path)[:100]}..."
    return DataError(f"cannot be read: {reason}", path=shown.replace("\0", "\\0"))


def _undecodable(path: Path, data: bytes, error: UnicodeDecodeError) -> DataError:
    # The codec for UTF-8 with a mark counts from after the mark; that for UTF-16 counts from the start of the file.
    mark = 3 if error.encoding.lower().replace("_", "-") == "utf-8" and data.startswith(codecs.BOM_UTF8) else 0
    offset = error.start + mark
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return DataError(f"not valid UTF-16 at byte {offset}", path=path, hint="Save it as UTF-8 text.")
    return DataError(
        f"byte 0x{data[offset]:02x} at offset {offset} is not UTF-8",
        path=path,
        line=data.count(b"\n", 0, offset) + 1,
        column=offset - data.rfind(b"\n", 0, offset),
        hint="Save it as UTF-8, for example with: iconv -f LATIN1 -t UTF-8.",
    )
