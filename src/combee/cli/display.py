"""Live progress: a rich bar on a terminal, plain lines elsewhere, nothing with `--json` or `--quiet`."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from combee.learn import (
    Alerted,
    BatchChosen,
    Event,
    GuardSpoke,
    ReduceFailed,
    RunStarted,
    SampleDone,
    SampleRefused,
    StepFinished,
    StepStarted,
    Validated,
)

__all__ = ["Display", "PlainDisplay", "RichDisplay", "make_display"]

PLAIN_EVERY_SECONDS = 2.0


class Display:
    """Shows nothing; the base of the others. Use as a context manager and pass `observe` to the run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def observe(self, event: Event) -> None:
        """Take one event."""

    def close(self) -> None:
        """Leave the screen tidy."""


class PlainDisplay(Display):
    """One line at most every two seconds, and every warning, on standard error."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._seen = 0
        self._all = 0

    def observe(self, event: Event) -> None:
        """Print what matters of one event."""
        if isinstance(event, RunStarted):
            self._all = event.samples
        elif isinstance(event, SampleDone):
            self._seen += 1
        elif isinstance(event, StepFinished | Validated):
            if time.monotonic() - self._last >= PLAIN_EVERY_SECONDS:
                self._last = time.monotonic()
                self._print(f"{self._seen}/{self._all} samples · {describe(event)}")
        else:
            warning = describe_warning(event)
            if warning:
                self._print(warning)

    def _print(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class RichDisplay(Display):
    """One progress bar with the state of the book beside it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("learning"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar = self._progress.add_task("", total=None)
        self._progress.start()

    def observe(self, event: Event) -> None:
        """Move the bar or change the text beside it."""
        if isinstance(event, RunStarted):
            self._progress.update(self._bar, total=event.samples)
        elif isinstance(event, SampleDone):
            self._progress.advance(self._bar)
        elif isinstance(event, StepFinished | Validated):
            self._progress.update(self._bar, description=describe(event))
        else:
            warning = describe_warning(event)
            if warning:
                self._progress.console.print(warning, markup=False, highlight=False)

    def close(self) -> None:
        """Take the bar off the screen."""
        self._progress.stop()


def make_display(*, quiet: bool) -> Display:
    """Return the display that fits standard error."""
    if quiet:
        return Display()
    return RichDisplay() if sys.stderr.isatty() else PlainDisplay()


def describe(event: StepFinished | Validated) -> str:
    """Say one step or validation in a few words."""
    if isinstance(event, Validated):
        score = f"{event.hits / event.total:.3f}" if event.total else "none"
        return f"validation {score}" + (f" ({event.errors} tasks failed)" if event.errors else "")
    return f"step {event.step}: {event.bullets} bullets, {event.tokens} tokens"


def describe_warning(event: Event) -> str | None:
    """Say what the user should know at once, or None."""
    if isinstance(event, GuardSpoke):
        return f"guard, step {event.step}: {event.verdict}: {'; '.join(event.reasons)}" if event.reasons else None
    if isinstance(event, Alerted):
        return None if event.ok else f"the alert command failed at step {event.step}: {event.detail}"
    if isinstance(event, ReduceFailed):
        kept = f"{event.reflections} reflections wait for the next step"
        return f"step {event.step}: nothing could be aggregated ({event.reason}); {kept}"
    if isinstance(event, BatchChosen):
        said = f"batch size {event.batch} from step {event.step} on"
        return "; ".join([said, *event.warnings])
    if isinstance(event, SampleRefused):
        return f"sample {event.sample} refused: {event.reason}"
    if isinstance(event, SampleDone) and event.error:
        return f"sample {event.sample} failed: {event.error}"
    if isinstance(event, StepStarted):
        return None
    return None
