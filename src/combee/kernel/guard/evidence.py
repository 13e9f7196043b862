"""What the guard looks at after a reduce, what it may find, and the limits it holds. Plain frozen data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from combee.kernel.playbook import Add, Delta, Merge, Playbook, Remove, Update, Vote

Lesson = Add | Update | Merge

Level = Literal["note", "alert", "retry", "reject"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One reduce: the reflections that went in and the delta that came out.

    `items` maps reflection ids to the text the curator read, `covered` are the ids whose content was verified to be in
    the delta (None where nobody checked), `max_items` the leaf size used, `attempt` counts retries of this step.
    `tokens` is the size of the book or text afterwards, `tokens_before` what it was, `window` the largest share
    of the model's window that a leaf used. `before` is the book that the delta is for, where there is one, and `votes`
    what the step's reflections say of its bullets.
    """

    step: int
    items: Mapping[str, str]
    delta: Delta
    covered: frozenset[str] | None = None
    max_items: int | None = None
    attempt: int = 0
    tokens: int | None = None
    tokens_before: int | None = None
    token_budget: int | None = None
    window: float | None = None
    before: Playbook | None = None
    votes: tuple[Vote, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardFinding:
    """One thing the guard saw. `value` and `expected` are the numbers behind the message, where there are any.

    Levels: `note` changes nothing; `alert` tells somebody; `retry` blames the aggregation, not the reflections;
    `reject` keeps the old book.
    """

    check: str
    level: Level
    message: str
    value: float | None = None
    expected: float | None = None


FindSecrets = Callable[[str], tuple[str, ...]]
"""Returns the kinds of secrets in a text, sorted."""


def no_secrets(text: str) -> tuple[str, ...]:
    """Find none: what a caller without a finder gets."""
    return ()


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """What is allowed. The defaults are far from what a sound step gives, so a clean run hardly ever trips them."""

    min_entries: int = 1
    """Fewest lessons of a step with three or more reflections (of a step with fewer than this many: one for each)."""
    min_rate: float = 0.1
    """Fewest lessons per reflection (naive aggregation of 125 gives 0.09)."""
    min_coverage: float = 0.5
    """Verified share of reflections; the test allows two standard deviations of chance below it."""
    min_specific: float = 0.2
    """Share of lessons that hold a distinctive term of a reflection they cite, while there is no history."""
    min_cited: float = 0.25
    """Share of reflections that some lesson cites, from eight reflections on."""
    min_left: float = 0.5
    """Share of its tokens that a book or text of some length must keep."""
    keep_voted: bool = True
    """Leave out operations on well-voted bullets that have no cause."""
    max_eroded: float = 0.2
    """Share of the helpful votes of a run's well-voted bullets that may be gone without cause before it is told."""
    max_pruned: float = 0.5
    """The same of other bullets, as a share of the most that the book had."""
    max_window: float = 0.9
    """Share of the model's window that an aggregating call may use: a full window is read carelessly, or cut."""
    usual_share: float = 0.5
    """A yield below this share of the usual one is a loss, if chance does not explain it."""
    retries: int = 2
    """How often one step's reflections are aggregated again in smaller groups."""
    max_missing: float = 0.1
    """Share of validation rows without a score above which no comparison is made."""
    allow_leaks: bool = False
    """Let lessons quote held-out targets. Secrets are never let through."""
    find_secrets: FindSecrets = no_secrets
    """Looks for secrets in a text; the kernel knows none itself: `combee.redaction.find_secrets` knows many."""


def lessons(delta: Delta) -> tuple[Lesson, ...]:
    """Return the operations that state something: all but removals."""
    return tuple(operation for operation in delta if not isinstance(operation, Remove))
