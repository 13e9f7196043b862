"""Run an async function over many items, a bounded number at once; and async code from sync code."""

from __future__ import annotations

from combee.kernel.runner.base import Done, Runner
from combee.kernel.runner.local import LocalRunner
from combee.kernel.runner.sync import run_sync

__all__ = ["Done", "LocalRunner", "Runner", "run_sync"]
