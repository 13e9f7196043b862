"""Each answer of a run or an evaluation as a row, and the 95 % interval of the share that is right.

One reader for the command line, Python and the report: from an evaluation that was just made, or from a run's journal.

The interval is Wilson's, also where all or none are right. Parts of one task are not independent: their number is made
smaller by how much tasks differ more than chance would have them (the design effect), down to the number of tasks.
Brown, Cai and DasGupta 2001; Korn and Graubard 1998.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from combee.errors import CombeeError
from combee.kernel.journal import JSON, Journal
from combee.kernel.journal.scope import Address
from combee.kernel.learn import Evaluation, Rollout, Score, Scorer, Task
from combee.kernel.learn.sampling import in_view
from combee.kernel.playbook import Playbook, from_json
from combee.run.spec import kept_spec, load_tasks
from combee.run.words import counted
from combee.tasks import TaskSet

_LONGEST = 140


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """One answer.

    Attributes:
        task: Its id.
        question: What was asked.
        expected: What is right; None where nobody knows.
        answer: What the agent said; None where it failed for an outside reason.
        hits: How many of the `total` parts are right.
        total: Parts (one, where a scorer does not count several); 0 where nothing could be scored.
        view: Ids of the bullets that the agent saw; None: the whole playbook.
        used: Ids of those that it says it used.
        error: Why it has no answer.
        detail: A remark of the scorer.
        step: The step of the run that it was answered in; None in an evaluation.

    Example:
        >>> import combee
        >>> result = combee.learn([(f"Is {n} odd?", str(n % 2)) for n in range(40)])
        >>> row = result.rows[0]
        >>> row.expected in {"0", "1"}, row.passed == (row.answer == row.expected)
        (True, True)
    """

    task: str
    question: str
    expected: str | None
    answer: str | None
    hits: int
    total: int
    view: tuple[str, ...] | None = None
    used: tuple[str, ...] = ()
    error: str | None = None
    detail: str = ""
    step: int | None = None

    @property
    def passed(self) -> bool:
        """Whether all parts are right."""
        return self.total > 0 and self.hits == self.total


@dataclass(frozen=True, slots=True)
class RunRows:
    """The rows of a run: `validation` with its best version, `training` before each was learned from.

    `missing` says why there are none, where the tasks of the run cannot be read any more.
    """

    validation: tuple[ScoredRow, ...] = ()
    training: tuple[ScoredRow, ...] = ()
    missing: str | None = None


def _failures_first(rows: Iterable[ScoredRow]) -> tuple[ScoredRow, ...]:
    """Return rows without an answer first, then those with the fewest parts right; equals keep their order."""
    return tuple(sorted(rows, key=lambda row: (row.error is None, row.hits / row.total if row.total else 0.0)))


def rows_of(
    tasks: Iterable[Task], evaluation: Evaluation, book: Playbook, view_tokens: int | None = None
) -> tuple[ScoredRow, ...]:
    """Return the rows of an evaluation, failures first."""
    asked = [task for task in tasks if task.target is not None]
    rows = (
        dataclasses.replace(
            _row(
                task, evaluation.rollouts.get(task.id), evaluation.scores.get(task.id), _view(book, task, view_tokens)
            ),
            error=evaluation.errors.get(task.id),
        )
        for task in asked
    )
    return _failures_first(rows)


def _row(task: Task, rollout: Rollout | None, score: Score | None, seen: tuple[str, ...] | None) -> ScoredRow:
    return ScoredRow(
        task=task.id,
        question=task.question,
        expected=task.target,
        answer=None if rollout is None else rollout.answer,
        hits=0 if score is None else score.hits,
        total=0 if score is None else score.total,
        view=seen,
        used=() if rollout is None else rollout.used,
        detail="" if score is None else score.detail,
    )


def _view(book: Playbook, task: Task, view_tokens: int | None) -> tuple[str, ...] | None:
    shown = in_view(book, task.question, view_tokens)
    return None if shown is book else tuple(bullet.id for bullet in shown)


def row_lines(rows: Sequence[ScoredRow], most: int, *, more: str, find: str | None = None) -> list[str]:
    """Return up to `most` rows as lines for a person: those that are not right, or those that contain a text.

    Args:
        rows: Failures first.
        most: How many rows to show.
        more: Says how to see all of them.
        find: A text, in any letter case, to look for in ids, questions, answers and names of bullets.
    """
    if find is None:
        chosen = [row for row in rows if not row.passed]
    else:
        chosen = [row for row in rows if _holds(row, find.casefold())]
        if not chosen:
            return [f"no row holds {find!r}"]
    lines = [line for row in chosen[:most] for line in _lines_of(row)]
    if len(chosen) > most:
        kind = "" if find is not None else " not right"
        lines.append(f"... {counted(len(chosen) - most, 'more row')}{kind}: {more}")
    return lines


def _holds(row: ScoredRow, text: str) -> bool:
    parts = (row.task, row.question, row.answer or "", row.expected or "", " ".join(row.used))
    return any(text in part.casefold() for part in parts)


def _lines_of(row: ScoredRow) -> list[str]:
    mark = "failed" if row.error is not None else "right " if row.passed else "wrong "
    answer = row.error if row.error is not None else _cut(row.answer or "(nothing)")
    lines = [f"{mark} {row.task}: {_cut(row.question, from_end=True)}", f"       said {answer}"]
    if not row.passed and (row.answer is None or row.detail != row.answer):  # a verdict has no answer beside it
        lines[-1] += f" · right: {_cut(row.expected or '')}"
    if row.used:
        seen = "" if row.view is None else f" (of {len(row.view):,} in view)"
        lines.append(f"       used {', '.join(row.used[:5])}{' ...' if len(row.used) > 5 else ''}{seen}")
    return lines


def _cut(text: str, *, from_end: bool = False) -> str:
    """Return a text as one short line; `from_end` keeps the end, where a long question mostly says what it asks."""
    line = " ".join(text.split())
    if len(line) <= _LONGEST:
        return line
    return f"...{line[3 - _LONGEST :]}" if from_end else f"{line[: _LONGEST - 3]}..."


def rows_to_json(rows: Iterable[ScoredRow]) -> list[dict[str, JSON]]:
    """Return the rows as JSON; a `view` of null is the whole playbook."""
    return [cast("dict[str, JSON]", {**dataclasses.asdict(row), "right": row.passed}) for row in rows]


def rows_from_json(values: Sequence[Mapping[str, JSON]]) -> tuple[ScoredRow, ...]:
    """Read what `rows_to_json` wrote. Raises `KeyError` or `TypeError` for anything else."""
    known = {item.name for item in dataclasses.fields(ScoredRow)}

    def plain(value: JSON) -> object:
        return tuple(value) if isinstance(value, list) else value

    return tuple(ScoredRow(**{key: plain(row[key]) for key in row if key in known}) for row in values)  # type: ignore[arg-type]


def read_rows(folder: Path) -> RunRows:
    """Return the rows of the run in `folder`, as far as it went. Nothing is asked again.

    Answers are those of its journal, questions those of its file; they are scored as the run scored them.

    Raises:
        UsageError: There is no run.
        StorageError: The journal is damaged.
    """
    with Journal.open(folder, create=False, read_only=True) as journal:
        try:
            spec = kept_spec(journal, folder)
            if spec.tasks.traces is not None:
                return RunRows()
            tasks, view_tokens = load_tasks(spec), spec.learn_config().view_tokens
        except CombeeError as error:
            return RunRows(missing=error.message)
        if journal.meta("tasks") not in {None, tasks.digest()}:
            return RunRows(missing="The tasks have changed since this run began.")
        return RunRows(
            _failures_first(_validation(journal, tasks, view_tokens)),
            _failures_first(_training(journal, tasks, view_tokens)),
        )


def _validation(journal: Journal, tasks: TaskSet, view_tokens: int | None) -> Iterator[ScoredRow]:
    """Yield the rows of the validation that chose the best version; without one, of the last validation."""
    labels = journal.labels()
    events = [cast("dict[str, JSON]", event.data) for event in journal.events("Validated")]
    chosen = [event for event in events if event["version"] == labels.get("best")] or events
    if not chosen:
        return
    step, book = chosen[-1]["step"], from_json(journal.text(str(chosen[-1]["version"])))
    validated = (
        one for one in journal.results("eval") if one[0].place.step == step and "validate" in one[0].place.path
    )
    by_id, books = {task.id: task for task in tasks.val}, {cast("int", step): book}
    yield from _answered(validated, by_id, tasks.scorer, books, view_tokens)


def _training(journal: Journal, tasks: TaskSet, view_tokens: int | None) -> Iterator[ScoredRow]:
    """Yield the last answer to each training task."""
    books: dict[int, Playbook] = {}
    if view_tokens is not None:  # without a view each task saw the whole book of its step
        steps = [cast("dict[str, JSON]", event.data) for event in journal.events("StepFinished")]
        books = {cast("int", one["step"]) + 1: from_json(journal.text(str(one["version"]))) for one in steps}
    by_id = {task.id: task for task in tasks.train}
    yield from _answered(journal.results("rollout"), by_id, tasks.scorer, books, view_tokens)


def _answered(
    results: Iterable[tuple[Address, JSON]],
    tasks: Mapping[str, Task],
    scorer: Scorer,
    books: Mapping[int, Playbook],
    view_tokens: int | None,
) -> Iterator[ScoredRow]:
    last = {address.item: (address, value) for address, value in results if isinstance(value, dict)}
    for name, (address, value) in last.items():
        task = tasks.get(name)
        if task is None:
            continue
        used = tuple(str(one) for one in cast("list[JSON]", value.get("used") or []))
        rollout = Rollout(name, str(value.get("answer", "")), used)
        score = None if task.target is None else scorer(task, rollout.answer)
        row = _row(task, rollout, score, _view(books.get(address.place.step, Playbook()), task, view_tokens))
        yield dataclasses.replace(row, step=address.place.step)


_Z = 1.959964


def interval(rows: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the ends for tasks with (right parts, parts); all of 0 to 1 where there is none."""
    rows = [(hits, parts) for hits, parts in rows if parts]
    total = sum(parts for _, parts in rows)
    if not total:
        return 0.0, 1.0
    share = sum(hits for hits, _ in rows) / total
    size = _worth(rows, share, total)
    middle = share + _Z**2 / (2 * size)
    half = _Z * (share * (1 - share) / size + _Z**2 / (4 * size**2)) ** 0.5
    scale = 1 + _Z**2 / size
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def single(hits: int, parts: int) -> list[tuple[int, int]]:
    """Return rows of one part each, where only the sums are known: for tasks of several parts a little too sure."""
    return [(1, 1)] * hits + [(0, 1)] * (parts - hits)


def _worth(rows: Sequence[tuple[int, int]], share: float, total: int) -> float:
    """Return how many independent answers the parts are worth: from the number of tasks to that of parts."""
    tasks = len(rows)
    spread = sum((hits - share * parts) ** 2 for hits, parts in rows) * tasks / max(1, tasks - 1) / total**2
    if tasks == total or not spread:
        return tasks
    return min(float(total), max(float(tasks), share * (1 - share) / spread))


def share_text(rows: Sequence[tuple[int, int]]) -> str:
    """Return `7 of 8; 95 % interval 0.529 to 0.978`."""
    low, high = interval(rows)
    hits, parts = sum(row[0] for row in rows), sum(row[1] for row in rows)
    return f"{hits:,} of {parts:,}; 95 % interval {low:.3f} to {high:.3f}"
