"""The two roots of every error that Combee raises on purpose.

`UsageError` means the caller can mend it (exit code 2); `RunError` means the run failed (exit code 1).
A message says what is wrong and, in `hint`, what to do. Foreign errors become one of these at the edge where they
appear.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

__all__ = [
    "INTERRUPTED",
    "BudgetError",
    "CallError",
    "CallErrorKind",
    "CombeeError",
    "DataError",
    "LockedError",
    "NothingReadError",
    "RunError",
    "StorageError",
    "UsageError",
    "did_you_mean",
    "how_to_install",
]


INTERRUPTED = 130
"""The exit code of what the user stopped, as shells have it."""


class CombeeError(Exception):
    """Root of all; never raised itself. `hint` is the sentence that says what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(CombeeError):
    """The call, an option, the configuration or a file is wrong; nothing was changed."""

    exit_code: ClassVar[int] = 2


class DataError(UsageError):
    """A file that cannot be used; `line` and `column` count from 1."""

    def __init__(
        self,
        message: str,
        *,
        path: Path | str | None = None,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        where = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.path = path
        self.line = line
        self.column = column


class RunError(CombeeError):
    """The run could not go on; what was done so far is kept."""


class NothingReadError(RunError):
    """Not one group of an aggregation could be read; its items are unharmed and can be aggregated later."""


class LockedError(RunError):
    """Another process holds the run; the message names it."""


class StorageError(RunError):
    """Disk full, no permission, or a damaged file; the last good state still loads."""


class BudgetError(RunError):
    """A limit in money, tokens, calls or minutes is used up, or cannot be held (unknown price)."""


class CallErrorKind(StrEnum):
    """Why a call to a model or an agent gave nothing usable."""

    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    TRUNCATED_BODY = "truncated_body"
    NOT_JSON = "not_json"
    ERROR_IN_BODY = "error_in_body"
    EMPTY = "empty"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    CONTEXT_TOO_LONG = "context_too_long"
    AUTH = "auth"
    QUOTA = "quota"
    NO_SUCH_MODEL = "no_such_model"
    BAD_REQUEST = "bad_request"
    SCHEMA = "schema"
    AGENT = "agent"


class CallError(RunError):
    """One call failed for a reason outside the task: never a score of 0, never a lesson, never stored as a result.

    The client alone retries; whoever sees this error sees it after the last try.
    """

    def __init__(self, message: str, *, kind: CallErrorKind, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known word, or all of them when none is near."""
    options = sorted(known)
    near = difflib.get_close_matches(word, options, n=1, cutoff=0.6)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(options)}."


def how_to_install(extra: str) -> str:
    """Return a hint that says how an optional part of Combee is brought in: from a clone, as it is on no index yet."""
    return f"In a clone: .venv/bin/pip install -e '.[{extra}]'; elsewhere: pip install 'PATH/TO/combee[{extra}]'."
