"""One SQLite file a run: results by address, decisions, versions, labels, events, the call ledger; a lock; replay."""

from __future__ import annotations

from combee.journal.scope import Address, MemoryScope, Place, Scope
from combee.journal.values import JSON, JSONLike, canonical_json, clean_text, hash_json

__all__ = ["JSON", "Address", "JSONLike", "MemoryScope", "Place", "Scope", "canonical_json", "clean_text", "hash_json"]
