"""What gepa's search says of itself, told as the loop's events: display, `runs` and report show it like any run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from combee.cli.display import Display
from combee.journal import Journal
from combee.learn import RunFinished, RunStarted, StepFinished, Validated
from combee.playbook import tokens

if TYPE_CHECKING:
    from combee.gepa import CombeeReflection, Recorder

__all__ = ["COMPONENT", "GepaRun"]

COMPONENT = "playbook"


@dataclass
class GepaRun:
    """A listener of gepa. `best` is (score, candidate, text); `seen` counts samples that parents were scored on."""

    journal: Journal
    display: Display
    recorder: Recorder
    reflection: CombeeReflection
    steps: list[StepFinished] = field(default_factory=list)
    validations: list[Validated] = field(default_factory=list)
    best: tuple[float, int, str] | None = None
    last: str = ""
    seen: int = 0
    _texts: dict[int, str] = field(default_factory=dict)
    _scores: list[float] = field(default_factory=list)
    _learned: list[Any] = field(default_factory=list)
    _begun: float = 0.0

    def learned(self, one: Any) -> None:
        """Take what a reflection came to."""
        self._learned.append(one)
        self.recorder.learned(one)

    def tell(self, event: RunStarted | RunFinished | StepFinished | Validated, key: str | None) -> None:
        """Record an event and show it."""
        data = dataclasses.asdict(event)
        self.journal.record_event(type(event).__name__, data, key=key)
        self.display.observe(event)

    def on_iteration_start(self, event: Mapping[str, Any]) -> None:
        """Begin an iteration."""
        self._scores, self._learned, self._begun = [], [], time.monotonic()

    def on_evaluation_end(self, event: Mapping[str, Any]) -> None:
        """Keep the scores of a parent on a minibatch."""
        if event["candidate_idx"] is not None:
            self._scores += [float(score) for score in event["scores"]]
            self.seen += len(event["scores"])

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        """Tell how a candidate did on the validation tasks; label the best and the last."""
        index, score = int(event["candidate_idx"]), float(event["average_score"])
        text = self._texts[index] = self.last = event["candidate"][COMPONENT]
        better = self.best is None or score > self.best[0]
        if better:
            self.best = (score, index, text)
        version = self.recorder.version(text)
        self.journal.label("last", version, key=f"gepa/last/{index}")
        if better:
            self.journal.label("best", version, key=f"gepa/best/{index}")
        hits, total = sum(event["scores_by_val_id"].values()), len(event["scores_by_val_id"])
        told = Validated(max(0, int(event["iteration"]) - 1), self.seen, _whole(hits), total, 0, version, better)
        self.validations.append(told)
        self.tell(told, f"gepa/validated/{index}")

    def on_iteration_end(self, event: Mapping[str, Any]) -> None:
        """Tell what an iteration came to."""
        if not self._scores:
            return
        found = [one.scan for one in self._learned]
        book = self.reflection.book_of(self.best[2] if self.best is not None else "")
        number = int(event["iteration"]) - 1
        told = StepFinished(
            epoch=0,
            step=number,
            batch=len(self._scores),
            hits=_whole(sum(self._scores)),
            total=len(self._scores),
            reflections=sum(one.shape.n for one in self._learned),
            lessons=sum(len(scan.delta) for scan in found),
            operations=sum(len(scan.delta) for scan in found),
            refused=sum(note.startswith("refused") for one in self._learned for note in one.notes),
            uncovered=sum(len(scan.uncovered) for scan in found),
            failed=sum(len(scan.failed) for scan in found),
            calls=sum(scan.calls for scan in found),
            reads=sum(scan.reads for scan in found),
            depth=max((scan.depth for scan in found), default=0),
            bullets=len(book),
            tokens=tokens(book),
            version=self.recorder.version(self.best[2] if self.best is not None else ""),
            seconds=time.monotonic() - self._begun,
        )
        self.steps.append(told)
        self.tell(told, f"gepa/step/{number}")


def _whole(value: float) -> Any:
    """Return whole scores as whole numbers; parts of a score stay as they are."""
    return round(value) if abs(value - round(value)) < 1e-9 else round(value, 6)
