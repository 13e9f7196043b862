"""Rows become items, and items tasks of the shape they have: FiNER, Formula or plain rows.

The shape decides what the agent sees, how answers are scored, and what counts as the same question.

FiNER rows (ACE, arXiv 2510.04618, section 4): a list of tags, then numbered questions, each for one number. `What is
best tag for entity "E" in sentence: "S?"` is the shape; the embedded set `tags` has it too, so that one parser reads
both.

Formula rows: a named financial formula, its definition, and a question whose answer is one number. As in ACE (arXiv
2510.04618, section 4) the definition is dropped from what the agent sees: it must know the formula.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from combee.errors import DataError, UsageError, did_you_mean
from combee.kernel.learn.roles import Task
from combee.tasks.model import Fields
from combee.tasks.rows import Cell, NumberText, Row, Table, clean

QUESTIONS = ("question", "context", "input", "prompt", "query")


ANSWERS = ("target", "answer", "output", "label", "expected")


SECOND: Mapping[Sequence[str], Sequence[str]] = {
    QUESTIONS: ("text", "instruction", "problem", "sentence"),
    ANSWERS: ("completion", "response", "ideal", "expected_output", "expected_answer", "ground_truth", "reference"),
}
"""Looked for where none of the first is there."""


IDS = ("id", "task_id", "question_id", "qid", "uid")


ALIASES: Mapping[Sequence[str], Sequence[str]] = {
    QUESTIONS: ("问题", "題目", "题目", "問題", "提问", "质问", "質問", "問い", "질문", "문제"),
    ANSWERS: ("答案", "标签", "標籤", "回答", "答え", "正解", "ラベル", "답변", "정답", "라벨"),
    IDS: ("编号", "編號", "序号", "序號", "番号", "번호"),
}
"""The same words in Chinese, Japanese and Korean."""


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
        UsageError: a named column is not there or is the answer too, none has a usual name, or several have.
    """
    found = Fields(
        question=_column(table, fields.question, QUESTIONS, "--question", taken=fields.answer),
        answer=_column(table, fields.answer, ANSWERS, "--answer", taken=fields.question),
        id=_id_column(table, fields.id),
    )
    if found.answer in {found.question, found.id}:  # an agent would be shown what it is to find
        other = "question" if found.answer == found.question else "id"
        hint = f"Name another column for one of them; there are: {', '.join(table.columns)}"
        raise UsageError(f"{table.path}: {found.answer!r} is named as both {other} and answer", hint=hint)
    return found


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
    names = {*usual, *ALIASES.get(tuple(usual), ())}
    offered = [name for name in table.columns if name != taken]
    fitting = [name for name in offered if name.strip().lower() in names]
    fitting = fitting or [name for name in offered if name.strip().lower() in SECOND.get(tuple(usual), ())]
    if len(fitting) == 1:
        return fitting[0]
    what = option.removeprefix("--")
    if fitting:
        raise UsageError(
            f"{table.path}: {' and '.join(fitting)} could each be the {what}; columns: {listed}",
            hint=f"Say which: {option} {fitting[0]}.",
        )
    hint = f"Say which column holds the {what}: {option} NAME."
    if "messages" in table.columns:
        hint = "Recorded conversations are read with `combee learn --from FILE`. As tasks: a column for each."
    raise UsageError(
        f"{table.path}: no column is called {', '.join(usual[:-1])} or {usual[-1]}; columns: {listed}", hint=hint
    )


def _id_column(table: Table, named: str | None) -> str | None:
    if named is not None:
        return _column(table, named, IDS, "--id")
    everywhere = [name for name in table.columns if name.strip().lower() in {*IDS, *ALIASES[IDS]}]
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


_START = re.compile(r'^[ \t]*(?:\d+[.)][ \t]*)?What is (?:the )?best tag for entity "', re.MULTILINE)
_MIDDLE = '" in sentence: "'
_OPTIONS = re.compile(r"tags? options:([^.]*)")  # a sentence ends the list: no tag holds a full stop


@dataclass(frozen=True, slots=True)
class Question:
    """One tagging question: which tag fits `entity` as it stands in `sentence`?"""

    entity: str
    sentence: str


def finer_questions(context: str) -> tuple[Question, ...]:
    """Return the questions of a row in their order; empty where the text has another shape."""
    starts = [(match.start(), match.end()) for match in _START.finditer(context)]
    questions: list[Question] = []
    for place, (_, begin) in enumerate(starts):
        end = starts[place + 1][0] if place + 1 < len(starts) else len(context)
        entity, middle, rest = context[begin:end].partition(_MIDDLE)
        close = rest.rfind('"')  # the sentence may hold quotes of its own: the last one closes it
        if not middle or close < 0:
            return ()
        questions.append(Question(entity.strip(), rest[:close].removesuffix("?").strip()))
    return tuple(questions)


def finer_options(context: str) -> tuple[str, ...]:
    """Return the tags that a row offers, in its order, each once; empty where it offers none."""
    match = _OPTIONS.search(context)
    if match is None:
        return ()
    return tuple(dict.fromkeys(name for part in match[1].split(",") if (name := part.strip())))


def finer_context(questions: Sequence[Question], options: Sequence[str] = ()) -> str:
    """Write questions in the shape that `finer_questions` reads, after the list of tags where one is given."""
    lines = [
        f'{number}. What is best tag for entity "{question.entity}" in sentence: "{question.sentence}?"'
        for number, question in enumerate(questions, 1)
    ]
    if options:
        count = len(questions)
        one = "question with one tag and nothing else"
        many = f"{count} questions with {count} tags in their order, separated by commas, and nothing else"
        ask = f"Answer the following {one if count == 1 else many}."
        lines.insert(0, f"US GAAP tags options: {', '.join(options)}. {ask}")
    return "\n".join(lines)


_ROW = re.compile(
    r"Use formula (?P<name>.+?) to answer the question\.(?P<rule>.*?)"
    r"\s*Formula:\s*(?P<definition>.*?),\s*Explanation:\s*(?P<explanation>.*?)"
    r"\s*Question:\s*(?P<question>.*?)\s*\.?\s*Answer:\s*$",
    re.DOTALL,
)
_QUOTES = '"\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}'
_ASK = "Answer with one plain number, rounded to 2 decimal places, and nothing else (5 million is 5000000.0)."


@dataclass(frozen=True, slots=True)
class Formula:
    """The parts of one row."""

    name: str
    definition: str
    explanation: str
    question: str

    def ask(self, *, definition: bool = False) -> str:
        """Return what the agent is asked; with `definition` the formula stands before it."""
        shown = f"Formula: {self.definition}, Explanation: {self.explanation}\n" if definition else ""
        return f"{shown}{self.question}\n{_ASK}"


def formula_row(context: str) -> Formula | None:
    """Take a row apart, or return None where it has another shape."""
    match = _ROW.search(context)
    if match is None:
        return None
    question = match["question"].strip().rstrip(".").strip().strip(_QUOTES).strip()
    return Formula(
        match["name"].strip(), match["definition"].strip(), match["explanation"].strip().rstrip("."), question
    )
