"""Exported files into a repository: what would change, as a diff, and the writing of it.

Nothing is written outside the repository, also not through links; each file is replaced in one step, and only if it is
still what the diff was made from.

A marked block in a file that belongs to somebody else: put in, replaced, never anything else touched. The rest of the
file keeps its bytes: line ends, a byte order mark, a missing last line end. The block takes the line ends of the file.
Marks count only where they are a line of their own.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from combee.errors import StorageError, UsageError
from combee.export.forms import BEGIN, END, File
from combee.files import read_regular, real_path, whole_file

__all__ = ["Change", "changes", "diff_of", "put_block", "write"]


@dataclass(frozen=True, slots=True)
class Change:
    """One file of the repository, before (None: it is new) and after; `path` is relative to the repository."""

    path: str
    target: Path
    old: bytes | None
    new: bytes


def changes(repo: Path, files: Iterable[File], *, into_block: bool = False) -> tuple[Change, ...]:
    """Return the files that would change.

    Args:
        repo: an existing folder.
        files: what is to stand in it.
        into_block: put each file's text as the marked block of the file that is there; its other bytes stay.

    Raises:
        UsageError: the repository is no folder, a path leads out of it, or a file there is in the way.
    """
    if not repo.is_dir():
        raise UsageError(f"{repo} is no folder.", hint="Name the repository to write into.")
    found = []
    for file in files:
        target = _inside(repo, file.path)
        old = _read(target)
        if into_block:
            new = put_block(old, file.text, file.path)
        else:
            new = file.text.encode()
            if old is not None and BEGIN.encode() not in old and old != new:
                raise UsageError(f"{file.path} is there and not ours.", hint="Move it, or choose another --name.")
        if new != old:
            found.append(Change(file.path, target, old, new))
    return tuple(found)


def _inside(repo: Path, path: str) -> Path:
    """Return the real place of a path, which must lie in the repository."""
    root = repo.resolve()
    pure = PurePosixPath(path)
    target = real_path(root.joinpath(*pure.parts))
    if pure.is_absolute() or ".." in pure.parts or root not in target.parents:
        raise UsageError(
            f"{path} leads out of {repo}.", hint="Name a place inside it; if it is one, a link there points elsewhere."
        )
    if ".git" in target.relative_to(root).parts:
        raise UsageError(f"{path} lies in the repository's .git.", hint="Choose another name.")
    return target


def _read(target: Path) -> bytes | None:
    return read_regular(target) if os.path.lexists(target) else None


def diff_of(found: Sequence[Change]) -> str:
    """Return a unified diff of the changes."""
    lines: list[str] = []
    for change in found:
        old = (change.old or b"").decode("utf-8", "replace").splitlines()
        new = change.new.decode("utf-8", "replace").splitlines()
        before = f"a/{change.path}" if change.old is not None else "/dev/null"
        lines += difflib.unified_diff(old, new, before, f"b/{change.path}", lineterm="")
    return "\n".join(lines)


def write(found: Sequence[Change], repo: Path) -> None:
    """Write the changes.

    Raises:
        UsageError: a file has changed since the diff was made, or leads out of the repository now.
        StorageError: a file cannot be written; those written before it stay.
    """
    for change in found:
        if _inside(repo, change.path) != change.target or _read(change.target) != change.old:
            raise UsageError(f"{change.path} has changed meanwhile.", hint="Look at the diff again.")
    for change in found:
        try:
            change.target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{change.path} cannot be written: {error.strerror or error}") from error
        with whole_file(change.target) as file:
            file.write(change.new)


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
