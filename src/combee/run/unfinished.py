"""Answers of a command that is no run of its own (eval, gate, calibrate, refine FILE), kept until it comes to its end.

They lie in `combee-unfinished/COMMAND-HASH` in this folder, in a journal like that of a run. The same command after a
kill takes them from there and pays only for what was in flight. The folder goes when the result is out: a file in its
place, or lines that standard output took.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from combee.errors import BudgetError, LockedError, RunError, StorageError, UsageError
from combee.kernel.journal import JSON, Journal, MemoryScope, Scope, hash_json
from combee.kernel.playbook import Playbook, digest
from combee.run.findings import maybe_paid
from combee.run.options import PACE
from combee.run.words import counted

if TYPE_CHECKING:
    from combee.kernel.learn import Task
    from combee.model import Models
    from combee.run.spec import Prepared

UNFINISHED = Path("combee-unfinished")


@dataclass(slots=True)
class Answers:
    """Where the answers go."""

    scope: Scope
    found: int = 0
    """Answers of an earlier process, which are not bought again."""
    complete: bool = True
    """To be set to False where some calls gave none: then the others stay for the same command."""


@contextmanager
def kept_until_the_end(
    command: str, models: Models | None, about: JSON, say: Callable[[str], None]
) -> Iterator[Answers]:
    """Keep what models answer to a command; where it calls none, in memory only. What it found is to be printed inside.

    Args:
        command: Its name.
        models: The models; their calls are booked here too, so limits hold for all parts of the command together.
        about: What the answers depend on besides the models: with another value it is another command.
        say: Takes a sentence on what is kept, for the person who waits.

    Raises:
        LockedError: The same command is at work.
        StorageError: Nothing can be kept in this folder.
    """
    if models is None:
        yield Answers(MemoryScope())
        return
    folder = UNFINISHED / f"{command}-{hash_json([about, _names(models)])[:12]}"
    with _opened(folder) as journal:
        models.attach(journal)
        found = journal.count_results()
        if found:
            say(f"Going on where it stopped: {counted(found, 'answer')} kept in {folder}.")
        answers = Answers(journal.scope(seed=0, epoch=0, step=0), found)

        def kept() -> int:
            return found + journal.stats().bought

        try:
            with told_what_is_kept(folder, kept, models, say):
                yield answers
        except BrokenPipeError:  # a reader that has seen enough
            raise
        except BaseException:
            answers.complete = False
            raise
        else:
            if not answers.complete and kept():
                told = f"Some calls gave no answer. The same command makes only those: {counted(kept(), 'answer')} kept"
                say(f"{told} in {folder}.")
        finally:
            journal.close()
            if answers.complete or not kept():
                _remove(folder)


def scores_kept(
    command: str, prepared: Prepared, tasks: Sequence[Task], *books: Playbook, say: Callable[[str], None]
) -> AbstractContextManager[Answers]:
    """Keep what the agent of a run answers to held-out tasks with these books. See `kept_until_the_end`."""
    spec, view = prepared.spec.to_json(), prepared.config.view_tokens
    about = [prepared.digest, prepared.agent.prompts, spec["agent"], _without_pace(spec["model"]), view]
    # With another book it is another command: it may work at the same time, and its end takes no answer from this one.
    what: list[JSON] = [[task.id for task in tasks], [digest(book) for book in books]]
    return kept_until_the_end(command, prepared.agent.models, [*about, *what], say)


@contextmanager
def told_what_is_kept(
    folder: Path, kept: Callable[[], int], models: Models, say: Callable[[str], None]
) -> Iterator[None]:
    """Say of a command that is stopped, or fails, how it goes on: by the same command, with what `folder` keeps."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, OSError):  # Ctrl-C; a standard output that is full or closed
        if lost := maybe_paid(models):
            say(f"Stopped.{lost}")
        if kept():
            say(f"No answer is lost: the same command goes on with those kept in {folder}.")
        raise
    except RunError as error:
        if kept():
            how = " with a higher limit" if isinstance(error, BudgetError) else ""
            told = f"What was answered is kept in {folder}: the same command{how} goes on with it."
            error.hint = f"{error.hint}\n  {told}" if error.hint else told
        raise


def _opened(folder: Path) -> Journal:
    try:
        return Journal.open(folder)
    except LockedError:
        raise
    except (StorageError, UsageError) as error:
        if folder.exists():
            error.hint = f"{error.hint}\n  Or take {folder} away: the command begins anew then."
        else:
            where = f"What is paid for is kept in {UNFINISHED}/, in the folder you are in:"
            error.hint = f"{where} change to one that you may write to, and where nothing else has that name."
        raise


def _without_pace(model: JSON) -> JSON:
    """Return settings of models, and of single roles, without those that change no answer."""
    if not isinstance(model, dict):
        return model
    return {key: value if key == "extra" else _without_pace(value) for key, value in model.items() if key not in PACE}


def _names(models: Models) -> JSON:
    from combee.model.clients import place_of

    return [[role, model.name, place_of(model.inner)] for role, model in sorted(models.by_role.items())]


def _remove(folder: Path) -> None:
    """Take the folder away; what cannot be removed does no harm."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # another command has its answers there
        folder.parent.rmdir()
