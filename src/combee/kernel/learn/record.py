"""What a run leaves behind: events, versions, labels and the tree of each scan, in the journal and to the observer.

An observer that raises is told off once in the log and not called again: a display cannot break a run.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import Any

from combee.kernel.aggregate import Scan
from combee.kernel.journal import JSON, Journal
from combee.kernel.learn.codec import revision_to_json
from combee.kernel.learn.collect import Collected
from combee.kernel.learn.events import Event, Observer, SampleDone, StepFinished
from combee.kernel.learn.reduce import Reduced
from combee.kernel.playbook import Delta, Playbook, digest, to_json, tokens

_LOG = logging.getLogger("combee")


@dataclass
class Recorder:
    """Writes for one run. Without a journal it only tells the observer."""

    journal: Journal | None
    observer: Observer | None

    def tell(self, event: Event) -> None:
        """Send an event to the observer and keep it; single samples are not kept, their results are in the journal."""
        if self.journal is not None and not isinstance(event, SampleDone):
            self.journal.record_event(type(event).__name__, dataclasses.asdict(event), key=_key(event))
        if self.observer is None:
            return
        try:
            self.observer(event)
        except Exception:  # noqa: BLE001 - whatever a display raises, the run goes on
            _LOG.exception("the display failed and is switched off; the run goes on")
            self.observer = None

    def version(self, book: Playbook, parent: str | None, epoch: int, step: int, reduced: Reduced | None) -> str:
        """Keep a version with all that led to it; return its digest."""
        name = digest(book)
        if self.journal is None:
            return name
        data: JSON = None
        if reduced is not None:
            data = {
                "base": digest(reduced.base),
                "revision": revision_to_json(reduced.revision),
                "verdict": reduced.verdict.action if reduced.verdict else None,
            }
        self.journal.add_version(to_json(book), name, parent=parent, epoch=epoch, step=step, data=data)
        self.label("last", name, f"last/{epoch}/{step}/{reduced is None}")
        return name

    def scans(self, scans: tuple[Scan[Delta], ...], epoch: int, step: int) -> None:
        """Keep the trees of a step, for the report."""
        if self.journal is None:
            return
        for attempt, scan in enumerate(scans):
            tree: dict[str, JSON] = {
                "epoch": epoch,
                "step": step,
                "attempt": attempt,
                "nodes": [dataclasses.asdict(node) for node in scan.nodes],
                "uncovered": list(scan.uncovered),
                "failed": list(scan.failed),
                "covered": len(scan.covered),
                "claimed": len(scan.claimed),
            }
            self.journal.record_event("Scan", tree, key=f"scan/{epoch}/{step}/{attempt}")

    def label(self, name: str, version: str, key: str) -> None:
        """Put a label on a version, once for each key."""
        if self.journal is not None:
            self.journal.label(name, version, key=key)


def finished_step(
    collected: Collected[Any],
    reduced: Reduced,
    *,
    epoch: int,
    step: int,
    batch: int,
    version: str,
    seconds: float | None,
    late: int,
) -> StepFinished:
    """Return what a step came to; `batch` samples began in it, `late` are still under way."""
    scans = reduced.scans
    return StepFinished(
        epoch=epoch,
        step=step,
        batch=batch,
        hits=collected.hits,
        total=collected.total,
        reflections=sum(1 for reflection in collected.reflections if reflection.lessons),
        lessons=sum(len(reflection.lessons) for reflection in collected.reflections),
        operations=len(reduced.revision.delta),
        refused=len(reduced.applied.refused),
        uncovered=len(scans[-1].uncovered) if scans else 0,
        failed=len(collected.failed),
        calls=sum(scan.calls for scan in scans),
        reads=sum(scan.reads for scan in scans),
        depth=sum(scan.depth for scan in scans),
        bullets=len(reduced.book),
        tokens=tokens(reduced.book),
        version=version,
        seconds=seconds,
        late=late,
    )


def _key(event: Event) -> str | None:
    """Name an event that a replay repeats; those of one process only (start, end) have no name."""
    step = getattr(event, "step", None)
    if step is None:
        return None
    parts = (type(event).__name__, *(getattr(event, name, "") for name in ("epoch", "step", "attempt", "verdict")))
    return "/".join(map(str, parts))
