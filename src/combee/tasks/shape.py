"""Items of a file become tasks of the shape they have: FiNER, Formula or plain rows.

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
from dataclasses import dataclass
from pathlib import Path

from combee.errors import DataError
from combee.kernel.learn.roles import Task
from combee.tasks.files import Item

__all__ = [
    "SCORERS",
    "Formula",
    "Question",
    "Shaped",
    "finer_context",
    "finer_options",
    "finer_questions",
    "formula_row",
    "rows_of",
    "shape_of",
    "shaped",
    "tags_offered",
    "unique",
]

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
    found: list[Question] = []
    for place, (_, begin) in enumerate(starts):
        end = starts[place + 1][0] if place + 1 < len(starts) else len(context)
        entity, middle, rest = context[begin:end].partition(_MIDDLE)
        close = rest.rfind('"')  # the sentence may hold quotes of its own: the last one closes it
        if not middle or close < 0:
            return ()
        found.append(Question(entity.strip(), rest[:close].removesuffix("?").strip()))
    return tuple(found)


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
