"""Inspect AI logs: `.json` documents and `.eval` archives, one trace for each sample and epoch.

Long texts stand apart as `attachment://` references and are put back. Every scorer's value counts; the headline
scorer's, else the first one's, is the score.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from functools import partial

from combee.redaction import Outcome, Trace
from combee.traces.readers.archive import members
from combee.traces.readers.draft import TraceDraft, failure_detail, graded
from combee.traces.readers.messages import content_text, pieces
from combee.traces.readers.shape import parse_json
from combee.traces.readers.source import Source
from combee.traces.readers.values import compact, flag, number, objects, rows, table, text, when

_REFERENCE = re.compile(r"attachment://([0-9a-zA-Z]{16,64})")
_SAMPLE = re.compile(r"samples/[^/]{1,500}\.json\Z")
_GRADES = {"C": 1.0, "CORRECT": 1.0, "I": 0.0, "INCORRECT": 0.0, "P": 0.5, "N": 0.0, "YES": 1.0, "NO": 0.0}
_DEEPEST = 40


class InspectReader:
    """Reads every sample of a log."""

    name = "inspect_ai"
    fields = ("eval", "samples", "plan", "results")

    def sniff(self, source: Source) -> float:
        """Look for an eval with its plan or samples, or for the members of an `.eval` archive."""
        if source.kind == "archive":
            names = _member_names(source)
            known = {"header.json", "_journal/start.json", "summaries.json"}
            return 0.95 if names & known or any(_SAMPLE.match(name) for name in names) else 0.0
        for value in source.first:
            record = table(value)
            if "eval" in record and ("samples" in record or "plan" in record) and "task" in table(record["eval"]):
                return 1.0
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the samples."""
        if source.kind == "archive":
            yield from _from_archive(source)
            return
        for line, value in source.records():
            log = table(value)
            if not rows(log.get("samples")):
                source.skip("a log without samples", line)
            for sample in objects(log.get("samples")):
                yield from _sample(source, sample, log, line)


def _member_names(source: Source) -> set[str]:
    names: set[str] = set()

    def look(name: str) -> bool:
        names.add(name)
        return False

    list(members(source.quiet(), look))
    return names


def _from_archive(source: Source) -> Iterator[Trace]:
    header: dict[str, object] = {}
    for name in ("header.json", "_journal/start.json"):
        for _, data in members(source, partial(operator.eq, name)):
            header = header or _json(source, name, data)
    for name, data in members(source, lambda member: _SAMPLE.match(member) is not None and ".." not in member):
        sample = _json(source, name, data)
        if sample:
            yield from _sample(source, sample, header, None)


def _json(source: Source, name: str, data: bytes) -> dict[str, object]:
    try:
        return table(parse_json(data))
    except ValueError as error:
        source.skip(f"member {name[:200]!r}: {error}")
        return {}


def _restored(value: object, attachments: dict[str, object], depth: int = 0) -> object:
    """Put the texts back that stand apart."""
    if isinstance(value, str) and "attachment://" in value:
        return _REFERENCE.sub(lambda match: text(attachments.get(match[1]), match[0]), value)
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_restored(item, attachments, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key: _restored(item, attachments, depth + 1) for key, item in value.items()}
    return value


def _sample(source: Source, sample: dict[str, object], log: dict[str, object], line: int | None) -> Iterator[Trace]:
    attachments = table(sample.get("attachments"))
    draft = TraceDraft(source)
    draft.run = text(sample.get("uuid")) or f"{text(sample.get('id'))}/{text(sample.get('epoch'))}"
    asked = _restored(sample.get("input"), attachments)
    messages = _restored(sample.get("messages"), attachments)
    for message in rows(messages):
        draft.pieces(pieces(message), line=line)
    if not draft.steps:
        for message in rows(asked) or [{"role": "user", "content": asked}]:
            draft.pieces(pieces(message), line=line)
    spec = table(log.get("eval"))
    task = asked if isinstance(asked, str) else None
    target = sample.get("target")
    meta = {
        "task_id": f"{text(spec.get('task'))}/{text(sample.get('id'))}",
        "epoch": text(sample.get("epoch")),
        "model": text(spec.get("model")),
        "target": target if isinstance(target, str) else compact(target),
        "started": when(sample.get("started_at")) or "",
    }
    yield from draft.trace(task=task, outcome=_outcome(sample, log, attachments), meta=meta, line=line)


def _grade(value: object) -> float | None:
    known = flag(value)
    if known is not None:
        return float(known)
    if isinstance(value, str) and value.strip().upper() in _GRADES:
        return _GRADES[value.strip().upper()]
    if isinstance(value, dict):
        grades = [grade for item in value.values() if (grade := _grade(item)) is not None]
        return sum(grades) / len(grades) if grades else None
    return number(value)


def _outcome(sample: dict[str, object], log: dict[str, object], attachments: dict[str, object]) -> Outcome | None:
    void = sample.get("invalidation") or sample.get("invalidated") or log.get("invalidated")
    if void:  # a person found that the sample counts for nothing, whatever its score
        why = text(table(void).get("reason"))
        return Outcome(detail=f"invalidated: {why}" if why else "invalidated")
    scores = {name: table(score) for name, score in table(sample.get("scores")).items()}
    if not scores and isinstance(sample.get("score"), dict):
        scores = {"score": table(sample["score"])}
    grades = {name: grade for name, score in scores.items() if (grade := _grade(score.get("value"))) is not None}
    trouble = failure_detail(sample.get("error")) or failure_detail(sample.get("limit"))
    if not grades:
        return Outcome(detail=trouble) if trouble else None
    headline = text(table(table(log.get("results")).get("headline")).get("scorer"))
    chosen = headline if headline in grades else next(iter(grades))
    said = text(_restored(content_text(scores[chosen].get("explanation") or ""), attachments))
    return graded(grades, chosen, "; ".join(part for part in (trouble, said) if part))
