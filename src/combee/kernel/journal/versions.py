"""Versions of the playbook and the labels on them: content-addressed, each with its parent and its delta.

A book is stored once however often it is reached: whole, or as a patch on an earlier one, since versions share almost
all their bullets. Labels move; every move stays in the history, for rollback.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from combee.errors import StorageError, UsageError, did_you_mean
from combee.kernel.journal.storage import Reader, damaged
from combee.kernel.journal.values import JSON, JSONLike, canonical_json, clean_text, hash_json, parse_json
from combee.kernel.journal.writer import Insert, Writer

_BOOK = Insert("books", ("digest", "base", "depth", "body", "sha256"), "IGNORE")
_VERSION = Insert("versions", ("key", "digest", "parent", "epoch", "step", "delta", "data", "at"), "IGNORE")
_MOVE = Insert("moves", ("key", "label", "digest", "rollback", "note", "at"), "IGNORE")

_CHAIN = 16  # patches in a row before a book is stored whole again, so that reading one stays quick
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_DIGEST = re.compile(r"[0-9a-f]{8,128}")
_PREFIX = re.compile(r"[0-9a-f]{4,}")


@dataclass(frozen=True, slots=True)
class Version:
    """One step of a playbook's history; `delta` led from `parent` to it; `time` is in Unix seconds."""

    digest: str
    parent: str | None = None
    epoch: int = 0
    step: int = 0
    delta: JSON = None
    data: JSON = None
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class LabelMove:
    """A label was put on a version; `rollback` when it went back to where it had been. `time` is Unix seconds."""

    label: str
    digest: str
    rollback: bool = False
    note: str = ""
    time: float = 0.0


class Versions:
    """The half of a journal that holds versions and labels. `writer` is None when it is open for reading only."""

    def __init__(self, path: Path, reader: Reader, writer: Writer | None) -> None:
        self._path = path
        self._reader = reader
        self._writer = writer
        self._last: dict[str, str] = {}
        self._last_lines: dict[str, list[str]] = {}

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return self._path

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading only."""
        return self._writer is None

    def add_version(
        self,
        text: str,
        digest: str,
        *,
        parent: str | None = None,
        delta: JSONLike = None,
        epoch: int = 0,
        step: int = 0,
        data: JSONLike = None,
    ) -> str:
        """Store a version of the playbook; on disk on return. Added again (replay), it changes nothing.

        Args:
            text: The whole playbook, lossless (`playbook.to_json`); stored as a patch where that is small.
            digest: Its content address (`playbook.digest`).
            parent: The digest of the version it was made from.
            delta: The operations that led from the parent to it.
            epoch: When it was made.
            step: When it was made.
            data: Anything else (scores, verdict).

        Returns:
            The digest.
        """
        if not _DIGEST.fullmatch(digest):
            raise UsageError(f"{digest!r} is not a digest", hint="Give the digest of the playbook, in hexadecimal.")
        if parent is not None and not self._has(parent):
            raise UsageError(f"the parent version {parent[:12]} is not known", hint="Add it first.")
        writer = self._writing()
        text = clean_text(text)
        if not self._has(digest):
            writer.put(_BOOK, (digest, *self._stored(text, digest, parent)))
        how = canonical_json(delta)
        key = bytes.fromhex(hash_json([digest, parent, epoch, step, how]))
        writer.put(_VERSION, (key, digest, parent, epoch, step, how, canonical_json(data), time.time()))
        writer.flush()
        self._last = {digest: text}
        return digest

    def _stored(self, text: str, digest: str, parent: str | None) -> tuple[str | None, int, bytes, str]:
        sha256 = hashlib.sha256(text.encode("utf-8")).hexdigest()
        if parent is not None:
            depth = int((self._reader.one("SELECT depth FROM books WHERE digest = ?", parent) or (0,))[0]) + 1
            if depth <= _CHAIN:
                patch = zlib.compress(self._patch_to(text, digest, parent).encode("utf-8"), 1)
                # Below a tenth of the text a patch is surely smaller than the text compressed.
                if len(patch) * 10 < len(text):
                    return parent, depth, patch, sha256
        return None, 0, zlib.compress(text.encode("utf-8"), 1), sha256

    def _patch_to(self, text: str, digest: str, parent: str) -> str:
        """Return the patch from the parent's text; the lines of this one are kept for the next."""
        old, new = self._last_lines.get(parent) or self.text(parent).split("\n"), text.split("\n")
        self._last_lines = {digest: new}
        return make_patch(old, new)

    def text(self, digest: str) -> str:
        """Return the text of a book exactly as it was added.

        Raises:
            UsageError: There is no such book.
            StorageError: The file is damaged.
        """
        if (kept := self._last.get(digest)) is not None:
            return kept
        row = self._reader.one("SELECT base, body, sha256 FROM books WHERE digest = ?", digest)
        if row is None:
            raise UsageError(f"there is no version {digest[:12]} in {self._path}", hint="`combee versions` lists them.")
        base, body, sha256 = row
        try:
            stored = zlib.decompress(body).decode("utf-8")
            text = stored if base is None else use_patch(self.text(base), stored)
        except (zlib.error, UnicodeDecodeError, TypeError, RecursionError, StorageError) as error:
            raise damaged(self._path, f"version {digest[:12]} cannot be read") from error
        if hashlib.sha256(text.encode("utf-8")).hexdigest() != sha256:
            raise damaged(self._path, f"version {digest[:12]} is not what was written")
        return text

    def versions(self) -> tuple[Version, ...]:
        """Return the history, oldest first."""
        return tuple(map(_version, self._reader.rows(f"{_SELECT} ORDER BY id")))

    def first(self) -> str | None:
        """Return the digest of the version that the history begins with, or None before there is one."""
        row = self._reader.one("SELECT digest FROM versions ORDER BY id LIMIT 1")
        return None if row is None else str(row[0])

    def version(self, digest: str) -> Version:
        """Return how a version first came about. Raises `UsageError` when there is none."""
        row = self._reader.one(f"{_SELECT} WHERE digest = ? ORDER BY id LIMIT 1", digest)
        if row is None:
            raise UsageError(f"there is no version {digest[:12]} in {self._path}", hint="`combee versions` lists them.")
        return _version(row)

    def resolve(self, name: str) -> str:
        """Return the digest that a label, a digest, or the first 4 or more digits of one stands for."""
        labels = self.labels()
        if name in labels:
            return labels[name]
        if _PREFIX.fullmatch(name):
            rows = self._reader.rows("SELECT digest FROM books WHERE digest GLOB ? ORDER BY digest LIMIT 6", f"{name}*")
            if len(rows) == 1 or any(row[0] == name for row in rows):
                return name if len(rows) > 1 else str(rows[0][0])
            if rows:
                hint = f"Give more digits: {', '.join(row[0][: len(name) + 8] for row in rows[:5])}."
                raise UsageError(f"more than one version begins with {name!r}", hint=hint)
        hint = did_you_mean(name, labels) if labels else "No version has a label yet."
        raise UsageError(f"there is no label or version {name!r} in {self._path}", hint=hint)

    def label(self, name: str, digest: str, *, note: str = "", key: str | None = None) -> None:
        """Put a label (`stable`, `canary`, `best`, `last`) on a version; on disk on return.

        A second move with the same `key` changes nothing (replay).
        """
        if not _LABEL.fullmatch(name) or _PREFIX.fullmatch(name):
            hint = "Use letters, digits, `.`, `_` and `-`, beginning with a letter, and not only the letters a to f."
            raise UsageError(f"{name!r} cannot be a label", hint=hint)
        if not self._has(digest):
            raise UsageError(f"there is no version {digest[:12]} to label", hint="Add it first.")
        # With a key also where the label is there already: a replay must not take it back from where it went then.
        if key is not None or self.labels().get(name) != digest:
            self._move(name, digest, rollback=False, note=note, key=key)

    def rollback(self, name: str, *, note: str = "") -> str:
        """Put a label back to where it was before and return that digest. Raises `UsageError` when it was nowhere."""
        stack: list[str] = []  # where the label has been, without what was rolled back; the last one is where it is
        for move in self.label_moves(name):
            if move.rollback:
                stack.pop()
            else:
                stack.append(move.digest)
        if len(stack) < 2:
            hint = did_you_mean(name, self.labels()) if not stack and self.labels() else "Nothing was changed."
            raise UsageError(f"label {name!r} has no earlier version to go back to", hint=hint)
        self._move(name, stack[-2], rollback=True, note=note, key=None)
        return stack[-2]

    def labels(self) -> dict[str, str]:
        """Return the digest that each label is on."""
        sql = "SELECT label, digest FROM moves WHERE id IN (SELECT max(id) FROM moves GROUP BY label) ORDER BY label"
        return {str(label): str(digest) for label, digest in self._reader.rows(sql)}

    def label_moves(self, name: str | None = None) -> tuple[LabelMove, ...]:
        """Return the history of one label, or of all, oldest first; what left a label where it was is no move."""
        sql = "SELECT label, digest, rollback, note, at FROM moves WHERE ?1 IS NULL OR label = ?1 ORDER BY id"
        moves: list[LabelMove] = []
        at: dict[str, str] = {}
        for label, digest, rollback, note, moved in self._reader.rows(sql, name):
            if rollback or at.get(label) != digest:
                moves.append(LabelMove(label, digest, bool(rollback), note, moved))
            at[label] = digest
        return tuple(moves)

    def _move(self, name: str, digest: str, *, rollback: bool, note: str, key: str | None) -> None:
        writer = self._writing()
        writer.put(_MOVE, (key and clean_text(key), name, digest, int(rollback), clean_text(note), time.time()))
        writer.flush()

    def _has(self, digest: str) -> bool:
        return self._reader.one("SELECT 1 FROM books WHERE digest = ?", digest) is not None

    def _writing(self) -> Writer:
        if self._writer is None:
            raise UsageError(f"{self._path} is open for reading only", hint="Open it without `read_only`.")
        return self._writer


_SELECT = "SELECT digest, parent, epoch, step, delta, data, at FROM versions"


def _version(row: tuple[str, str | None, int, int, str, str, float]) -> Version:
    digest, parent, epoch, step, delta, data, at = row
    return Version(digest, parent, epoch, step, parse_json(delta), parse_json(data), at)


_STRIDE = 64  # lines that are compared at once


def make_patch(old: list[str], new: list[str]) -> str:
    """Return what `use_patch` needs to make the lines of a text from those of its base. Linear in both lengths.

    A patch is a JSON object; its `lines` are `[start, count]` (lines copied from the base) and strings (new lines).
    """
    first: dict[str, int] | None = None
    patch: list[list[int] | str] = []
    fresh: list[str] = []
    place = at = 0
    while at < len(new):
        if same := _same(old, place, new, at):
            patch += ["\n".join(fresh)] if fresh else []
            patch.append([place, same])
            fresh, place, at = [], place + same, at + same
            continue
        after, line = new[at + 1 : at + 2], new[at]
        if after and old[place + 1 : place + 2] == after:  # one line has another text
            place += 1
        elif not after or old[place : place + 1] != after:  # not one line more, either: it may stand elsewhere
            if first is None:
                first = dict(zip(reversed(old), range(len(old) - 1, -1, -1), strict=True))
            if (found := first.get(line)) is not None:
                place = found
                continue
        fresh.append(line)
        at += 1
    patch += ["\n".join(fresh)] if fresh else []
    return json.dumps({"lines": patch}, ensure_ascii=False, separators=(",", ":"))


def _same(old: list[str], start: int, new: list[str], at: int) -> int:
    """Return how many lines are the same from two places on."""
    count = 0
    while (block := old[start + count : start + count + _STRIDE]) == (
        others := new[at + count : at + count + _STRIDE]
    ) and block:
        count += len(block)
    pairs = enumerate(zip(block, others, strict=False))
    return count + next((n for n, (one, other) in pairs if one != other), min(len(block), len(others)))


def use_patch(base: str, patch: str) -> str:
    """Return the text that `make_patch` was given.

    Raises:
        StorageError: The patch is not one.
    """
    try:
        read = json.loads(patch)
        if isinstance(read, dict):
            lines = base.split("\n")
            parts = [step if isinstance(step, str) else "\n".join(_run(lines, *step)) for step in read["lines"]]
            return "\n".join(parts)
        pieces = _pieces(base)  # of a file of an earlier version
        return "".join([step if isinstance(step, str) else "".join(_run(pieces, *step)) for step in read])
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(
            "a stored playbook version cannot be read", hint="Run `combee doctor` on its folder."
        ) from error


def _run(parts: list[str], start: int, count: int) -> list[str]:
    return parts[start : start + count]


def _pieces(text: str) -> list[str]:
    """Cut after lines and after objects in a list."""
    objects = _cut(text, "},")
    return [line for piece in objects for line in _cut(piece, "\n")] if "\n" in text else objects


def _cut(text: str, end: str) -> list[str]:
    pieces = text.split(end)
    return [*(piece + end for piece in pieces[:-1]), pieces[-1]]
