"""Which column is the question and which the answer: named by the caller, or found by its usual name.

A name is taken only when it is the single one of its kind: a file with both `answer` and `label` is asked about, not
guessed at. Then rows become items.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from combee.errors import DataError, UsageError, did_you_mean
from combee.tasks.model import Fields
from combee.tasks.rows import Cell, NumberText, Row, Table
from combee.tasks.text import clean

__all__ = ["ANSWERS", "IDS", "QUESTIONS", "Item", "find_fields", "items_of"]

QUESTIONS = ("question", "context", "input", "prompt", "query")
ANSWERS = ("target", "answer", "output", "label", "expected")
IDS = ("id", "task_id", "question_id", "qid", "uid")
LABELS = ("tenant", "clearance")


@dataclass(frozen=True, slots=True)
class Item:
    """One row that can become a task; `line` is where it stood."""

    id: str
    question: str
    target: str
    line: int
    labels: Mapping[str, str] = field(default_factory=dict)


def find_fields(table: Table, fields: Fields) -> Fields:
    """Return the names of the columns; the id may stay None.

    Raises:
        UsageError: a named column is not there, none has a usual name, or several have.
    """
    return Fields(
        question=_column(table, fields.question, QUESTIONS, "--question"),
        answer=_column(table, fields.answer, ANSWERS, "--answer", taken=fields.question),
        id=_id_column(table, fields.id),
    )


def items_of(table: Table, fields: Fields) -> tuple[Item, ...]:
    """Return the rows as items.

    Raises:
        DataError: a question or answer is missing, empty or no text, or an id stands twice (the line is named).
        UsageError: as `find_fields`.
    """
    columns = find_fields(table, fields)
    stem = re.sub(r"[^\w.-]+", "_", table.path.stem) or "row"
    items = [_item(table, row, columns, stem) for row in table.rows]
    if len({item.id for item in items}) < len(items):
        first: dict[str, int] = {}
        for item in items:
            if item.id in first:
                raise DataError(
                    f"id {item.id!r} stands at {table.unit} {first[item.id]} too",
                    path=table.path,
                    line=item.line,
                    hint="Ids must differ; without the column the place in the file is used.",
                )
            first[item.id] = item.line
    return tuple(items)


def _column(table: Table, named: str | None, usual: Sequence[str], option: str, taken: str | None = None) -> str:
    listed = ", ".join(table.columns) or "none"
    if named is not None:
        if named not in table.columns:
            raise UsageError(
                f"{table.path}: no column {named!r}; there are: {listed}", hint=did_you_mean(named, table.columns)
            )
        return named
    found = [name for name in table.columns if name.strip().lower() in usual and name != taken]
    if len(found) == 1:
        return found[0]
    what = option.removeprefix("--")
    if found:
        raise UsageError(
            f"{table.path}: {' and '.join(found)} could each be the {what}; columns: {listed}",
            hint=f"Say which: {option} {found[0]}.",
        )
    raise UsageError(
        f"{table.path}: no column is called {', '.join(usual[:-1])} or {usual[-1]}; columns: {listed}",
        hint=f"Say which column holds the {what}: {option} NAME.",
    )


def _id_column(table: Table, named: str | None) -> str | None:
    if named is not None:
        return _column(table, named, IDS, "--id")
    everywhere = [name for name in table.columns if name.strip().lower() in IDS]
    # A guess must hold for every row; a column that some rows lack, or that repeats, is no id.
    for name in everywhere:
        values = [_text(row.cells.get(name), numbers=True) for row in table.rows]
        if all(values) and len(set(values)) == len(values):
            return name
    return None


def _item(table: Table, row: Row, columns: Fields, stem: str) -> Item:
    question = _needed(table, row, columns.question or "", "question", numbers=False)
    target = _needed(table, row, columns.answer or "", "answer", numbers=True)
    # Labels decide which playbook a row may reach; a column that holds a question or an answer is no label.
    names = [name for name in LABELS if name not in {columns.question, columns.answer, columns.id}]
    labels = {name: text for name in names if (text := _text(row.cells.get(name), numbers=True))}
    if columns.id is None:
        return Item(f"{stem}-{row.line}", question, target, row.line, labels)
    return Item(_needed(table, row, columns.id, "id", numbers=True), question, target, row.line, labels)


def _needed(table: Table, row: Row, column: str, what: str, *, numbers: bool) -> str:
    value = row.cells.get(column)
    text = _text(value, numbers=numbers)
    if text:
        return text
    if value is None or isinstance(value, str):
        if isinstance(value, NumberText):
            problem = f"{column!r} is a number where text is needed"
        else:
            problem = f"no {what}: {column!r} is {'missing' if column not in row.cells else 'empty'}"
        hint = f"Fill it in or take the row out; another column: --{what} NAME."
    else:
        kind = {list: "a list", dict: "an object", bool: "true or false"}.get(type(value), type(value).__name__)
        problem = f"{column!r} is {kind} where text{' or a number' if numbers else ''} is needed"
        hint = "Write it as one text, for tags with commas between them."
    where = f"row {row.line}: " if table.unit == "row" else ""
    raise DataError(where + problem, path=table.path, line=row.line if table.unit == "line" else None, hint=hint)


def _text(value: Cell, *, numbers: bool) -> str:
    """Return the text of a cell; empty where it is none. True and false are answers, so they count with the numbers."""
    if isinstance(value, NumberText):
        return str.__str__(value) if numbers else ""
    if isinstance(value, str):
        return "" if not value or value.isspace() else clean(value)
    if isinstance(value, bool):
        return str(value).lower() if numbers else ""
    return ""
