"""What a task set is: tasks in three splits, their scorer, and what has to be said beside every score.

`about` is the origin and its limits; `notes` say what reading the data did (rows kept once, rows moved, encodings).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from combee.kernel.learn.roles import Scorer, Task

Sizes = tuple[int | None, int | None, int | None]
"""Rows of (train, val, test); None leaves that split to the rule of its kind."""

Fractions = tuple[float, float, float]
"""Shares of (train, val, test); they are divided by their sum."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Which column holds what. None means: find it by its usual name."""

    question: str | None = None
    answer: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks to learn from, to choose settings on and to be judged by; no question is in two of the splits."""

    name: str
    kind: str
    """`tags`, `finer`, `formula` or `rows`: how questions are shaped."""
    train: tuple[Task, ...]
    val: tuple[Task, ...]
    test: tuple[Task, ...]
    scorer: Scorer
    choices: tuple[str, ...] | None = None
    """The labels an answer may be, where the set offers a closed list."""
    about: str = ""
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Task]:
        yield from self.train
        yield from self.val
        yield from self.test

    def __len__(self) -> int:
        return len(self.train) + len(self.val) + len(self.test)

    @property
    def labelled(self) -> bool:
        """Whether answers are labels, which come again, and not texts or numbers of their own."""
        known = [task.target for task in self if task.target is not None]
        return self.choices is not None or len(known) >= 2 * len(set(known))

    def digest(self) -> str:
        """Return the sha256 (hex) of all ids, questions and targets by split: equal data, equal digest."""
        digest = hashlib.sha256()
        for split, tasks in (("train", self.train), ("val", self.val), ("test", self.test)):
            for task in tasks:
                for part in (split, task.id, task.question, "" if task.target is None else "=" + task.target):
                    data = part.encode("utf-8", "replace")
                    digest.update(b"%d:" % len(data))
                    digest.update(data)
        return digest.hexdigest()
