"""A call from Python as settings, a folder and the parts of a run: as the command line makes them of its options."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any

from combee.errors import CombeeError, UsageError
from combee.kernel.journal import Journal, Scope
from combee.kernel.learn import Evaluation, Event, Score, Task
from combee.kernel.playbook import Playbook, load
from combee.model.prices import parse_price
from combee.run.estimates import check_scoring
from combee.run.execute import Finished, aexecute, execute
from combee.run.folders import find_run, has_run, new_run, open_book
from combee.run.functions import name_of
from combee.run.methods import is_new, prepare
from combee.run.settings import Settings, read_settings
from combee.run.spec import Prepared, connect, content_learned, content_of, kept_spec, tasks_to_score, without_sizes

Row = Mapping[str, Any] | tuple[str, Any] | Task
"""A task: a dict with question and answer, a pair of them, or a `Task`."""

Tasks = str | Path | Sequence[Row] | Mapping[str, Sequence[Row]]
"""A file or folder, rows, or rows by split: {"train": [...], "val": [...], "test": [...]}."""

ScoreFunction = Callable[[Task, str], bool | float | Score]
"""Compares an answer with `task.target`: right or wrong, a share from 0 to 1, or a `Score`."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model at an OpenAI-compatible endpoint, or a local one (`local/smollm2`, `local/FILE.gguf`).

    Nothing is connected and no key is looked for before it is used.

    Args:
        name: As the endpoint knows it.
        base_url: Like "https://api.deepseek.com/v1". None: from the environment variable OPENAI_BASE_URL.
        key_env: NAME of the environment variable that holds the key. None: OPENAI_API_KEY.
        key_header: Header that carries the key, where it is not Authorization (Azure: "api-key").
        price: US dollars per million tokens, "input/output" or "input/output/cached", for a model that no price list
            knows; a budget in money needs it then.
        max_in_flight: Calls in flight at most. None: found by slow start.
        timeout: Seconds of one call at most. None: 600.
        temperature: Sampling temperature.
        max_output_tokens: Tokens that one reply may take.
        extra: Further parameters of the request body.

    Example:
        >>> import combee
        >>> combee.Model("deepseek-chat", base_url="https://api.deepseek.com/v1", key_env="DEEPSEEK_API_KEY").name
        'deepseek-chat'
    """

    name: str
    _: KW_ONLY
    base_url: str | None = None
    key_env: str | None = None
    key_header: str | None = None
    price: str | None = None
    max_in_flight: int | None = None
    timeout: float | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    extra: Mapping[str, Any] | None = None

    def tables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return its table [model], of what is given, and its entry in [prices]."""
        names = {"key_env": "api_key_env", "key_header": "api_key_header"}
        given = {item.name: value for item in fields(self) if (value := getattr(self, item.name)) is not None}
        table = {names.get(name, name): value for name, value in given.items()}
        text = table.pop("price", None)
        if text is None:
            return table, {}
        price = parse_price(text)
        return table, {self.name: {"input": price.prompt, "output": price.completion, "cached": price.cached}}


class Listener:
    """The display of a run that prints nothing: hands events on."""

    def __init__(self, take: Callable[[Event], object] | None) -> None:
        self._take = take

    def observe(self, event: Event) -> None:
        """Hand on one event."""
        if self._take is not None:
            self._take(event)

    def shorten(self, error: CombeeError) -> None:
        """Nothing was shown before it."""

    def close(self) -> None:
        """There is no screen."""


ModelChoice = Model | str | Mapping[str, Model | str]
"""One model for all roles, or one for each: {"generator": ..., "reflector": ..., "curator": ...}."""


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """A run that is ready."""

    prepared: Prepared
    folder: Path
    listener: Listener
    notes: tuple[str, ...]

    def run(self) -> Finished:
        """Learn; see `execute`."""
        return execute(self.prepared, self.folder, self.listener, in_python=True)

    async def arun(self) -> Finished:
        """Learn in the event loop that runs."""
        return await aexecute(self.prepared, self.folder, self.listener)


def _base(given: Mapping[str, Any]) -> Settings:
    """Return the settings that a call names as a whole: a file, or tables."""
    settings = given["settings"]
    if settings is None or isinstance(settings, Mapping):
        return read_settings(here=False).over(settings or {}, "settings")
    return read_settings(Path(settings))


def _over(base: Settings, given: Mapping[str, Any], tasks: Mapping[str, Any], learn: Mapping[str, Any]) -> Settings:
    """Return settings with the arguments of a call over them."""
    if given["agent"] is not None and not callable(given["agent"]):
        hint = "Give a function (question, playbook) -> answer; the name of a model is `model`."
        raise UsageError(f"`agent` is {given['agent']!r}, no function.", hint=hint)
    functions = {name_of(one): one for one in (given["agent"], given["scorer"]) if callable(one)}
    scorer = name_of(given["scorer"]) if callable(given["scorer"]) else given["scorer"]
    agent: dict[str, Any] = {"function": None if given["agent"] is None else name_of(given["agent"])}
    model, prices = _model_tables(given["model"])
    if model:
        agent["kind"] = "ace"
    tables = {
        "tasks": {"question": given["question"], "answer": given["answer"], "scorer": scorer, **tasks},
        "agent": agent,
        "model": model,
        "prices": prices,
        "learn": learn,
        "budget": {name: given[name] for name in ("max_cost", "max_calls")},
    }
    return base.with_functions(functions).over(tables, "combee")


def _model_tables(model: ModelChoice | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tables [model] and [prices]."""
    if model is None:
        return {}, {}
    if isinstance(model, Mapping):
        tables = {role: _model(one).tables() for role, one in model.items()}
        prices = {name: price for _, own in tables.values() for name, price in own.items()}
        return {role: table for role, (table, _) in tables.items()}, prices
    return _model(model).tables()


def _model(model: Model | str) -> Model:
    return Model(model) if isinstance(model, str) else model


def begin(given: Mapping[str, Any]) -> ReadyRun:
    """Check everything that a call of `learn` names, and make its run ready. Nothing is paid.

    Of a run that is gone on with, what the call does not name is as it was.
    """
    tasks, start, notes = given["tasks"], given["start"], list[str]()
    if tasks is not None and given["traces"] is not None:
        raise UsageError("Tasks and traces are both given.", hint="Learn from one of them.")
    rows = None if tasks is None or isinstance(tasks, str | Path) else _lines(tasks)
    learn = {"batch": given["batch"], "epochs": given["epochs"]}
    named = {"source": None if rows is not None or tasks is None else str(tasks), "val": given["val"]}
    named["traces"] = None if given["traces"] is None else str(given["traces"])
    base, place = _base(given), None if given["folder"] is None else Path(given["folder"])
    goes_on = place is not None and has_run(place)
    if place is not None and goes_on:
        base = _kept(place).over(base.given(), "settings")
    spec = _over(base, given, named, learn)
    if rows is None and spec.tasks.source is None and spec.tasks.traces is None:
        raise UsageError("No tasks are named to learn from.", hint=_NAME_TASKS)
    stem = "rows" if rows is not None else spec.stem
    folder = place if place is not None and goes_on else new_run(None, place, f"{stem}-{spec.learn_config().aggregate}")
    with _made(folder):
        if rows is not None:
            spec = spec.over({"tasks": {"source": str(_written(rows, folder))}}, "combee")
        if isinstance(start, Playbook):
            start = folder / "start.json"
            given["start"].save(start)
        if start is not None:
            load(start)  # what is wrong with it is said now
            spec = spec.over({"start": str(start)}, "combee")
        prepared = prepare(spec, folder, lambda note: notes.append(note.removeprefix("note: ")))
        return ReadyRun(prepared, folder, Listener(given["on_event"]), tuple(notes))


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder; take it away again where what follows is refused."""
    is_there = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UsageError(f"{folder} cannot be used: {error.strerror}.", hint="Choose another folder.") from error
    except CombeeError:
        if not is_there:
            shutil.rmtree(folder, ignore_errors=True)
        raise


_NAME_TASKS = 'Give a file or rows; or "tags", the practice tasks.'
_ROWS = 'Give a file, or rows: {"question": ..., "answer": ...} or (question, answer), with texts or numbers.'


def _lines(tasks: Sequence[Row] | Mapping[str, Sequence[Row]]) -> str | dict[str, str]:
    """Return rows as JSON lines; of rows by split one text each."""
    if isinstance(tasks, Mapping):
        unknown = tasks.keys() - {"train", "val", "test"}
        if unknown:
            raise UsageError(f"There is no split {min(unknown)!r}.", hint="Rows by split are train, val and test.")
        return {split: _text(rows) for split, rows in tasks.items()}
    return _text(tasks)


def _text(rows: object) -> str:
    if not isinstance(rows, Iterable):
        raise UsageError(f"Tasks cannot be {type(rows).__name__}.", hint=_ROWS)
    lines = []
    for number, row in enumerate(rows, 1):
        if isinstance(row, str | Path):
            hint = f"A file or folder is given by itself, not in a list. {_ROWS}"
            raise UsageError(f"Row {number} of the tasks is {str(row)[:80]!r}, no question with its answer.", hint=hint)
        if isinstance(row, tuple) and len(row) != 2:
            raise UsageError(f"Row {number} of the tasks has {len(row)} parts, not two.", hint=_ROWS)
        if isinstance(row, Task):
            content: Any = {"id": row.id, "question": row.question, "answer": row.target, **row.labels}
        else:
            content = row
        try:
            if isinstance(content, tuple):
                content = zip(("question", "answer"), content, strict=True)
            line = json.dumps(dict(content), ensure_ascii=False) + "\n"
            lines.append(line.encode("utf-8", "replace").decode())
        except (TypeError, ValueError) as error:
            raise UsageError(f"Row {number} of the tasks cannot be used: {error}.", hint=_ROWS) from error
    return "".join(lines)


def _written(rows: str | Mapping[str, str], folder: Path) -> Path:
    """Write rows into the folder of a run, so that other commands find them; a run that goes on has them there."""
    place = folder / ("tasks.jsonl" if isinstance(rows, str) else "tasks")
    files = {place: rows} if isinstance(rows, str) else {place / f"{split}.jsonl": text for split, text in rows.items()}
    for path, text in files.items():
        if not is_new(folder) and (not path.is_file() or path.read_text(encoding="utf-8") != text):
            hint = "Give the tasks that it began with, or another folder."
            raise UsageError("The tasks have changed since this run began.", hint=hint)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return place.absolute()


def again(given: Mapping[str, Any]) -> ReadyRun:
    """Make a run ready that a call of `resume` names. Raises `UsageError` for what cannot be used."""
    folder = find_run(None if given["folder"] is None else str(given["folder"]))
    kept = _kept(folder)
    functions = {kept.agent.function: given["agent"], kept.tasks.scorer: given["scorer"]}
    spec = kept.with_functions({name: one for name, one in functions.items() if name and one is not None})
    spec = spec.over({"budget": {name: given[name] for name in ("max_cost", "max_calls")}}, "combee")
    return ReadyRun(prepare(spec, folder), folder, Listener(given["on_event"]), ())


def _kept(folder: Path) -> Settings:
    with Journal.open(folder, create=False, read_only=True) as journal:
        return kept_spec(journal, folder)


@dataclass(frozen=True, slots=True)
class Scoring:
    """A playbook and the tasks to score it on."""

    book: Playbook
    tasks: tuple[Task, ...]
    split: str
    prepared: Prepared

    async def both(self, scope: Scope) -> tuple[Evaluation, Evaluation]:
        """Answer all tasks with the playbook, then without one."""
        try:
            with_it = await self.prepared.score(self.tasks, self.book, scope)
            return with_it, await self.prepared.score(self.tasks, Playbook(), scope)
        finally:
            await self.prepared.agent.aclose()


def to_score(given: Mapping[str, Any]) -> Scoring:
    """Check everything that a call of `evaluate` names. Nothing is paid."""
    what, tasks = given["what"], given["tasks"]
    if what is None:
        hint = "Give a result, a playbook or its file, or a run's folder or name."
        raise UsageError("Nothing is named to score.", hint=hint)
    base, book, seen = _of_what(what, given)
    if tasks is None and base.tasks.source is None and base.tasks.traces is None:
        raise UsageError("No tasks are named to score on.", hint=_NAME_TASKS)
    with tempfile.TemporaryDirectory(prefix="combee-rows-") as folder:
        source = tasks if tasks is None or isinstance(tasks, str | Path) else _written(_lines(tasks), Path(folder))
        named = {"source": None if source is None else str(source)}
        spec = _over(without_sizes(base) if tasks is not None else base, given, named, {})
        if tasks is not None and seen is not None and content_of(spec) == seen:
            spec = _over(base, given, named, {})  # cut as it was for the run
        found, split = tasks_to_score(spec, given["split"], seen=seen)
    chosen = found.test if split == "all" else getattr(found, split)
    check_scoring(spec, chosen, {"with it": book, "without": Playbook()})
    return Scoring(book, chosen, split, connect(spec, found))


def _of_what(what: Any, given: Mapping[str, Any]) -> tuple[Settings, Playbook, str | None]:
    """Return the settings to score with, without the limits of a run, the playbook, and the hash of what it is from.

    `what` is a playbook, the settings and the playbook of a run, or the name of either.
    """
    own = _base(given)
    if isinstance(what, Playbook):
        return own, what, None
    if isinstance(what, tuple):
        kept, book = what
        seen = content_of(kept)
    else:
        book, _ = open_book(str(what))
        if Path(what).is_file():
            return own, book, None
        folder = find_run(str(what).rpartition("@")[0] or str(what))
        with Journal.open(folder, create=False, read_only=True) as journal:
            kept = kept_spec(journal, folder)
            seen = content_learned(journal, kept)
    return kept.instead(budget={}).over(own.given(), "settings"), book, seen
