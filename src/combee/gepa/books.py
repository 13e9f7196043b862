"""Playbooks by their text: the text alone does not say where a bullet comes from, so the newest are kept whole."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from combee.kernel.journal import JSON
from combee.kernel.playbook import Playbook, from_json, from_text, to_json

__all__ = ["Books", "text_digest"]

_MOST = 256


class Books:
    """The newest 256 playbooks."""

    def __init__(self, kept: Mapping[str, str] | None = None) -> None:
        self._kept = {name: from_json(book) for name, book in (kept or {}).items()}

    def keep(self, text: str, book: Playbook) -> None:
        """Keep a playbook under its text."""
        self._kept[text_digest(text)] = book
        while len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]

    def of(self, text: str) -> Playbook:
        """Return a text as a playbook: with its sources where it was kept, else what the text alone says."""
        known = self._kept.get(text_digest(text))
        return known if known is not None else from_text(text).playbook

    def as_json(self) -> dict[str, JSON]:
        """Return them as JSON, for `Books(...)`."""
        return {name: to_json(book) for name, book in self._kept.items()}


def text_digest(text: str) -> str:
    """Return what stands for a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
