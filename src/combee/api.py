"""What `import combee` offers: learn a playbook from Python, and score it, through what the command line runs on.

Settings have the names that they have in combee.toml. Nothing is printed; events go to `on_event`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast

from combee.errors import CombeeError, RunError
from combee.kernel.learn import Evaluation, Event, StepFinished
from combee.kernel.playbook import Playbook
from combee.kernel.runner import run_sync
from combee.run.baselines import baselines
from combee.run.calls import Model, ModelChoice, ScoreFunction, Scoring, Tasks, again, begin, to_score
from combee.run.execute import Finished
from combee.run.findings import spent
from combee.run.folders import open_book
from combee.run.functions import AgentFunction
from combee.run.rows import ScoredRow, interval, read_rows, rows_of
from combee.run.settings import Settings
from combee.run.unfinished import scores_kept

__all__ = [
    "AgentFunction",
    "Model",
    "Result",
    "ScoredRow",
    "Scores",
    "aevaluate",
    "alearn",
    "aresume",
    "evaluate",
    "learn",
    "load_playbook",
    "resume",
]


@dataclass(frozen=True, slots=True)
class Result:
    """What a run gave. The folder holds the rest: journal, versions, report; `combee show FOLDER` and others read it.

    Attributes:
        playbook: The best version by validation; without validation tasks the last one.
        last: The last version.
        score: Share of right answers of `playbook` on the validation tasks, 0 to 1; None without them.
        reason: "completed" or "budget".
        detail: How it ended, in a sentence.
        folder: Where the run lies; the same call with this `folder` goes on with it.
        steps: What each step did.
        unlearned: Ids of samples that failed for outside reasons, at each attempt.
        alerts: What the guard alerted of.
        notes: What was said of the data: rows that were left out or kept once, encodings.
        calls: Calls of models in this process.
        tokens: Prompt and reply tokens of these calls.
        cost: US dollars of these calls; None where a price is not known, 0.0 without a model.
        rows: The validation answers of `playbook`, failures first: question, answer, what is right, bullets.
        training: The answers to the training tasks, each before it was learned from.
    """

    playbook: Playbook
    last: Playbook
    score: float | None
    reason: str
    detail: str
    folder: Path
    steps: tuple[StepFinished, ...]
    unlearned: tuple[str, ...]
    alerts: tuple[str, ...]
    notes: tuple[str, ...]
    calls: int
    tokens: int
    cost: float | None
    rows: tuple[ScoredRow, ...] = field(repr=False)
    training: tuple[ScoredRow, ...] = field(repr=False)
    _settings: Settings = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """Name what one looks for first; the playbook itself is `str(result.playbook)`."""
        cost = "?" if self.cost is None else f"{self.cost:.4f}"
        size = f"{len(self.playbook)} bullets"
        return f"Result({self.reason}, score={self.score}, {size}, {self.calls} calls, ${cost}, {str(self.folder)!r})"


@dataclass(frozen=True, slots=True)
class Scores:
    """How well a playbook does on tasks that were not learned from.

    Attributes:
        score: Share of right answers with the playbook, 0 to 1; None where nothing could be scored.
        without: The same without a playbook.
        hits: Right parts with the playbook, of `total`.
        total: All parts (one a task, where a scorer does not count several).
        interval: Where the score lies with 95 % confidence.
        split: Which tasks: "train", "val", "test", or "all" of a file.
        errors: Why a task could not be scored, by its id. With any of them the score is not to be compared.
        cost: US dollars of the calls in this process; None where a price is not known, 0.0 without a model.
        rows: Each answer with the playbook as a `ScoredRow`, failures first.
        baselines: What needs no agent, where answers are labels: "majority" and "nearest" training row.
    """

    score: float | None
    without: float | None
    hits: int
    total: int
    interval: tuple[float, float]
    split: str
    errors: Mapping[str, str]
    cost: float | None
    rows: tuple[ScoredRow, ...] = field(repr=False)
    baselines: Mapping[str, float]


P = ParamSpec("P")
R = TypeVar("R")


def _with_signature_of(
    function: Callable[P, R],
) -> Callable[[Callable[..., Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Give an async twin the arguments of a function, for people and type checkers."""

    def give(twin: Callable[..., Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        twin.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # functions take any attribute
        return twin

    return give


def _arguments(function: Callable[..., object], arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    given = inspect.signature(function).bind(*arguments, **named)
    given.apply_defaults()
    return given.arguments


def learn(
    tasks: Tasks | None = None,
    *,
    traces: str | Path | None = None,
    model: ModelChoice | None = None,
    agent: AgentFunction | None = None,
    question: str | None = None,
    answer: str | None = None,
    scorer: str | ScoreFunction | None = None,
    val: int | None = None,
    batch: int | Literal["auto"] | None = None,
    epochs: int | None = None,
    max_cost: float | None = None,
    max_calls: int | None = None,
    start: Playbook | str | Path | None = None,
    folder: str | Path | None = None,
    settings: str | Path | Mapping[str, Mapping[str, Any]] | None = None,
    on_event: Callable[[Event], object] | None = None,
) -> Result:
    """Learn a playbook from tasks, or from recorded traces. Works in a script and in a notebook.

    Without a model the embedded agent works: it chooses among labels, calls nothing and needs no key. With one, the
    roles of ACE do. A function of your own as `agent` answers the tasks, and the model reflects on what it did; without
    a model the embedded agent reflects, which answers that are labels allow.

    Args:
        tasks: A file (.jsonl, .csv) or a folder with train, val and test files; rows: dicts with question and answer,
            pairs of them or `Task`s; rows by split: {"train": [...], "val": [...]}; "tags", the built-in practice
            tasks. A file and rows are cut into train, val and test (6 : 2 : 2).
        traces: A file or folder of recorded runs, to learn from those instead. Secrets are taken out.
        model: A `Model` or its name; or one for each role: {"generator": ..., "reflector": ..., "curator": ...}.
        agent: Your own, `(question, playbook) -> answer`, plain (called in threads) or async. `str(playbook)` is what
            a prompt takes. It may return (answer, ids of the bullets used), for votes.
        question: Column with the question, where it is not called so.
        answer: Column with the right answer.
        scorer: "exact", "numeric:0.01", "tags", "regex", or a function (task, answer) -> bool, share or `Score`.
        val: Validation rows; the best version by them is the result.
        batch: Samples a step, or "auto". None: 40.
        epochs: How often all samples are seen. None: once.
        max_cost: US dollars the run may cost, over all calls of `learn` with its folder.
        max_calls: Calls of models it may make.
        start: A playbook to go on from.
        folder: Where the run lies. One that holds a part of the same run is gone on with, and nothing that was paid
            for is bought again. None: a new one below runs/.
        settings: Any other setting: a combee.toml, or its tables: {"learn": {"near": 0.8}}.
        on_event: Called with each event of the run (`combee.kernel.learn`).

    Returns:
        The playbook with its score, and how the run ended. A limit that is reached is no error: see `Result.reason`.

    Raises:
        UsageError: Something that was given cannot be used; nothing was paid. `hint` says what to do.
        RunError: Nothing could be worked on, or going on is pointless; what was done is kept in the folder.

    Example:
        >>> import combee
        >>> words = ["rent", "tax", "wage"]
        >>> rows = [(f"Which account takes the {word} of case {n}?", word.upper()) for n in range(20) for word in words]
        >>> result = combee.learn(rows, batch=12)
        >>> result.reason, result.score
        ('completed', 1.0)
    """
    begun = begin(locals())
    return _result(begun.run(), begun.notes)


@_with_signature_of(learn)
async def alearn(*arguments: Any, **named: Any) -> Result:
    """Learn as `learn`, with the same arguments, in the event loop that runs; an async `agent` is called in it.

    Cancelling it loses nothing that was paid for: the same call with the same `folder` goes on.

    Raises:
        UsageError, RunError: As `learn`.

    Example:
        >>> import asyncio, combee
        >>> rows = [(f"Is {n} odd or even?", "odd" if n % 2 else "even") for n in range(40)]
        >>> async def agent(question, playbook):
        ...     return "odd" if int(question.split()[1]) % 2 else "even"
        >>> asyncio.run(combee.alearn(rows, agent=agent)).score
        1.0
    """
    begun = await asyncio.to_thread(begin, _arguments(learn, arguments, named))
    return _result(await begun.arun(), begun.notes)


def resume(
    folder: str | Path | None = None,
    *,
    agent: AgentFunction | None = None,
    scorer: ScoreFunction | None = None,
    max_cost: float | None = None,
    max_calls: int | None = None,
    on_event: Callable[[Event], object] | None = None,
) -> Result:
    """Go on with a run that was stopped, of the command line or of `learn`; what was paid for is not bought again.

    Args:
        folder: Where it lies, or its name below runs/. None: the latest run there.
        agent: The agent of the run, where it was a function that cannot be imported by its name.
        scorer: The same for a scorer.
        max_cost: US dollars the whole run may cost, not what is left. None: as it was.
        max_calls: Calls the whole run may make. None: as it was.
        on_event: Called with each event of the run.

    Returns:
        As `learn`.

    Raises:
        UsageError: There is no such run, its tasks have changed, or a function cannot be imported.
        RunError: As `learn`.

    Example:
        >>> import combee
        >>> rows = [(f"Is {n} odd or even?", "odd" if n % 2 else "even") for n in range(40)]
        >>> done = combee.learn(rows, folder="runs/parity")
        >>> combee.resume("runs/parity").playbook == done.playbook
        True
    """
    begun = again(locals())
    return _result(begun.run(), begun.notes)


@_with_signature_of(resume)
async def aresume(*arguments: Any, **named: Any) -> Result:
    """Go on with a run as `resume`, with the same arguments, in the event loop that runs.

    Raises:
        UsageError, RunError: As `resume`.

    Example:
        >>> import asyncio, combee
        >>> done = combee.learn([(f"Is {n} odd?", str(n % 2)) for n in range(40)], folder="runs/odd")
        >>> asyncio.run(combee.aresume("runs/odd")).reason
        'completed'
    """
    begun = await asyncio.to_thread(again, _arguments(resume, arguments, named))
    return _result(await begun.arun(), begun.notes)


def evaluate(
    what: Result | Playbook | str | Path,
    tasks: Tasks | None = None,
    *,
    split: Literal["train", "val", "test"] | None = None,
    model: ModelChoice | None = None,
    agent: AgentFunction | None = None,
    question: str | None = None,
    answer: str | None = None,
    scorer: str | ScoreFunction | None = None,
    max_cost: float | None = None,
    max_calls: int | None = None,
    settings: str | Path | Mapping[str, Mapping[str, Any]] | None = None,
) -> Scores:
    """Score a playbook on tasks that it was not learned from, beside the same agent without one. Learns nothing.

    Every task is answered twice. Answers that were paid for are kept until the call has come to its end: after a kill
    the same call goes on with them.

    Args:
        what: A `Result`, which brings its agent, model and scorer along; a playbook or its file; a run's folder or
            name, or RUN@VERSION.
        tasks: As for `learn`; a file or rows are scored as a whole, but of what was learned from (told by its content,
            not its name) only the test tasks. None: the test tasks of the run.
        split: Which part of them.
        model: The model that answers; of a run, its own.
        agent: Your own agent, as for `learn`; of a `Result`, its own.
        question: Column with the question, where it is not called so.
        answer: Column with the right answer.
        scorer: As for `learn`.
        max_cost: US dollars that this call may cost.
        max_calls: Calls of models that it may make.
        settings: As for `learn`.

    Returns:
        The scores with the playbook and without one.

    Raises:
        UsageError: Something cannot be used, or the limit does not reach for all answers; nothing was paid.
        RunError: Not one task could be scored.

    Example:
        >>> import combee
        >>> rows = [(f"Which account takes the {word} of case {n}?", word.upper())
        ...         for n in range(20) for word in ["rent", "tax", "wage"]]
        >>> scores = combee.evaluate(combee.learn(rows), [("Which account takes the rent of case 99?", "RENT")])
        >>> scores.score, scores.without
        (1.0, 0.0)
    """
    scoring = to_score({**locals(), "what": _bare(what)})
    with scores_kept("eval", scoring.prepared, scoring.tasks, scoring.book, say=_silent) as answers:
        both = run_sync(scoring.both(answers.scope))
        answers.complete = all(one.complete for one in both)
    return _scores(scoring, *both)


@_with_signature_of(evaluate)
async def aevaluate(*arguments: Any, **named: Any) -> Scores:
    """Score a playbook as `evaluate`, with the same arguments, in the event loop that runs.

    Raises:
        UsageError, RunError: As `evaluate`.

    Example:
        >>> import asyncio, combee
        >>> result = combee.learn([(f"Is {n} odd?", str(n % 2)) for n in range(40)])
        >>> asyncio.run(combee.aevaluate(result)).split
        'test'
    """
    given = _arguments(evaluate, arguments, named)
    scoring = await asyncio.to_thread(to_score, {**given, "what": _bare(given["what"])})
    with scores_kept("eval", scoring.prepared, scoring.tasks, scoring.book, say=_silent) as answers:
        both = await scoring.both(answers.scope)
        answers.complete = all(one.complete for one in both)
    return _scores(scoring, *both)


def load_playbook(what: str | Path) -> Playbook:
    """Return a playbook: of a file (.json, .md, .txt), of a run's folder or name, or of RUN@VERSION.

    Raises:
        UsageError: There is none; the message names the nearest run.

    Example:
        >>> import combee
        >>> result = combee.learn([(f"Is {n} odd?", str(n % 2)) for n in range(40)], folder="runs/kept")
        >>> combee.load_playbook("runs/kept") == result.playbook
        True
    """
    return open_book(str(what))[0]


def _result(done: Finished, notes: tuple[str, ...]) -> Result:
    """Write the report, and say what the run gave."""
    from combee.report import write_report

    with suppress(CombeeError):  # a page that cannot be written takes nothing from a run that is done
        write_report(done.folder)
    result, taken = done.result, spent(done.prepared.agent.models) or {"calls": 0, "tokens": 0, "cost": 0.0}
    rows = read_rows(done.folder)
    complete = [one.hits / one.total for one in result.validations if one.total and not one.errors]
    return Result(
        playbook=result.best,
        last=result.last,
        score=max(complete, default=None),
        reason=result.reason.value,
        detail=result.detail,
        folder=done.folder,
        steps=result.steps,
        unlearned=result.unlearned,
        alerts=tuple(f"step {one.step}: {'; '.join(one.reasons) or one.verdict}" for one in done.findings.alerts),
        notes=notes,
        calls=cast("int", taken["calls"]),
        tokens=cast("int", taken["tokens"]),
        cost=cast("float | None", taken["cost"]),
        rows=rows.validation,
        training=rows.training,
        _settings=done.prepared.spec,
    )


def _silent(sentence: str) -> None:
    """Nobody waits at a screen."""


def _bare(what: Result | Playbook | str | Path) -> tuple[Settings, Playbook] | Playbook | str | Path:
    return (what._settings, what.playbook) if isinstance(what, Result) else what


def _scores(scoring: Scoring, found: Evaluation, without: Evaluation) -> Scores:
    """Return what the answers come to. Raises `RunError` where there is none."""
    if not found.scores:
        raise RunError("Not one task could be scored.", hint=next(iter(found.errors.values()), None))
    taken = spent(scoring.prepared.agent.models) or {"cost": 0.0}
    return Scores(
        score=found.accuracy,
        without=without.accuracy,
        hits=found.hits,
        total=found.total,
        interval=interval([(one.hits, one.total) for one in found.scores.values()]),
        split=scoring.split,
        errors=found.errors,
        cost=cast("float | None", taken["cost"]),
        rows=rows_of(scoring.tasks, found, scoring.book, scoring.prepared.config.view_tokens),
        baselines=baselines(scoring.prepared.tasks.train, scoring.tasks, scoring.prepared.tasks.scorer),
    )
