"""Playbooks on disk.

Always UTF-8, whatever the locale, and always whole: a file is replaced in one step or not at all.
"""

from __future__ import annotations

import logging
from pathlib import Path

from combee.errors import DataError, UsageError
from combee.files import place_for, read_regular, write_whole
from combee.kernel.playbook.jsonform import from_json, to_json
from combee.kernel.playbook.model import Playbook
from combee.kernel.playbook.problems import Parsed
from combee.kernel.playbook.readtext import from_text
from combee.kernel.playbook.textform import to_text

__all__ = ["check_place", "load", "read", "save"]

_LOG = logging.getLogger("combee.kernel.playbook")
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
