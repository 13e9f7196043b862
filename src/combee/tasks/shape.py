"""Items of a file become tasks of the shape they have: FiNER, Formula or plain rows; each knows the questions it asks.

The shape decides what the agent sees, how answers are scored, and what counts as the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from combee.errors import DataError
from combee.kernel.learn.roles import Task
from combee.tasks.fields import Item
from combee.tasks.finer import finer_context, finer_options, finer_questions
from combee.tasks.formula import formula_row

__all__ = ["SCORERS", "Shaped", "rows_of", "shape_of", "shaped", "tags_offered", "unique"]

SCORERS: Mapping[str, str] = {"finer": "tags", "formula": "formula", "rows": "exact", "tags": "tags"}


@dataclass(frozen=True, slots=True)
class Shaped:
    """A task with what tells it from others.

    Two tasks with the same `question` are the same row; two with a common key (in FiNER: a sentence) must not be on two
    sides of a split, because the answer to one helps with the other.
    """

    task: Task
    question: str
    keys: tuple[str, ...]
    line: int
    options: tuple[str, ...] = ()


def shape_of(items: Sequence[Item]) -> str:
    """Return `finer` or `formula` when every row has that shape, else `rows`."""
    for kind, fits in (("finer", finer_questions), ("formula", formula_row)):
        if items and all(fits(item.question) for item in items):
            return kind
    return "rows"


def shaped(items: Sequence[Item], kind: str, path: Path, *, options: bool | None) -> list[Shaped]:
    """Return the items as tasks.

    Args:
        items: the rows of one file.
        kind: `finer`, `formula` or `rows`.
        path: of the file, for complaints.
        options: show the list of tags (FiNER) or the definition (Formula). None: the list but no definition, as ACE.

    Raises:
        DataError: a row has another shape, or not one tag a question (the line is named).
    """
    make = _SHAPES[kind]
    return [make(item, path, options) for item in items]


def _plain(item: Item, path: Path, options: bool | None) -> Shaped:
    question = " ".join(item.question.split())
    return Shaped(Task(item.id, item.question, item.target, item.labels), question, (question,), item.line)


def _finer(item: Item, path: Path, options: bool | None) -> Shaped:
    questions = finer_questions(item.question)
    tags = [tag.strip() for tag in item.target.strip().rstrip(",").split(",")]
    if not questions:
        raise DataError(
            "not a FiNER row",
            path=path,
            line=item.line,
            hint='It asks: 1. What is best tag for entity "E" in sentence: "S?"',
        )
    if len(tags) != len(questions):
        raise DataError(f"{len(questions)} questions and {len(tags)} tags", path=path, line=item.line)
    text = item.question
    if options is False:
        text = finer_context(questions)
    keys = tuple(dict.fromkeys(" ".join(question.sentence.split()) for question in questions))
    asked = "\n".join(f"{question.entity} | {' '.join(question.sentence.split())}" for question in questions)
    return Shaped(
        Task(item.id, text, ",".join(tags), item.labels), asked, keys, item.line, finer_options(item.question)
    )


def _formula(item: Item, path: Path, options: bool | None) -> Shaped:
    row = formula_row(item.question)
    if row is None:
        raise DataError("not a Formula row", path=path, line=item.line, hint="It begins: Use formula NAME to answer.")
    task = Task(item.id, row.ask(definition=bool(options)), item.target.strip(), {**item.labels, "formula": row.name})
    question = f"{row.name} | {' '.join(row.question.split())}"
    return Shaped(task, question, (question,), item.line)


_SHAPES: Mapping[str, Callable[[Item, Path, bool | None], Shaped]] = {
    "finer": _finer,
    "formula": _formula,
    "rows": _plain,
}


def tags_offered(tasks: Sequence[Shaped]) -> tuple[str, ...] | None:
    """Return all tags that the rows offer, sorted; None where they offer none."""
    lists = {shaped.options for shaped in tasks}
    return tuple(sorted({tag for options in lists for tag in options})) or None


def unique(tasks: Sequence[Shaped], where: str) -> tuple[list[Shaped], list[str]]:
    """Keep every question once, the first time it is asked; the notes count what was left out."""
    first: dict[str, Shaped] = {}
    same = 0
    other: list[Shaped] = []
    for one in tasks:
        kept = first.setdefault(one.question, one)
        if kept is one:
            continue
        if kept.task.target == one.task.target:
            same += 1
        else:
            other.append(one)
    notes: list[str] = []
    if same:
        notes.append(f"{where}: {same} duplicate {'row' if same == 1 else 'rows'} kept once")
    if other:
        kept = first[other[0].question]
        verb = "repeats" if len(other) == 1 else "repeat"
        notes.append(
            f"{where}: {rows_of(len(other))} {verb} a question with another answer; the first is kept "
            f"(for example {kept.line}, not {other[0].line})"
        )
    return list(first.values()), notes


def rows_of(count: int) -> str:
    """Return the count with its noun."""
    return f"{count} row{'' if count == 1 else 's'}"
