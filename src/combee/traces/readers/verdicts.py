"""SWE-bench's reports of an evaluation: which instances were resolved, for the recorded runs beside them.

A report lies in the folder of the runs, above it, or in `results/` beside it. A run's instance is its `task_id`, or the
name of its file. What a run says of itself gives way to the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from combee.redaction import Outcome, Trace
from combee.traces.readers.source import Source
from combee.traces.readers.values import rows, table, text

_LARGEST = 4 << 20
_RESOLVED = ("resolved_ids", "resolved")
_JUDGED = ("unresolved_ids", "completed_ids", "submitted_ids", "error_ids", "empty_patch_ids",
           "generated", "with_logs", "applied", "no_generation", "test_errored", "test_timeout")  # fmt: skip


def verdicts_in(folder: Source) -> dict[str, bool]:
    """Return by instance whether it was resolved, from the reports in a folder; empty where there is none."""
    found: dict[str, bool] = {}
    for name in folder.names:
        if name == "results" and (inner := folder.child(name)).folder:
            places = [inner.child(each) for each in inner.names]
        else:
            places = [folder.child(name)]
        for place in places:
            if _may_be_report(place):
                found |= _verdicts(place.quiet().read_json(_LARGEST))
    return found


def _may_be_report(place: Source) -> bool:
    name = place.path.name
    return name.endswith(".json") and ("result" in name or "report" in name or name.count(".") > 1) and not place.folder


def is_report(value: object) -> bool:
    """Whether a JSON document is such a report."""
    record = table(value)
    resolved = next((key for key in _RESOLVED if isinstance(record.get(key), list)), None)
    return resolved is not None and any(isinstance(record.get(key), list) for key in _JUDGED)


def _verdicts(value: object) -> dict[str, bool]:
    if not is_report(value):
        return {}
    record = table(value)
    found = {text(each): False for key in _JUDGED for each in rows(record.get(key))}
    found |= {text(each): True for key in _RESOLVED for each in rows(record.get(key))}
    found.pop("", None)
    return found


def judged(trace: Trace, source: Source, verdicts: Mapping[str, bool]) -> Trace:
    """Return the trace with the verdict of its instance, where there is one and nobody else has judged it."""
    if trace.outcome is not None and not trace.outcome.claimed and trace.outcome.success is not None:
        return trace
    file = PurePosixPath(source.name).name
    names = (trace.meta.get("task_id", ""), file.partition(".traj")[0], file.rpartition(".")[0])
    name = next((each for each in names if each in verdicts), None)
    if name is None:
        return trace
    detail = trace.outcome.detail if trace.outcome else ""
    meta = {"task_id": name, **trace.meta}
    return replace(trace, outcome=Outcome(success=verdicts[name], detail=detail), meta=meta)
