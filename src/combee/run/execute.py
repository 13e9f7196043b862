"""Run a prepared run in its folder, to its end or until it is stopped, and write the playbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from combee.errors import RunError, UsageError
from combee.kernel.journal import JSON, Journal, Stats
from combee.kernel.learn import FinishReason, LearnResult
from combee.kernel.learn.pacing import announcement
from combee.kernel.playbook import Playbook, from_json, load, save, tokens
from combee.run.baselines import BASELINES_KEY, baselines
from combee.run.findings import Findings, findings_of, maybe_paid, spent
from combee.run.folders import JOURNAL, has_results
from combee.run.methods import RunDisplay, method_of
from combee.run.options import how_to_go_on, how_to_resume
from combee.run.spec import CONTENT_KEY, SPEC_KEY, Prepared, content_of


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that came to an end."""

    folder: Path
    prepared: Prepared
    result: LearnResult
    stats: Stats
    findings: Findings
    baselines: Mapping[str, float]

    def to_json(self) -> dict[str, JSON]:
        """Return what the run came to."""
        result, last = self.result, self.result.validations[-1] if self.result.validations else None
        choice = None if result.choice is None else asdict(announcement(len(result.steps), result.choice))
        validation: JSON = None if last is None else {"hits": last.hits, "total": last.total}
        base = _came_to(
            self.folder, self.prepared, result.best, validation=validation, stats=self.stats, findings=self.findings
        )
        return base | {
            "reason": result.reason.value,
            "detail": result.detail,
            "steps": len(result.steps),
            "unlearned": cast("JSON", list(result.unlearned)),
            "batch": cast("JSON", choice),
        }


class Interrupted(KeyboardInterrupt):
    """The user stopped the run; every answer is kept in its folder."""

    def __init__(self, summary: Mapping[str, JSON], hint: str) -> None:
        super().__init__(hint)
        self.summary = summary
        """What the run came to, with the keys of any other end."""
        self.hint = hint
        """How it goes on."""


def execute(prepared: Prepared, folder: Path, display: RunDisplay, *, in_python: bool = False) -> Finished:
    """Learn in `folder`; the same call on a folder that holds a part of the run goes on with it.

    What is said of going on is for a shell, or, `in_python`, for a program.

    Raises:
        Interrupted: The user stopped it.
        RunError: It failed; its hint says how it goes on.
    """
    with _opened(prepared, folder, display, in_python) as (journal, start):
        result = method_of(prepared.spec).learn(prepared, start, journal, display)
        return _finished(prepared, folder, journal, result)


async def aexecute(prepared: Prepared, folder: Path, display: RunDisplay) -> Finished:
    """Learn as `execute` in a program, in the event loop that runs: the user's own functions are called in it."""
    with _opened(prepared, folder, display, True) as (journal, start):
        result = await method_of(prepared.spec).alearn(prepared, start, journal, display)
        return _finished(prepared, folder, journal, result)


@contextmanager
def _opened(
    prepared: Prepared, folder: Path, display: RunDisplay, in_python: bool
) -> Iterator[tuple[Journal, Playbook | None]]:
    """Open the run; yield its journal and the book that it begins with. A failure gets told how the run goes on."""
    named = _named_start(prepared, folder)
    models = prepared.agent.models
    with Journal.open(folder) as journal:
        _same_data(journal, prepared)
        prepared.agent.attach(journal)
        began_with = journal.meta(SPEC_KEY)
        if began_with is None and (content := content_of(prepared.spec)):
            journal.set_meta(CONTENT_KEY, content)
        journal.set_meta(SPEC_KEY, prepared.spec.to_json())
        try:
            yield journal, _first_version(journal) or named
        except UsageError:
            if began_with is not None:  # what was refused is not kept
                journal.set_meta(SPEC_KEY, began_with)
            raise
        except KeyboardInterrupt as stop:
            how = how_to_resume(prepared.spec, folder, in_python=in_python)
            hint = f"every answer is kept.{maybe_paid(models)} Go on with: {how}"
            raise Interrupted(_stopped(journal, folder, prepared), hint) from stop
        except RunError as error:
            told = how_to_go_on(error, prepared.spec, folder, kept=has_results(journal), in_python=in_python)
            if lost := maybe_paid(models):
                told += f"\n {lost}"  # a line of its own: the command before it is there to be pasted
            error.hint = f"{error.hint}\n  {told}" if error.hint else told
            display.shorten(error)
            raise


def _finished(prepared: Prepared, folder: Path, journal: Journal, result: LearnResult) -> Finished:
    save(result.best, folder / "playbook.json")
    save(result.best, folder / "playbook.md")
    if beside := baselines_of(prepared):
        journal.set_meta(BASELINES_KEY, cast("JSON", beside))
    return Finished(folder, prepared, result, journal.stats(), findings_of(journal), beside)


def baselines_of(prepared: Prepared) -> dict[str, float]:
    """Return what a score on the validation rows has to beat: answers that need no learning."""
    tasks = prepared.tasks
    return baselines(tasks.train, tasks.val, tasks.scorer)


def _named_start(prepared: Prepared, folder: Path) -> Playbook | None:
    """The book that a new run is to begin with; it is read before anything is written."""
    begun = (folder / JOURNAL).exists()
    return None if prepared.spec.start is None or begun else load(prepared.spec.start)


def _first_version(journal: Journal) -> Playbook | None:
    """The book that a run began with: what became of its file since then is of no matter."""
    first = journal.first()
    return None if first is None else from_json(journal.text(first))


def _same_data(journal: Journal, prepared: Prepared) -> None:
    """A run goes on only with the data it began with: else its replay would be another run."""
    digest = prepared.digest
    known = journal.meta("tasks")
    if known is None:
        journal.set_meta("tasks", digest)
    elif known != digest:
        raise UsageError(
            "The tasks have changed since this run began.", hint="Put the old file back, or start a new run."
        )


def _stopped(journal: Journal, folder: Path, prepared: Prepared) -> dict[str, JSON]:
    """Return what a run that was stopped came to, from its journal; samples are given up at the end only."""
    labels = journal.labels()
    version = labels.get("best") or labels.get("last")
    book = Playbook() if version is None else from_json(journal.text(version))
    validated = [cast("dict[str, JSON]", event.data) for event in journal.events("Validated")]
    validation: JSON = {name: validated[-1][name] for name in ("hits", "total")} if validated else None
    base = _came_to(folder, prepared, book, validation=validation, stats=journal.stats(), findings=findings_of(journal))
    return base | {"steps": sum(1 for _ in journal.events("StepFinished"))}


def _came_to(
    folder: Path, prepared: Prepared, book: Playbook, *, validation: JSON, stats: Stats, findings: Findings
) -> dict[str, JSON]:
    """Return the keys of every end, with the values of a run that the user stopped."""
    return {
        "run": str(folder),
        "reason": FinishReason.INTERRUPTED.value,
        "detail": "stopped by the user",
        "bullets": len(book),
        "tokens": tokens(book),
        "steps": 0,
        "unlearned": [],
        "validation": validation,
        "calls": {"bought": stats.bought, "reused": stats.reused, "bought_again": stats.bought_again},
        "batch": None,
        "model": spent(prepared.agent.models),
        **findings.to_json(),
    }
