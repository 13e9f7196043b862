"""What gepa did, as events of the journal: candidates, front, proposals with both scores, skips and errors.

gepa's callbacks are synchronous and carry no times; what one of them raises is swallowed. So an error in writing is
kept in `error`, and `stop` asks gepa to end. Events have keys: a replay adds none twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from combee.errors import CombeeError
from combee.gepa.component import Learned
from combee.gepa.methods import is_playbook
from combee.kernel.journal import JSON, Journal, hash_json
from combee.kernel.playbook import Playbook, digest, from_text, to_json

__all__ = ["GepaRecorder"]


class GepaRecorder:
    """Writes what a run does; give it to gepa in `callbacks`, and its `learned` to `CombeeReflection` as `tell`.

    Events, with iterations from 1 as in gepa's log (0: before the first):
        GepaStarted: components, trainset, valset (sizes).
        GepaCandidate: iteration, index, parents, score (mean), scores by validation id, best, metric_calls, texts (each
            {"text": ...}, or {"version": digest} of a playbook in the journal).
        GepaProposal: iteration, number, status (accepted, rejected), reason, candidate, parents, minibatch, before,
            after (scores of the minibatch), components (figures of each reflection).
        GepaFront: iteration, front (candidates), displaced. GepaSkipped: iteration, parent, reason.
        GepaIteration: iteration, accepted, metric_calls, candidates. GepaError: iteration, kind, message.
        GepaFinished: best, iterations, metric_calls.
        Scan: the tree of each reflection, as `combee.kernel.learn` records it (step: iteration).

    Args:
        journal: Where to write.
        train: Names of the training records by gepa's ids; None: the ids themselves.
        val: Names of the validation records, likewise.
        book_of: Returns the whole playbook for a text (`CombeeReflection.book_of`).
    """

    def __init__(
        self,
        journal: Journal,
        *,
        train: Sequence[str] | None = None,
        val: Sequence[str] | None = None,
        book_of: Callable[[str], Playbook] = lambda text: from_text(text).playbook,
    ) -> None:
        self.error: CombeeError | None = None
        self._journal = journal
        self._train, self._val = train, val
        self._book_of = book_of
        self._iteration = 0
        self._metric_calls = 0
        self._begin(0)

    def stop(self, state: object) -> bool:
        """Return whether to end: something could not be written (pass it in `stop_callbacks`)."""
        return self.error is not None

    def learned(self, one: Learned[Any]) -> None:
        """Keep the figures and the tree of a reflection."""
        number = sum(len(each.scans) for each in self._reflections)
        self._reflections.append(one)
        for place, scan in enumerate(one.scans, start=number):
            tree = {
                "epoch": 0,
                "step": max(0, self._iteration - 1),
                "attempt": place,
                "nodes": [_plain(asdict(node)) for node in scan.nodes],
                "uncovered": list(scan.uncovered),
                "failed": list(scan.failed),
                "covered": len(scan.covered),
                "claimed": len(scan.claimed),
            }
            self._write("Scan", tree, f"scan/0/{self._iteration}/{place}")

    def version(self, text: str) -> str:
        """Keep a playbook in the journal and return its digest."""
        book = self._book_of(text)
        name = digest(book)
        self._safely(lambda: self._journal.add_version(to_json(book), name, step=self._iteration))
        return name

    def on_optimization_start(self, event: Mapping[str, Any]) -> None:
        """The run begins."""
        sizes = {"trainset": event["trainset_size"], "valset": event["valset_size"]}
        self._write("GepaStarted", {"components": sorted(event["seed_candidate"]), **sizes}, "gepa/started")

    def on_iteration_start(self, event: Mapping[str, Any]) -> None:
        """Another iteration begins."""
        self._begin(int(event["iteration"]))

    def _begin(self, iteration: int) -> None:
        self._iteration = iteration
        self._reflections: list[Learned[Any]] = []
        self._minibatches: list[list[Any]] = []
        self._before: list[list[float]] = []
        self._after: list[list[float]] = []
        self._parents: list[list[int]] = []
        self._judged: set[int] = set()

    def on_minibatch_sampled(self, event: Mapping[str, Any]) -> None:
        """A minibatch was drawn."""
        self._minibatches.append(list(event["minibatch_ids"]))

    def on_evaluation_end(self, event: Mapping[str, Any]) -> None:
        """A parent or a proposal was scored on a minibatch."""
        if event["candidate_idx"] is not None:
            self._before.append([float(score) for score in event["scores"]])
        else:
            self._after.append([float(score) for score in event["scores"]])
            self._parents.append([int(parent) for parent in event["parent_ids"]])

    def on_evaluation_skipped(self, event: Mapping[str, Any]) -> None:
        """A parent gave nothing to reflect on."""
        data = {"iteration": self._iteration, "parent": event["candidate_idx"], "reason": event["reason"]}
        self._write("GepaSkipped", data, f"gepa/skipped/{self._iteration}/{event['candidate_idx']}")

    def on_candidate_accepted(self, event: Mapping[str, Any]) -> None:
        """A proposal is a candidate now."""
        index = event["new_candidate_idx"]
        self._proposal("accepted", "", float(event["new_score"]), index=index, parents=list(event["parent_ids"]))

    def on_candidate_rejected(self, event: Mapping[str, Any]) -> None:
        """A proposal was no better than its parent, or was not selected."""
        self._proposal("rejected", event["reason"], float(event["new_score"]), old=float(event["old_score"]))

    def _proposal(
        self,
        status: str,
        reason: str,
        new: float,
        *,
        old: float | None = None,
        index: int | None = None,
        parents: list[int] | None = None,
    ) -> None:
        number = self._match(new, old)
        whole = number is not None and len(self._minibatches) == len(self._after)
        before = self._before[number] if whole and number is not None and number < len(self._before) else None
        data = {
            "iteration": self._iteration,
            "number": number,
            "status": status,
            "reason": reason,
            "candidate": index,
            "parents": parents if parents is not None else (self._parents[number] if number is not None else []),
            "minibatch": self._names(self._minibatches[number], self._train) if whole and number is not None else None,
            "before": before if before is not None else old,
            "after": self._after[number] if number is not None else new,
            "components": {one.component: one.metadata() for one in self._reflections}
            if len(self._after) == 1
            else None,
        }
        self._write("GepaProposal", data, f"gepa/proposal/{self._iteration}/{status}/{index}/{number}")

    def _match(self, new: float, old: float | None) -> int | None:
        """Return which proposal of the iteration an event speaks of: gepa tells its sums only."""
        for number, after in enumerate(self._after):
            before = self._before[number] if number < len(self._before) else None
            same = old is None or before is None or abs(sum(before) - old) < 1e-9
            if number not in self._judged and abs(sum(after) - new) < 1e-9 and same:
                self._judged.add(number)
                return number
        return None

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        """A candidate was scored on the validation set."""
        index = int(event["candidate_idx"])
        texts = {name: self._kept(text) for name, text in event["candidate"].items()}
        data = {
            "iteration": self._iteration,
            "index": index,
            "parents": [int(parent) for parent in event["parent_ids"]],
            "score": float(event["average_score"]),
            "scores": {self._name(key, self._val): float(score) for key, score in event["scores_by_val_id"].items()},
            "best": bool(event["is_best_program"]),
            "metric_calls": self._metric_calls,
            "texts": texts,
        }
        self._write("GepaCandidate", data, f"gepa/candidate/{index}")

    def _kept(self, text: str) -> dict[str, str]:
        return {"version": self.version(text)} if is_playbook(text) else {"text": text}

    def on_pareto_front_updated(self, event: Mapping[str, Any]) -> None:
        """The front changed."""
        data: dict[str, JSON] = {
            "iteration": self._iteration,
            "front": list(event["new_front"]),
            "displaced": list(event["displaced_candidates"]),
        }
        self._write("GepaFront", data, f"gepa/front/{self._iteration}/{hash_json(data)[:12]}")

    def on_budget_updated(self, event: Mapping[str, Any]) -> None:
        """Metric calls were made."""
        self._metric_calls = int(event["metric_calls_used"])

    def on_iteration_end(self, event: Mapping[str, Any]) -> None:
        """An iteration is over."""
        state = event["state"]
        data = {
            "iteration": self._iteration,
            "accepted": bool(event["proposal_accepted"]),
            "metric_calls": int(state.total_num_evals),
            "candidates": len(state.program_candidates),
        }
        self._write("GepaIteration", data, f"gepa/iteration/{self._iteration}")

    def on_error(self, event: Mapping[str, Any]) -> None:
        """An iteration ended with an error."""
        error = event["exception"]
        data = {"iteration": self._iteration, "kind": type(error).__name__, "message": str(error)}
        self._write("GepaError", data, None)

    def on_optimization_end(self, event: Mapping[str, Any]) -> None:
        """The run is over."""
        data: dict[str, JSON] = {
            "best": int(event["best_candidate_idx"]),
            "iterations": self._iteration,  # gepa counts its own from 0 and says one less
            "metric_calls": int(event["total_metric_calls"]),
        }
        self._write("GepaFinished", data, f"gepa/finished/{hash_json(data)[:12]}")

    def _names(self, keys: Sequence[Any], names: Sequence[str] | None) -> list[str]:
        return [self._name(key, names) for key in keys]

    def _name(self, key: Any, names: Sequence[str] | None) -> str:
        return names[key] if names is not None and isinstance(key, int) and 0 <= key < len(names) else str(key)

    def _write(self, kind: str, data: Mapping[str, Any], key: str | None) -> None:
        self._safely(lambda: self._journal.record_event(kind, cast("JSON", _plain(data)), key=key))

    def _safely(self, write: Callable[[], object]) -> None:
        try:
            write()
        except CombeeError as error:
            self.error = self.error or error
            raise


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
