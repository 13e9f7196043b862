"""Learning from recorded runs: traces in, a playbook out; nothing is run again.

Two passes. The first reads everything once, one trace at a time, and keeps it redacted and cleaned in the run's folder
(`traces.jsonl`); the second learns from that file. So a resume needs no original, and memory holds an index.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import cast

from combee.errors import CombeeError, UsageError
from combee.kernel.journal import JSON
from combee.kernel.learn import RecordedTraces, TraceReflector
from combee.redaction import Redactor, Trace, count_tokens
from combee.run.estimates import Forecast, check_budget, forecast_run, work_of
from combee.run.folders import check_traces
from combee.run.methods import LearningMethod, Say, is_new
from combee.run.options import refuse_unknown_prices
from combee.run.settings import Settings
from combee.run.spec import Agent, Prepared, judge_of, make_agent
from combee.run.spread import cores
from combee.run.words import counted, typed
from combee.tasks import Exact, TaskSet
from combee.traces.mining import (
    HeldBack,
    JudgedReflector,
    MiningCurator,
    MiningReflector,
    StoredRuns,
    Survey,
    TraceFile,
    evidence_of,
    findings,
    keep,
    survey,
    users_of,
)
from combee.traces.mining.users import Users
from combee.traces.readers import Report, read

__all__ = ["EARLIER", "KEPT", "OTHER_FORMATS", "LearnFromTraces", "notices", "shown_report"]

OTHER_FORMATS = (
    "--format NAME takes one format for all files; docs/extend.md shows how to add a format. "
    'Any run can be written as a line {"messages": [...]} of OpenAI chat: docs/evidence/readers.md has it in ten lines.'
)

KEPT = "traces.jsonl"
EARLIER = "earlier.jsonl"
"""Stored runs in a run's folder that are not learned from again, but count for what several runs met or got past."""
_SHOWN = 10
_FEW = 3
_MOST_READ = 8000  # tokens of one trace that a reflector is shown


class LearnFromTraces(LearningMethod):
    """The kernel's loop over recorded runs: reflect, aggregate, curate; nothing is run again."""

    def unused(self, spec: Settings) -> dict[str, str]:
        """Return settings that have no meaning where nothing is answered or scored."""
        keys = [f"tasks.{key}" for key in ("source", "question", "answer", "id", "scorer", "train", "val", "test")]
        keys += ["agent.forget", "agent.output_limit", "learn.eval_every", "learn.guard_validate", "learn.view_tokens"]
        found = super().unused(spec) | dict.fromkeys(keys, "with recorded traces: they hold no tasks")
        return found if spec.tasks.redact else found | {"tasks.patterns": "with --no-redact"}

    def forecast(self, spec: Settings) -> Forecast:
        """Return what reflecting on them takes. Reads all of them; calls and keeps nothing."""
        refuse_unknown_prices(spec)
        result = read(_place(spec), spec.tasks.format or "auto")
        sizes = [*filter(None, keep(result.once(), None, None, _Size.of(spec), processes=_cores(spec)).facts)]
        if not result.report.traces:
            raise _nothing(spec, result.report)
        if not sizes:  # a model that is shown what code found is asked nothing where that is nothing
            line = f"{counted(result.report.traces, 'trace')}: code found nothing in them that a lesson is made of."
            hint = "No model is called. --set tasks.shown=runs lets it read whole runs."
            return Forecast((line, hint), {"traces": 0, "trace_tokens": 0, "formats": dict(result.report.formats)})
        found = forecast_run(spec, work_of(spec, sizes), answering=False)
        head = f"{counted(len(sizes), 'trace')}, about {sum(sizes):,} tokens as a reflector reads them."
        more = {"traces": len(sizes), "trace_tokens": sum(sizes), "formats": dict(result.report.formats)}
        return Forecast((head, *found.lines), {**found.data, **more})

    def prepare(self, spec: Settings, folder: Path, say: Say) -> Prepared:
        """Read and keep the traces of a new run; connect the parts.

        Raises:
            UsageError: Something cannot be used, or not one trace could be read.
        """
        agent = make_agent(spec)  # what is wrong with the settings is said before anything is read or written
        facts: dict[str, JSON] = {}
        if is_new(folder):
            spec, facts = _keep(spec, folder, say)
        prepared, held = _prepared(spec, folder, agent)
        if held:
            facts["held_back"] = [str(each) for each in held]
            say(
                f"held back: {counted(len(held), 'text')} of tools or users that order something; no lesson quotes them"
            )
            for each in held[:_SHOWN]:
                say(f"  {each}")
        return dataclasses.replace(prepared, facts=facts)

    def recorded(self, folder: Path, names: Collection[str]) -> Mapping[str, Trace]:
        """Return those of the named runs that a run keeps in its folder."""
        if not (folder / KEPT).is_file():
            return {}
        file = TraceFile(folder / KEPT)
        return {sample.id: file.load(sample) for sample in file.samples if sample.id in names}


def _place(spec: Settings) -> Path:
    path = Path(str(spec.tasks.traces))
    check_traces(path)
    return path


@dataclasses.dataclass(frozen=True, slots=True)
class _Size:
    """Says how many tokens of a trace a model is shown; 0 where it is not asked about it."""

    whole: bool
    users: str

    @classmethod
    def of(cls, spec: Settings) -> _Size:
        return cls(spec.tasks.shown == "runs" or not spec.calls_models, spec.tasks.users)

    def __call__(self, trace: Trace) -> int:
        if self.whole:
            return min(count_tokens(trace), _MOST_READ)
        users = users_of(trace) if self.users == "auto" else cast("Users", self.users)
        evidence = evidence_of(trace, findings(trace, users)[0], users)
        return 0 if evidence is None else count_tokens(evidence)


def _cores(spec: Settings) -> int:
    return cores(spec.workers.count)


def _nothing(spec: Settings, report: Report) -> UsageError:
    reasons = "\n  ".join(map(str, report.skipped[:_SHOWN]))
    return UsageError(
        f"No trace could be read from {spec.tasks.traces}.", hint=f"{reasons}\n  {OTHER_FORMATS}" if reasons else None
    )


def _keep(spec: Settings, folder: Path, say: Say) -> tuple[Settings, dict[str, JSON]]:
    """Read all traces into the folder; return the settings as the journal may hold them, and what was read."""
    redactor = Redactor(cast("dict[str, str]", spec.tasks.patterns)) if spec.tasks.redact else None
    result = read(_place(spec), spec.tasks.format or "auto")
    folder.mkdir(parents=True, exist_ok=True)
    kept = keep(_told(result.once(), say), folder / KEPT, redactor, _Size.of(spec), processes=_cores(spec))
    try:
        if not kept.traces:
            raise _nothing(spec, result.report)
        check_budget(spec, work_of(spec, [*filter(None, kept.facts)]), answering=False)
    except CombeeError:
        (folder / KEPT).unlink()
        raise
    facts = shown_report(result.report, None if redactor is None else kept.redacted)
    for line in _lines(facts):
        say(line)
    return _without_secrets(spec, redactor), {"read": facts}


def _without_secrets(spec: Settings, redactor: Redactor | None) -> Settings:
    """Return the settings as the journal may hold them: the traces are kept, their place and the patterns had a use."""
    place = str(spec.tasks.traces)
    shown = place if redactor is None else redactor(place).text
    return spec.instead(tasks={**spec.tasks.given(), "traces": shown, "patterns": sorted(spec.tasks.patterns)})


def _prepared(spec: Settings, folder: Path, agent: Agent) -> tuple[Prepared, tuple[HeldBack, ...]]:
    stored = TraceFile(folder / KEPT)
    config = spec.learn_config()
    judge = judge_of(spec, config, None)
    reflector: TraceReflector
    users = None if spec.tasks.users == "auto" else spec.tasks.users
    evidence = spec.tasks.shown == "evidence"
    surveyed: Survey | None = None
    if agent.name == "lexical" or evidence:
        allowed = (sample for sample in stored.samples if judge.refusal(sample.labels) is None)
        surveyed = survey(chain(_earlier(folder), map(stored.line, allowed)), users, processes=_cores(spec))
    if agent.name == "lexical":
        reflector = MiningReflector(surveyed)
        agent = dataclasses.replace(agent, curator=MiningCurator())
    else:
        reflector = cast("TraceReflector", agent.reflector)
        if not hasattr(reflector, "reflect_trace"):
            raise UsageError(f"The agent {agent.name} cannot learn from traces.", hint="Use --agent lexical or ace.")
        reflector = JudgedReflector(reflector, surveyed, users, evidence=evidence)
    reflecting = StoredRuns(stored, RecordedTraces(reflector))
    prepared = Prepared(spec, _no_tasks(stored), agent, config, reflecting, judge, stored.samples, stored.digest)
    own = {sample.id for sample in stored.samples}
    return prepared, () if surveyed is None else tuple(each for each in surveyed.held if each.trace in own)


def _earlier(folder: Path) -> Iterator[str]:
    """Yield the lines of runs that were learned before and are looked at beside the new ones, where there are any."""
    if (folder / EARLIER).is_file():
        file = TraceFile(folder / EARLIER)
        yield from map(file.line, file.samples)


def _no_tasks(stored: TraceFile) -> TaskSet:
    """Return a task set without tasks: a run on traces has nothing to score."""
    return TaskSet("traces", "traces", (), (), (), Exact(), about=f"{len(stored)} recorded runs")


def _told(traces: Iterator[Trace], say: Say) -> Iterator[Trace]:
    """Pass traces on; say now and then how many there were."""
    for number, trace in enumerate(traces, 1):
        yield trace
        if number % 500 == 0:
            say(f"read {number} traces")


def shown_report(report: Report, redacted: Mapping[str, int] | None) -> dict[str, JSON]:
    """Return what was read as plain data; `redacted` is None where nobody looked, which is not "none found"."""
    return {
        "traces": report.traces,
        "formats": dict(sorted(report.formats.items())),
        "files": dict(sorted(report.files.items())),
        "steps": report.steps,
        "tool_calls": report.tool_calls,
        "twice": report.twice,
        "redacted": None if redacted is None else dict(sorted(redacted.items())),
        "skipped": [str(notice) for notice in report.skipped],
        "notes": [str(notice) for notice in report.notes],
    }


def _lines(facts: Mapping[str, JSON]) -> list[str]:
    formats = cast("dict[str, int]", facts["formats"])
    files = cast("dict[str, int]", facts["files"])
    kinds = ", ".join(
        f"{name} {count}" + (f" in {counted(files[name], 'file')}" if name in files else "")
        for name, count in formats.items()
    )
    head = counted(cast("int", facts["traces"]), "trace")
    lines = [f"read {head} ({kinds}), {facts['steps']} steps, {facts['tool_calls']} tool calls"]
    if facts["twice"]:
        lines.append(f"{counted(cast('int', facts['twice']), 'trace')} met before: left out, each run counts once")
    counts = cast("dict[str, int] | None", facts["redacted"])
    if counts is None:
        lines.append("redaction is off: what the traces hold is stored as it is")
    else:
        lines.append("redacted: " + (", ".join(f"{kind} {count}" for kind, count in counts.items()) or "nothing found"))
    return lines + notices(facts, _SHOWN)


def notices(facts: Mapping[str, JSON], most: int) -> list[str]:
    """Return the first notices of what was not read, and of what was read but changed, as lines; of many alike one."""
    lines: list[str] = []
    for name, title in (("skipped", "not read"), ("notes", "noted")):
        alike: dict[str, list[str]] = {}
        for item in cast("list[str]", facts[name]):
            where, _, reason = item.partition(": ")
            alike.setdefault(reason, []).append(where)
        items = [
            f"{wheres[0]}{f' and {len(wheres) - 1} more' if len(wheres) > _FEW else ''}: {reason}"
            for reason, wheres in alike.items()
            for _ in (wheres[:1] if len(wheres) > _FEW else wheres)
        ]
        lines += [f"{title:<10} {item}" for item in items[:most]]
        if len(items) > most:
            lines.append(f"{title:<10} and {len(items) - most} more (`{typed('traces')} PATH --json` names all)")
    return lines
