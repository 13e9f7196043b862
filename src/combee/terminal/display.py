"""Live progress: a rich bar on a terminal, plain lines elsewhere, nothing with `--json` or `--quiet`."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from combee.errors import CombeeError
from combee.kernel.learn import (
    Alerted,
    BatchChosen,
    Event,
    GuardJudged,
    ReduceFailed,
    RunStarted,
    SampleDone,
    SampleRefused,
    StepFinished,
    Validated,
)
from combee.run.words import counted, with_program

PLAIN_EVERY_SECONDS = 2.0
MOST_REASONS = 8
_A_MINUTE = 60.0
_LOG = logging.getLogger("combee")


def _not_an_alert(record: logging.LogRecord) -> bool:
    """Keep the guard's alerts out of the log: a display says them, and Python would print them a second time."""
    return record.module != "judge"


class Display:
    """Shows nothing; the base of the others. Use as a context manager and pass `observe` to the run."""

    says_alerts = False

    def __enter__(self) -> Self:
        if self.says_alerts:
            _LOG.addFilter(_not_an_alert)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _LOG.removeFilter(_not_an_alert)
        self.close()

    def observe(self, event: Event) -> None:
        """Take one event."""

    def shorten(self, error: CombeeError) -> None:
        """Take out of an error that ends the run what was said of a sample right before it."""

    def close(self) -> None:
        """Leave the screen tidy."""


class Tally:
    """Samples worked on out of all, and those that failed at their last try: a try is no sample."""

    def __init__(self) -> None:
        self.done = 0
        self.all = 0
        self._failed: set[str] = set()
        self._reasons: set[str] = set()

    def take(self, event: Event) -> str | None:
        """Count one event; returns what to say of it: each reason of a failure once, and not more than a few."""
        if not isinstance(event, RunStarted | SampleDone):
            return describe_warning(event)
        if isinstance(event, RunStarted):
            self.all, self.done = event.samples, event.done
        elif not event.error:
            self._failed.discard(event.sample)
            self.done += 1
        else:
            self._failed.add(event.sample)
            if event.is_news and event.error not in self._reasons and len(self._reasons) < MOST_REASONS:
                self._reasons.add(event.error)
                return f"sample {event.sample} failed: {event.error}"
        return None

    def shorten(self, error: CombeeError) -> None:
        """Leave of an error that repeats a reason said already only where to look."""
        cause = error.message.removeprefix("stopped: ")
        if any(reason.startswith(cause) for reason in self._reasons):
            error.message = "stopped: no call can succeed, for the reason above"

    @property
    def failed(self) -> str:
        """How many samples failed at their last try, in words; empty for none."""
        return f"{len(self._failed)} failed" if self._failed else ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (f"{self.done}/{self.all} samples", self.failed)))


class PlainDisplay(Display):
    """One line at most every two seconds, and every warning, on standard error."""

    says_alerts = True

    def __init__(self, beside: Callable[[], str] = lambda: "") -> None:
        self._beside = beside
        self._begun = self._last = time.monotonic()
        self._tally = Tally()

    def observe(self, event: Event) -> None:
        """Print what matters of one event."""
        if isinstance(event, StepFinished | Validated):
            if time.monotonic() - self._last >= PLAIN_EVERY_SECONDS:
                self._last = time.monotonic()
                self._print(_joined(str(self._tally), self._left(), describe(event), self._beside()))
        elif said := self._tally.take(event):
            self._print(said)

    def shorten(self, error: CombeeError) -> None:
        """Take out what was said above."""
        self._tally.shorten(error)

    def _left(self) -> str:
        """Return about how long the rest takes, at the pace since the start of this process."""
        took, done = time.monotonic() - self._begun, self._tally.done
        seconds = took / done * (self._tally.all - done) if done else 0.0
        return f"about {seconds / 60:.0f} min left" if seconds >= _A_MINUTE else ""

    def _print(self, line: str) -> None:
        sys.stderr.write(with_program(line) + "\n")
        sys.stderr.flush()


class RichDisplay(Display):
    """One progress bar with the state of the book beside it."""

    says_alerts = True

    def __init__(self, beside: Callable[[], str] = lambda: "") -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("learning"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._beside, self._state = beside, ""
        self._tally = Tally()
        self._bar = self._progress.add_task("", total=None)
        self._progress.start()

    def observe(self, event: Event) -> None:
        """Move the bar or change the text beside it."""
        if isinstance(event, StepFinished | Validated):
            self._state = describe(event)
        elif said := self._tally.take(event):
            self._progress.console.print(with_program(said), markup=False, highlight=False)
        beside = _joined(self._tally.failed, self._beside(), self._state)
        self._progress.update(self._bar, total=self._tally.all or None, completed=self._tally.done, description=beside)

    def shorten(self, error: CombeeError) -> None:
        """Take out what was said above."""
        self._tally.shorten(error)

    def close(self) -> None:
        """Take the bar off the screen."""
        self._progress.stop()


def make_display(*, quiet: bool, beside: Callable[[], str] = lambda: "") -> Display:
    """Return the display that fits standard error; `beside` says what models took and failed to give so far."""
    if quiet:
        return Display()
    return RichDisplay(beside) if sys.stderr.isatty() else PlainDisplay(beside)


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def describe(event: StepFinished | Validated) -> str:
    """Say one step or validation in a few words."""
    if isinstance(event, Validated):
        score = f"{event.hits / event.total:.3f}" if event.total else "none"
        return f"validation {score}" + (f" ({counted(event.errors, 'task')} failed)" if event.errors else "")
    return f"step {event.step}: {counted(event.bullets, 'bullet')}, {counted(event.tokens, 'token')}"


def describe_warning(event: Event) -> str | None:
    """Say what the user should know at once, or None."""
    if isinstance(event, GuardJudged):
        return f"guard, step {event.step}: {event.verdict}: {'; '.join(event.reasons)}" if event.reasons else None
    if isinstance(event, Alerted):
        return None if event.ok else f"the alert command failed at step {event.step}: {event.detail}"
    if isinstance(event, ReduceFailed):
        kept = f"{counted(event.reflections, 'reflection')} left for the next step"
        return f"step {event.step}: nothing could be aggregated ({event.reason}); {kept}"
    if isinstance(event, BatchChosen):
        said = f"batch size {event.batch} from step {event.step} on"
        return "; ".join([said, *event.warnings])
    if isinstance(event, SampleRefused):
        return f"sample {event.sample} refused: {event.reason}"
    return None
