"""The settings that a run keeps in its journal, for the commands that come back to it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from combee.cli.execute import SPEC_KEY
from combee.cli.spec import RunSpec
from combee.errors import StorageError, UsageError
from combee.kernel.journal import Journal

__all__ = ["kept_spec"]


def kept_spec(journal: Journal, folder: Path) -> RunSpec:
    """Return the settings of the run in `folder`.

    Raises:
        UsageError: It has none: it was stopped before it began, or a program made it without the command line.
        StorageError: They are not what a run writes.
    """
    kept = journal.meta(SPEC_KEY)
    if kept is None and journal.meta("swarm") is not None:
        raise UsageError(f"{folder} is what a swarm learned.", hint="Go on with: `combee swarm learn FILE`")
    if kept is None:
        raise UsageError(
            f"{folder} holds no settings: it was stopped before it began, or was not made by `combee learn`.",
            hint="`combee show` and `combee diff` work without; else start a new run.",
        )
    tables = {item.name for item in dataclasses.fields(RunSpec)} - {"start"}
    if not isinstance(kept, dict) or any(
        name not in tables | {"start"} or (name in tables and not isinstance(value, dict))
        for name, value in kept.items()
    ):
        raise StorageError(f"The settings that {folder} holds cannot be read.", hint="Put back a copy, or start anew.")
    return RunSpec.from_json(kept)
