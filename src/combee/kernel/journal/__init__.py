"""One SQLite file a run: results by address, decisions, versions, labels, events, the call ledger; a lock; replay."""

from __future__ import annotations

from combee.kernel.journal.journal import JOURNAL_NAME, Event, Journal
from combee.kernel.journal.purchases import Purchase, current_purchase
from combee.kernel.journal.scope import MemoryScope, Scope, Stats
from combee.kernel.journal.values import JSON, JSONLike, canonical_json, clean_text, hash_json
from combee.kernel.journal.versions import Version

__all__ = [
    "JOURNAL_NAME",
    "JSON",
    "Event",
    "JSONLike",
    "Journal",
    "MemoryScope",
    "Purchase",
    "Scope",
    "Stats",
    "Version",
    "canonical_json",
    "clean_text",
    "current_purchase",
    "hash_json",
]
