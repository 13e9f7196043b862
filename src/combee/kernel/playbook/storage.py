"""Playbooks on disk: JSON (lossless) or text, always UTF-8, always whole: a file is replaced in one step or not at all.

The JSON form has one bullet a line, so that versions compare well; the digest is taken of its bytes.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from combee.errors import DataError, UsageError
from combee.files import place_for, read_regular, write_whole
from combee.kernel.playbook.model import Bullet, Parsed, Playbook
from combee.kernel.playbook.textform import from_text, to_text

_LOG = logging.getLogger("combee.kernel.playbook")
_FORMAT = "combee-playbook"
_VERSION = 1
_FIELDS = ("id", "section", "text", "helpful", "harmful", "sources", "created", "last_used")


def _compact(value: object) -> str:
    # JSON's own escapes keep a lone surrogate in a hand-made id or source writable as UTF-8.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (
        text
        if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
        else json.dumps(value, separators=(",", ":"))
    )


def _line(bullet: Bullet) -> str:
    line = _compact({name: getattr(bullet, name) for name in _FIELDS})
    object.__setattr__(bullet, "_json", line)
    return line


def to_json(book: Playbook) -> str:
    """Return the book as JSON. Equal books give equal text."""
    rows = ",\n".join([bullet._json or _line(bullet) for bullet in book.bullets])
    facts = {"format": _FORMAT, "version": _VERSION, "counter": book.counter, "high_water": book.high_water}
    head = _compact(facts).removesuffix("}") + ',"bullets":['
    return f"{head}\n{rows}\n]}}\n" if rows else f"{head}]}}\n"


def digest(book: Playbook, text: str | None = None) -> str:
    """Return the address of the book's content: SHA-256 of its JSON in UTF-8, as 64 hex digits.

    `text` is that JSON, where it is at hand.
    """
    if book.kept.digest is None:
        book.kept.digest = hashlib.sha256((to_json(book) if text is None else text).encode()).hexdigest()
    return book.kept.digest


def from_json(text: str, *, path: Path | str | None = None) -> Playbook:
    """Read what `to_json` wrote. Errors name `path`, if given.

    Raises:
        DataError: not JSON (line and column named), not a playbook, or a field that is missing, unknown or of the
            wrong type.
    """
    try:
        raw = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg}", path=path, line=error.lineno, column=error.colno) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; a thousand nested brackets
        raise DataError(f"JSON that cannot be read: {error}", path=path) from error
    try:
        return _book(raw)
    except DataError as error:
        raise DataError(error.message, path=path, hint=error.hint) from error


def _book(raw: Any) -> Playbook:
    if not isinstance(raw, dict) or raw.get("format") != _FORMAT:
        raise DataError(
            "not a playbook", hint=f'A playbook is an object with "format": "{_FORMAT}", as `to_json` writes it.'
        )
    if raw.get("version") != _VERSION:
        raise DataError(
            f"a playbook of version {raw.get('version')!r}; this program reads {_VERSION}", hint="Upgrade combee-learn."
        )
    rows = raw.get("bullets")
    if not isinstance(rows, list) or not isinstance(raw.get("counter"), str):
        raise DataError("a playbook needs a list `bullets` and a text `counter`")
    bullets = tuple(_bullet(row, index) for index, row in enumerate(rows))
    if len({bullet.id for bullet in bullets}) < len(bullets):
        raise DataError("two bullets have the same id")
    return Playbook(bullets, _count(raw.get("high_water"), "high_water", "the playbook"), raw["counter"])


def _count(value: Any, name: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DataError(f"{where}: {name} must be a whole number of at least 0, not {value!r}")
    return value


def _bullet(row: Any, index: int) -> Bullet:
    where = f"bullet {index}"
    if not isinstance(row, dict):
        raise DataError(f"{where}: must be an object")
    if extra := sorted(set(row) - set(_FIELDS)):
        raise DataError(f"{where}: unknown field {extra[0]!r}")
    for name in ("id", "section", "text"):
        if not isinstance(row.get(name), str) or (name == "id" and not row[name]):
            raise DataError(f"{where}: {name} must be a text")
    sources = row.get("sources", [])
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        raise DataError(f"{where}: sources must be a list of texts")
    last_used = row.get("last_used")
    return Bullet(
        id=row["id"],
        section=row["section"],
        text=row["text"],
        helpful=_count(row.get("helpful", 0), "helpful", where),
        harmful=_count(row.get("harmful", 0), "harmful", where),
        sources=tuple(sources),
        created=_count(row.get("created", 0), "created", where),
        last_used=None if last_used is None else _count(last_used, "last_used", where),
    )


_TEXT = frozenset({".md", ".txt"})


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() not in _TEXT | {".json"}:
        raise UsageError(
            f"{path}: a playbook file ends in .json, .md or .txt",
            hint="JSON keeps everything; text keeps no sources and steps.",
        )


def save(book: Playbook, path: Path | str) -> None:
    """Write a book, by suffix as JSON (lossless) or ACE text. When anything fails the old file is unharmed.

    Raises:
        UsageError: the suffix is unknown, or the folder does not exist.
        StorageError: the disk is full, or the file cannot be written.
    """
    path = Path(path)
    _check_suffix(path)
    content = to_json(book) if path.suffix.lower() == ".json" else to_text(book)
    write_whole(path, content)


def check_place(path: Path | str) -> None:
    """Check that a book can be saved there, before anything is paid for it. Raises as `save`."""
    _check_suffix(Path(path))
    place_for(Path(path))


def read(path: Path | str) -> Parsed:
    """Read a book from a file and say what was odd in it (only text forms can be odd; JSON is right or an error).

    Raises:
        DataError: the file is missing, a folder, not UTF-8, or not a playbook.
        StorageError: the file is there and cannot be read.
    """
    path = Path(path)
    _check_suffix(path)
    content = read_regular(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        raise DataError(
            "not UTF-8",
            path=path,
            line=before.count(b"\n") + 1,
            column=error.start - before.rfind(b"\n"),
            hint="Save the file as UTF-8.",
        ) from error
    if path.suffix.lower() in _TEXT:
        return from_text(text)
    return Parsed(from_json(text, path=path))


def load(path: Path | str) -> Playbook:
    """Read a book from a file; what was odd in it is logged. Raises as `read`."""
    parsed = read(path)
    for problem in parsed.problems:
        _LOG.warning("%s:%d: %s", path, problem.index, problem.reason)
    return parsed.playbook
