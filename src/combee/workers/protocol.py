"""What travels between the driver and its workers: a recipe once, then chunks of samples one way and rows the other.

Everything is plain data. A key or a password never travels: a worker reads it from its own environment, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from combee.errors import BudgetError, CallError, CallErrorKind, CombeeError, RunError, UsageError
from combee.kernel.journal.scope import ScopePlace, StoredRow
from combee.kernel.learn import Scorer, Task


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a worker makes its agent from: the settings with its share of their limits, and functions of the program."""

    settings: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]]
    scorer: Scorer


@dataclass(frozen=True, slots=True)
class Job:
    """One sample to work on: where its results belong, and what is known of them already."""

    key: str
    """Unique in a run; a worker that has done the job, or is doing it, does not begin again."""
    place: ScopePlace
    sample: Task
    attempt: int
    known: tuple[StoredRow, ...] = ()
    role: str | None = None
    """None: answer, score and reflect; else only answer, in this role."""


@dataclass(frozen=True, slots=True)
class WorkerBudget:
    """What a worker may spend in all since it began; None stands for no limit. Minutes are those from now on."""

    cost: float | None = None
    calls: int | None = None
    tokens: int | None = None
    minutes: float | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Jobs on one playbook (as JSON). `forget`: keys of jobs whose results are in the journal."""

    book: str
    jobs: tuple[Job, ...]
    allowance: WorkerBudget
    forget: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, as plain data. `kind` is the name of its class, `call` the kind of a `CallError`."""

    kind: str
    message: str
    hint: str | None = None
    call: str | None = None

    @classmethod
    def of(cls, error: CombeeError) -> Failure:
        """Return an error as plain data."""
        for root in (CallError, BudgetError, UsageError):
            if isinstance(error, root):
                call = str(error.kind) if isinstance(error, CallError) else None
                return cls(root.__name__, error.message, error.hint, call)
        return cls(RunError.__name__, error.message, error.hint)

    @property
    def short(self) -> bool:
        """Whether the allowance was used up: the worker's share may have been too small, not the budget of the run."""
        return self.kind == BudgetError.__name__

    def error(self) -> CombeeError:
        """Return the error to raise; of any other kind than calls, budget and usage it is a `RunError`."""
        if self.kind == CallError.__name__:
            return CallError(self.message, kind=CallErrorKind(self.call or CallErrorKind.AGENT), hint=self.hint)
        roots: dict[str, type[CombeeError]] = {"BudgetError": BudgetError, "UsageError": UsageError}
        return roots.get(self.kind, RunError)(self.message, hint=self.hint)


@dataclass(frozen=True, slots=True)
class JobResult:
    """What one job came to: rows for the journal and for the ledger, also where it failed. `again`: done before."""

    key: str
    rows: tuple[StoredRow, ...]
    calls: tuple[Mapping[str, Any], ...] = ()
    failure: Failure | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class WorkerState:
    """Keys of jobs that a worker has done or is doing, and what it has spent (minutes are not counted)."""

    keys: tuple[str, ...] = ()
    spent: WorkerBudget = WorkerBudget(0.0, 0, 0)


class WorkerLostError(Exception):
    """A worker ended without an answer: its process or its machine is gone."""


class Worker(Protocol):
    """A worker, as the driver sees it."""

    async def work(self, chunk: Chunk) -> tuple[JobResult, ...]:
        """Return what came of a chunk; several may be under way at once. Raises `WorkerLostError`."""
        ...

    async def state(self) -> WorkerState:
        """Return what it has from before this driver began. Raises as `work`.

        Raises:
            UsageError: It cannot make its agent: a key is missing in its environment, say.
        """
        ...

    async def close(self) -> None:
        """End it."""
        ...
