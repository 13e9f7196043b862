"""JSON Lines, JSON and CSV files as rows of text; every row knows where it stood, for complaints.

Numbers keep the characters they were written with (`1.10`, `1e400`, a hundred digits): nothing is converted or run.

The bytes of a file as text, strictly: UTF-8, with or without a mark, or UTF-16 or UTF-32 with one. Nothing is guessed
and nothing replaced (a wrong guess would put wrong words into a playbook): what cannot be read is named by line and
byte.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
import stat
import unicodedata
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from combee.errors import DataError, UsageError, did_you_mean
from combee.tasks.encodings import likely_encoding


class NumberText(str):
    """A JSON number, by the characters it was written with."""

    __slots__ = ()


Cell = str | bool | None | list[object] | dict[str, object]
"""What a field can hold; numbers are `NumberText`."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `line` counts from 1 (in a JSON file it is the place in the list)."""

    line: int
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one file; `columns` are all names met, in the order met; `unit` says what `Row.line` counts."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    encoding: str
    unit: str = "line"


def read_table(path: Path, encoding: str | None = None) -> Table:
    """Read one file by its suffix; without an `encoding` as UTF-8, or as its mark says.

    Raises:
        DataError: unreadable or malformed (line and column named), or without rows.
        UsageError: a suffix or an encoding we do not know.
    """
    suffix = suffix_of(path)
    read = SUFFIXES.get(suffix)
    if read is None and not is_folder(path) and path.exists():
        hint = _CONVERT.get(suffix) or did_you_mean(suffix, SUFFIXES)
        raise UsageError(f"{path}: unknown kind of file {path.suffix or '(no suffix)'!r}", hint=hint)
    text, encoding = read_text(path, encoding)
    text = text.removesuffix("\x1a")  # the end mark of DOS
    for start, what, hint in _NO_DATA:
        if text[:100].lstrip().lower().startswith(start):
            raise DataError(what, path=path, hint=hint)
    if text.lstrip()[:1] == "[" and read is _jsonl and text.lstrip()[1:].lstrip()[:1] == "{":
        read = _json  # a list of rows by the name of lines
    if not text.strip():
        blank = "the file is empty but for blanks or a byte order mark" if path.stat().st_size else "the file is empty"
        raise DataError(blank, path=path, hint="One question and one answer a row are needed.")
    rows = (read or _jsonl)(path, text)
    if not rows:
        raise DataError("no rows", path=path, hint="One question and one answer a row are needed.")
    columns = tuple(dict.fromkeys(name for row in rows for name in row.cells))
    return Table(path, columns, rows, encoding, "row" if read is _json else "line")


def suffix_of(path: Path) -> str:
    """Return the suffix that says how a file is read, in lower case: that in front of `.gz` where it is packed."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


_CONVERT = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "Save the sheet as CSV (UTF-8)."),
    ".parquet": 'Convert it: python -c \'import pandas as p; p.read_parquet("IN").to_json("OUT.jsonl", '
    'orient="records", lines=True)\'',
    ".zip": "Unpack it first.",
}
_PAGE = "a web page, not data: the download went to a page (a login?)"
_NO_DATA = (
    ("version https://git-lfs", "a pointer of Git LFS, not the data", "Run git lfs pull, or download the file itself."),
    ("<!doctype html", _PAGE, "Download the file itself, not the page that shows it."),
    ("<html", _PAGE, "Download the file itself, not the page that shows it."),
)


def _jsonl(path: Path, text: str) -> tuple[Row, ...]:
    check_lines(path, text)
    rows: list[Row] = []
    decode = _decoder().decode
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: U+2028 may stand inside a JSON string
        if not line or line.isspace():
            continue
        try:
            value = decode(line)
        except json.JSONDecodeError as error:
            raise DataError(
                f"not JSON: {error.msg}", path=path, line=number, column=error.colno, hint=_json_hint(line)
            ) from None
        except _TwiceError as error:
            raise DataError(str(error), path=path, line=number, hint="Rename one of them.") from None
        except RecursionError:
            raise DataError("nested too deeply", path=path, line=number) from None
        if not isinstance(value, dict):
            raise DataError(
                f"{_name_of(value)} where an object is needed",
                path=path,
                line=number,
                hint='A row is an object such as {"question": "...", "answer": "..."}.',
            )
        rows.append(Row(number, value))
    return tuple(rows)


def _json_hint(line: str) -> str:
    if line.lstrip()[:1] in "[{" and line.rstrip()[-1:] not in "]}":
        return "In JSON Lines every row is one whole line; is this line cut off, or is the file plain JSON (.json)?"
    return 'Every line must be one object such as {"question": "...", "answer": "..."}.'


def _json(path: Path, text: str) -> tuple[Row, ...]:
    try:
        value = _decoder().decode(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and error.lineno > 1 and text.lstrip()[:1] == "{":
            return _jsonl(path, text)  # lines by the name of a list
        raise DataError(f"not JSON: {error.msg}", path=path, line=error.lineno, column=error.colno) from None
    except _TwiceError as error:
        raise DataError(str(error), path=path, hint="Rename one of them.") from None
    except RecursionError:
        raise DataError("nested too deeply", path=path) from None
    if isinstance(value, dict):
        lists = [name for name, inner in value.items() if isinstance(inner, list)]
        if len(lists) != 1:
            fields = ", ".join(repr(name) for name in value) or "nothing"
            raise DataError(
                f"an object that holds {fields} where a list of rows is needed",
                path=path,
                hint="Give a list of objects, or an object with one list of objects in it.",
            )
        value = value[lists[0]]
    if not isinstance(value, list):
        raise DataError(f"{_name_of(value)} where a list of rows is needed", path=path)
    for number, item in enumerate(value, 1):
        if not isinstance(item, dict):
            raise DataError(f"row {number} is {_name_of(item)}, not an object", path=path)
    return tuple(Row(number, item) for number, item in enumerate(value, 1))


def _csv(path: Path, text: str) -> tuple[Row, ...]:
    check_lines(path, text)
    told = _SEP.match(text)  # how Excel is told the delimiter
    body = text[told.end() :] if told else text
    delimiter = told[1] if told else _delimiter(path, text)
    # A blank in front of an opening quote would make the quotes part of the cell.
    blank = f'{delimiter} "' in body and delimiter != "\t"
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter, strict=True, skipinitialspace=blank)
    header: list[str] | None = None
    rows: list[Row] = []
    above = 1 if told else 0
    start = 1 + above
    try:
        for cells in reader:
            line, start = start, reader.line_num + 1 + above
            if not any(cell.strip() for cell in cells):
                continue  # an empty line, or one of delimiters only, as spreadsheets leave at the end
            if header is None:
                header = _header(path, line, cells)
                continue
            if len(cells) < len(header) or any(cell.strip() for cell in cells[len(header) :]):
                raise DataError(
                    f"{len(cells)} cells where the header has {len(header)}",
                    path=path,
                    line=line,
                    hint="Put text that holds a comma, a quote or a line break between double quotes."
                    if len(header) > 1
                    else f"Is {header[0]!r} the line with the names of the columns? Take out what stands above that.",
                )
            rows.append(Row(line, {name: clean(cell) for name, cell in zip(header, cells, strict=False)}))
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", path=path, line=start, hint=_csv_hint(str(error))) from None
    return tuple(rows)


def _csv_hint(reason: str) -> str:
    if "field limit" in reason:
        return "Is a quote never closed? A cell may hold 131,072 characters; JSON Lines has no such limit."
    return "A quote inside a quoted cell is written twice, and every quote that opens must close."


def _delimiter(path: Path, text: str) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    first = text.lstrip("\n").split("\n", 1)[0]
    return max(",;\t|", key=first.count)  # of equal counts the comma, which is named first


_SEP = re.compile(r"sep=([^\w\s]|\t)\n", re.IGNORECASE)


def _header(path: Path, line: int, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        hint = "Give one of them another name in this line."
        raise DataError(f"two columns have the name {twice[0]!r}", path=path, line=line, hint=hint)
    return [name or f"column {place}" for place, name in enumerate(names, 1)]


class _TwiceError(ValueError):
    """An object names a field twice; which of the two counts is not ours to guess."""


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_float=NumberText, parse_int=NumberText, parse_constant=_constant, object_pairs_hook=_object
    )


def _constant(name: str) -> NumberText | None:
    """NaN is how data frames write a hole, so it is none here either; an infinity is text like any number."""
    return None if name == "NaN" else NumberText(name)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(f"field {next(name for name in names if names.count(name) > 1)!r} is named twice")
    return made


def _name_of(value: object) -> str:
    if isinstance(value, NumberText):
        return "a number"
    if isinstance(value, bool):
        return "true or false"
    return {list: "a list", dict: "an object", str: "text", type(None): "null"}.get(type(value), type(value).__name__)


SUFFIXES: Mapping[str, Callable[[Path, str], tuple[Row, ...]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
}


MAX_LINE = 10_000_000
"""Characters in one line of a file of lines; a longer one is almost always a file of another kind."""

_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


def read_text(path: Path, named: str | None = None) -> tuple[str, str]:
    r"""Return the text of a file with `\n` line ends, and the name of its encoding.

    A named encoding is for files that are not UTF-8: one that a run began with must not garble the next file.

    Raises:
        DataError: missing, a directory, not a regular file, no permission, or not text.
        UsageError: there is no such encoding.
    """
    if named is not None:
        check_encoding(named)
    data = _read_bytes(path)
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    if named is not None and not _is_utf8(data):
        encoding = named
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _undecodable(path, data, error, named) from None
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


# Soft hyphen, zero-width space, word joiner, byte order mark, and marks of direction: copied along, never seen.
_INVISIBLE = dict.fromkeys([0xAD, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF])


def normal_form(text: str) -> str:
    """Return the form in which `exact` compares.

    NFKC, case folded, single spaces, without invisible marks, wrapping quotes and a final stop.
    """
    seen = text if text.isascii() else unicodedata.normalize("NFKC", text.translate(_INVISIBLE))
    folded = " ".join(seen.casefold().split())
    return folded.strip("\"'` ").removesuffix(".").removesuffix("。").strip("\"'` ") or folded


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
        if path.suffix.lower() != ".gz":
            return path.read_bytes()
        with gzip.open(path) as packed:
            data = packed.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        if path.suffix.lower() == ".gz" and not (isinstance(error, OSError) and error.errno):
            raise DataError("not a whole gzip file", path=path, hint="Pack or download it again.") from None
        raise _unreadable(path, error if isinstance(error, OSError) else OSError(str(error))) from None
    except ValueError as error:
        raise _unreadable(path, error) from None
    if len(data) > _LARGEST:
        raise DataError(f"more than {_LARGEST >> 20} MB when unpacked", path=path, hint="Cut it into several files.")
    return data


_LARGEST = 1 << 30


def _unreadable(path: Path, error: OSError | ValueError) -> DataError:
    if isinstance(error, FileNotFoundError):
        hint = "Check the path; it is taken from the current directory."
        return DataError("no such file", path=path, hint=hint)
    if isinstance(error, PermissionError):
        return DataError("no permission to read it", path=path, hint="Change its mode or run as its owner.")
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    shown = str(path) if len(str(path)) < 300 else f"{str(path)[:100]}..."
    return DataError(f"cannot be read: {reason}", path=shown.replace("\0", "\\0"))


def check_encoding(name: str) -> None:
    """Refuse the name of an encoding that is not one of text.

    Raises:
        UsageError: There is none of that name.
    """
    try:
        known = codecs.lookup(name)
    except (LookupError, ValueError):
        known = None
    if known is None or not getattr(known, "_is_text_encoding", True):
        raise UsageError(
            f"there is no encoding {name!r}",
            hint=did_you_mean(name, ["utf-8", "utf-16", "gbk", "gb18030", "big5", "shift_jis", "euc_kr", "cp1252"]),
        )


def _is_utf8(data: bytes) -> bool:
    """Whether letters beyond ASCII are UTF-8: in any other encoding they practically never are."""
    try:
        return not data.isascii() and b"\0" not in data and bool(data.decode())
    except UnicodeDecodeError:
        return False


def _undecodable(path: Path, data: bytes, error: UnicodeDecodeError, named: str | None) -> DataError:
    if named is not None:
        return DataError(
            f"byte 0x{data[error.start]:02x} at offset {error.start} is not {named}",
            path=path,
            line=data.count(b"\n", 0, error.start) + 1,
            hint=_encoding_hint(data),
        )
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
        hint=_encoding_hint(data),
    )


def _encoding_hint(data: bytes) -> str:
    fits = likely_encoding(data)
    if fits is None:
        return "Say which encoding it is with --encoding NAME, or save it as UTF-8."
    first = next(line for line in data.decode(fits).splitlines() if not line.isascii()).strip()
    shown = first if len(first) <= 40 else f"{first[:40]}..."
    setting = f'encoding = "{fits}" below [tasks]'
    return f"It reads as {fits} ({shown}): give --encoding {fits} ({setting}), or save it as UTF-8."
