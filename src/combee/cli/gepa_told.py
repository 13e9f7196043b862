"""What gepa's search says of itself, told as the loop's events: display, `runs` and report show it like any run.

The guard speaks here too: of proposals, and of candidates whose validation scores fall below those of `stable`.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from combee.kernel.guard import Evidence, Rows, Verdict, judge
from combee.kernel.journal import Journal
from combee.kernel.learn import Alerted, Event, Judge, StepFinished, Task, Validated
from combee.kernel.learn.judge import guard_event, paired
from combee.kernel.playbook import Delta, tokens
from combee.run.methods import Display

if TYPE_CHECKING:
    from combee.gepa import CombeeReflection, GepaRecorder, TaskAdapter
    from combee.gepa.component import Learned

__all__ = ["COMPONENT", "GepaRun"]

COMPONENT = "playbook"


@dataclass
class GepaRun:
    """A listener of gepa. `best` is (score, candidate, text); `seen` counts samples that parents were scored on.

    `val` are the validation tasks in gepa's order; how candidates did on them, part by part, is known to the adapter.
    """

    journal: Journal
    display: Display
    recorder: GepaRecorder
    reflection: CombeeReflection
    judge: Judge
    adapter: TaskAdapter
    val: Sequence[Task]
    steps: list[StepFinished] = field(default_factory=list)
    validations: list[Validated] = field(default_factory=list)
    best: tuple[float, int, str] | None = None
    last: str = ""
    seen: int = 0
    alert: Callable[[Verdict, Evidence, str], Alerted | None] = lambda verdict, evidence, place: None
    verdicts: Counter[str] = field(default_factory=Counter)
    _stable: Rows | None = None
    _texts: dict[int, str] = field(default_factory=dict)
    _scores: list[float] = field(default_factory=list)
    _learned: list[Learned[Any]] = field(default_factory=list)
    _begun: float = 0.0

    def learned(self, one: Learned[Any]) -> None:
        """Take what a reflection came to, and what the guard said of it."""
        number = len(self._learned)
        self._learned.append(one)
        self.recorder.learned(one)
        for judged in one.judged:
            evidence = judged.evidence
            self.verdicts[judged.verdict.action] += 1
            key = f"gepa/guard/{evidence.step}/{number}/{evidence.attempt}"
            self.tell(guard_event(evidence.step, evidence, judged.verdict), key)
            if judged.alerted is not None:
                self.tell(judged.alerted, f"{key}/alerted")

    def guarded(self) -> str:
        """Return in words what the guard did, or nothing where it accepted all."""
        words = {"retry_smaller": "had made again in smaller groups", "reject": "refused", "alert": "alerted of"}
        found = [f"{said} {self.verdicts[action]}" for action, said in words.items() if self.verdicts[action]]
        return f"; the guard {', '.join(found)}" if found else ""

    def tell(self, event: Event, key: str | None) -> None:
        """Record an event and show it."""
        data = dataclasses.asdict(event)
        self.journal.record_event(type(event).__name__, data, key=key)
        self.display.observe(event)

    def on_iteration_start(self, event: Mapping[str, Any]) -> None:
        """Begin an iteration."""
        self._scores, self._learned, self._begun = [], [], time.monotonic()
        self.reflection.step = int(event["iteration"]) - 1

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
        if self.judge.enabled:
            tasks = [self.val[key] for key in event["scores_by_val_id"]]
            scores = self.adapter.scores_of(event["candidate"], tasks)
            rows = {task.id: (score.hits, max(1, score.total)) for task, score in zip(tasks, scores, strict=True)}
            self._compare(rows, told, index)

    def _compare(self, rows: Rows, told: Validated, index: int) -> None:
        """Compare a candidate with `stable`: the start, or the last one that was better than it beyond chance.

        Not with gepa's best: that has the luckiest score of all, and every later candidate would look like a loss.
        """
        evidence = Evidence(told.step, {}, Delta())
        promoted = self._stable is None
        if self._stable is not None:
            state = self.judge.state
            found = judge(evidence, state, self.judge.limits, trials=[paired("stable", rows, self._stable)])
            # A look is spent. A validation is no step: it has no yield to say what is usual.
            looks = state.spending.looks + len(found.comparisons)
            self.judge.state = replace(state, spending=replace(state.spending, looks=looks))
            promoted = found.promote
            # gepa keeps a candidate for what it alone does right; it never becomes the best by a worse score.
            verdict = replace(found, action="alert" if found.action == "reject" else found.action, rollback=False)
            self.verdicts[verdict.action] += 1
            self.tell(guard_event(told.step, evidence, verdict), f"gepa/guard/validated/{index}")
            alerted = self.alert(verdict, evidence, f"validated/{index}")
            if alerted is not None:
                self.tell(alerted, f"gepa/guard/validated/{index}/alerted")
        if promoted:
            self._stable = rows
            self.journal.label("stable", told.version, key=f"gepa/stable/{index}")

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
            operations=sum(len(one.judged[-1].verdict.delta) for one in self._learned),
            refused=sum(note.startswith("refused") for one in self._learned for note in one.notes),
            uncovered=sum(len(scan.uncovered) for scan in found),
            failed=sum(len(scan.failed) for scan in found),
            calls=sum(one.calls for one in self._learned),
            reads=sum(scan.reads for one in self._learned for scan in one.scans),
            depth=max((sum(scan.depth for scan in one.scans) for one in self._learned), default=0),
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
