"""Versions of the playbook and the labels on them: content-addressed, each with its parent and its delta.

A book is stored once however often it is reached. Labels move; every move stays in the history, for rollback.
"""

from __future__ import annotations

import hashlib
import re
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from combee.errors import StorageError, UsageError, did_you_mean
from combee.kernel.journal.patch import make_patch, use_patch
from combee.kernel.journal.storage import Reader, damaged
from combee.kernel.journal.values import JSON, JSONLike, canonical_json, clean_text, hash_json, parse_json
from combee.kernel.journal.writer import Insert, Writer

__all__ = ["LabelMove", "Version", "Versions"]

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


@dataclass(slots=True)
class Versions:
    """The versions in one journal file. `writer` is None when it is open for reading only."""

    reader: Reader
    writer: Writer | None
    path: Path
    _last: dict[str, str] = field(default_factory=dict)

    def add(self, text: str, version: Version) -> str:
        """Store a book and how it came about; both are on disk on return. The same step added again changes nothing."""
        if not _DIGEST.fullmatch(version.digest):
            raise UsageError(
                f"{version.digest!r} is not a digest", hint="Give the digest of the playbook, in hexadecimal."
            )
        if version.parent is not None and not self._has(version.parent):
            raise UsageError(f"the parent version {version.parent[:12]} is not known", hint="Add it first.")
        writer = self._writing()
        text = clean_text(text)
        if not self._has(version.digest):
            writer.put(_BOOK, (version.digest, *self._stored(text, version.parent)))
        delta, data = canonical_json(version.delta), canonical_json(version.data)
        where: list[JSONLike] = [version.digest, version.parent, version.epoch, version.step, delta]
        key = bytes.fromhex(hash_json(where))
        row = (key, version.digest, version.parent, version.epoch, version.step, delta, data, time.time())
        writer.put(_VERSION, row)
        writer.flush()
        self._last = {version.digest: text}
        return version.digest

    def _stored(self, text: str, parent: str | None) -> tuple[str | None, int, bytes, str]:
        sha256 = hashlib.sha256(text.encode("utf-8")).hexdigest()
        if parent is not None:
            depth = int((self.reader.one("SELECT depth FROM books WHERE digest = ?", parent) or (0,))[0]) + 1
            if depth <= _CHAIN:
                patch = zlib.compress(make_patch(self.text(parent), text).encode("utf-8"), 1)
                # Below a tenth of the text a patch is surely smaller than the text compressed.
                if len(patch) * 10 < len(text):
                    return parent, depth, patch, sha256
        return None, 0, zlib.compress(text.encode("utf-8"), 1), sha256

    def text(self, digest: str) -> str:
        """Return the text of a book exactly as it was added.

        Raises:
            UsageError: There is no such book.
            StorageError: The file is damaged.
        """
        if (kept := self._last.get(digest)) is not None:
            return kept
        row = self.reader.one("SELECT base, body, sha256 FROM books WHERE digest = ?", digest)
        if row is None:
            raise UsageError(f"there is no version {digest[:12]} in {self.path}", hint="`combee show` lists them.")
        base, body, sha256 = row
        try:
            stored = zlib.decompress(body).decode("utf-8")
            text = stored if base is None else use_patch(self.text(base), stored)
        except (zlib.error, UnicodeDecodeError, TypeError, RecursionError, StorageError) as error:
            raise damaged(self.path, f"version {digest[:12]} cannot be read") from error
        if hashlib.sha256(text.encode("utf-8")).hexdigest() != sha256:
            raise damaged(self.path, f"version {digest[:12]} is not what was written")
        return text

    def history(self) -> tuple[Version, ...]:
        """Return all versions, oldest first."""
        return tuple(map(_version, self.reader.rows(f"{_SELECT} ORDER BY id")))

    def get(self, digest: str) -> Version:
        """Return how a version first came about. Raises `UsageError` when there is none."""
        row = self.reader.one(f"{_SELECT} WHERE digest = ? ORDER BY id LIMIT 1", digest)
        if row is None:
            raise UsageError(f"there is no version {digest[:12]} in {self.path}", hint="`combee show` lists them.")
        return _version(row)

    def resolve(self, name: str) -> str:
        """Return the digest that a label, a digest, or the first 4 or more digits of one stands for."""
        labels = self.labels()
        if name in labels:
            return labels[name]
        if _PREFIX.fullmatch(name):
            rows = self.reader.rows("SELECT digest FROM books WHERE digest GLOB ? ORDER BY digest LIMIT 6", f"{name}*")
            if len(rows) == 1 or any(row[0] == name for row in rows):
                return name if len(rows) > 1 else str(rows[0][0])
            if rows:
                hint = f"Give more digits: {', '.join(row[0][: len(name) + 8] for row in rows[:5])}."
                raise UsageError(f"more than one version begins with {name!r}", hint=hint)
        hint = did_you_mean(name, labels) if labels else "No version has a label yet."
        raise UsageError(f"there is no label or version {name!r} in {self.path}", hint=hint)

    def label(self, name: str, digest: str, *, note: str = "", key: str | None = None) -> None:
        """Put a label on a version; on disk on return. A second move with the same `key` changes nothing (replay)."""
        if not _LABEL.fullmatch(name) or _PREFIX.fullmatch(name):
            hint = "Use letters, digits, `.`, `_` and `-`, beginning with a letter, and not only the letters a to f."
            raise UsageError(f"{name!r} cannot be a label", hint=hint)
        if not self._has(digest):
            raise UsageError(f"there is no version {digest[:12]} to label", hint="Add it first.")
        # With a key also where the label is there already: a replay must not take it back from where it went then.
        if key is not None or self.labels().get(name) != digest:
            self._move(LabelMove(name, digest, note=note), key)

    def rollback(self, name: str, *, note: str = "") -> str:
        """Put a label back to where it was before and return that digest. Raises `UsageError` when it was nowhere."""
        stack = _stack(self.moves(name))
        if len(stack) < 2:
            hint = did_you_mean(name, self.labels()) if not stack and self.labels() else "Nothing was changed."
            raise UsageError(f"label {name!r} has no earlier version to go back to", hint=hint)
        self._move(LabelMove(name, stack[-2], rollback=True, note=note), None)
        return stack[-2]

    def labels(self) -> dict[str, str]:
        """Return the digest that each label is on."""
        sql = "SELECT label, digest FROM moves WHERE id IN (SELECT max(id) FROM moves GROUP BY label) ORDER BY label"
        return {str(label): str(digest) for label, digest in self.reader.rows(sql)}

    def moves(self, name: str | None = None) -> tuple[LabelMove, ...]:
        """Return the history of one label, or of all, oldest first; what left a label where it was is no move."""
        sql = "SELECT label, digest, rollback, note, at FROM moves WHERE ?1 IS NULL OR label = ?1 ORDER BY id"
        found: list[LabelMove] = []
        at: dict[str, str] = {}
        for label, digest, rollback, note, moved in self.reader.rows(sql, name):
            if rollback or at.get(label) != digest:
                found.append(LabelMove(label, digest, bool(rollback), note, moved))
            at[label] = digest
        return tuple(found)

    def _move(self, move: LabelMove, key: str | None) -> None:
        writer = self._writing()
        writer.put(
            _MOVE,
            (key and clean_text(key), move.label, move.digest, int(move.rollback), clean_text(move.note), time.time()),
        )
        writer.flush()

    def _has(self, digest: str) -> bool:
        return self.reader.one("SELECT 1 FROM books WHERE digest = ?", digest) is not None

    def _writing(self) -> Writer:
        if self.writer is None:
            raise UsageError(f"{self.path} is open for reading only", hint="Open it without `read_only`.")
        return self.writer


_SELECT = "SELECT digest, parent, epoch, step, delta, data, at FROM versions"


def _version(row: tuple[str, str | None, int, int, str, str, float]) -> Version:
    digest, parent, epoch, step, delta, data, at = row
    return Version(digest, parent, epoch, step, parse_json(delta), parse_json(data), at)


def _stack(moves: tuple[LabelMove, ...]) -> list[str]:
    """Return where a label has been, without what was rolled back; the last one is where it is."""
    stack: list[str] = []
    for move in moves:
        if move.rollback:
            stack.pop()
        else:
            stack.append(move.digest)
    return stack
