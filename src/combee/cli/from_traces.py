"""`combee learn --from PATH`: recorded runs in, a playbook out; nothing is run again.

Two passes. The first reads everything once, one trace at a time, and keeps it redacted and cleaned in the run's folder
(`traces.jsonl`); the second learns from that file. So a resume needs no original, and memory holds an index.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import click

from combee.cli.dryrun import print_estimate
from combee.cli.finish import finish, print_finished
from combee.errors import RunError, UsageError
from combee.files import real_path
from combee.kernel.journal import JSON, Journal
from combee.kernel.learn import LearnResult, RecordedTraces, TraceReflector
from combee.kernel.playbook import Bullet, Playbook
from combee.redaction import Redactor, Trace, count_tokens
from combee.run.estimates import check_budget, work_of
from combee.run.execute import Finished
from combee.run.folders import new_run, refuse_device
from combee.run.methods import Display, run_loop
from combee.run.spec import Prepared, RunSpec, judge_of, make_agent
from combee.run.words import counted, typed
from combee.tasks import Exact, TaskSet
from combee.traces.mining import MiningCurator, MiningReflector, StoredRuns, TraceFile, keep, survey
from combee.traces.readers import Report, read

__all__ = [
    "KEPT",
    "RecordedMethod",
    "check_place",
    "learn_from_traces",
    "notices",
    "patterns_of",
    "prepare_traces",
    "shown_report",
    "with_traces",
]

KEPT = "traces.jsonl"
_SHOWN = 10
_MOST_READ = 8000  # tokens of one trace that a reflector is shown


def patterns_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Read `KIND=REGEX` options.

    Raises:
        UsageError: one names no kind, or a kind is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        kind, equals, expression = text.partition("=")
        if not equals or not expression or not re.fullmatch(r"[\w-]+", kind):
            raise UsageError(f"--redact {text!r} names no kind.", hint=r"Write KIND=REGEX, like ticket='T-\d+'.")
        if kind in found:
            raise UsageError(f"--redact names the kind {kind!r} twice.", hint="Join the two with |, or name another.")
        found[kind] = expression
    return found


def check_place(path: Path) -> None:
    """Refuse what cannot hold traces, by the name that was typed."""
    refuse_device(path)
    if not os.path.lexists(path):
        raise UsageError(f"There is no {path}.", hint="Give a file or a folder of traces.")


def with_traces(spec: RunSpec, source: str | None, options: Mapping[str, Any]) -> RunSpec:
    """Return the settings with the traces that the options name, in place of tasks."""
    if source is not None:
        raise UsageError(
            f"Both --from and {source!r} are given.", hint="Learn from traces or from tasks, not from both."
        )
    place = options["from_path"]
    check_place(place)
    if options["no_redact"] and options["redact"]:
        raise UsageError("--no-redact and --redact exclude each other.", hint="Leave one of them out.")
    tasks = {
        "from": str(real_path(place)),
        "format": options["trace_format"],
        "redact": not options["no_redact"],
        "patterns": patterns_of(options["redact"]),
    }
    return dataclasses.replace(spec, tasks=tasks)


def learn_from_traces(spec: RunSpec, options: Mapping[str, Any]) -> None:
    """Read, keep, learn, and say what was read and what was learned."""
    path = Path(str(spec.tasks["from"]))
    quiet = bool(options["quiet"] or options["as_json"])
    redactor = None if spec.tasks.get("redact") is False else Redactor(spec.tasks.get("patterns") or {})
    result = read(path, str(spec.tasks.get("format") or "auto"))
    if options["dry_run"]:
        _print_dry_run(spec, result.report, result.once(), as_json=options["as_json"])
        return
    folder = new_run(options["name"], options["out"], f"traces-{spec.learn_config().aggregate}")
    make_agent(spec)  # what is wrong with the settings is said before anything is read or written
    folder.mkdir(parents=True, exist_ok=True)
    sizes: list[int] = []
    kept = keep(_shown(result.once(), sizes, quiet=quiet), folder / KEPT, redactor)
    if not kept.traces:
        (folder / KEPT).unlink()
        raise RunError(
            f"No trace could be read from {path}.", hint="\n  ".join(map(str, result.report.skipped[:_SHOWN])) or None
        )
    try:
        check_budget(spec, work_of(spec, sizes))
    except UsageError:
        (folder / KEPT).unlink()
        raise
    facts = shown_report(result.report, None if redactor is None else kept.redacted)
    if not quiet:
        click.echo("\n".join(_lines(facts)), err=True)
    prepared = prepare_traces(_without_secrets(spec, redactor), folder)
    done = finish(prepared, folder, quiet=quiet, as_json=options["as_json"])
    print_finished(done, as_json=options["as_json"], more={"read": facts, "top": _top(done)})
    if not options["as_json"]:
        click.echo("\n".join(_top_lines(done)))


def _without_secrets(spec: RunSpec, redactor: Redactor | None) -> RunSpec:
    """Return the settings as the journal may hold them: the traces are kept, their place and the patterns had a use."""
    place = str(spec.tasks["from"])
    kinds = sorted(spec.tasks["patterns"])
    tasks = {**spec.tasks, "from": place if redactor is None else redactor(place).text, "patterns": kinds}
    return dataclasses.replace(spec, tasks=tasks)


class RecordedMethod:
    """The kernel's loop over recorded runs: reflect, aggregate, curate; nothing is run again."""

    def prepare(self, spec: RunSpec, folder: Path | None) -> Prepared:
        """Connect the parts. Raises `UsageError` without a folder: there is nothing to score."""
        return prepare_traces(spec, folder)

    def learn(self, prepared: Prepared, start: Playbook | None, journal: Journal, display: Display) -> LearnResult:
        """Run the loop. Raises what `run_loop` raises."""
        return run_loop(prepared, start, journal, display)


def prepare_traces(spec: RunSpec, folder: Path | None) -> Prepared:
    """Connect the parts of a run that learns from the traces kept in its folder."""
    if folder is None:
        raise UsageError(
            "This run learned from traces: there are no tasks to score.", hint="Name tasks: a file, or finer."
        )
    config = spec.learn_config()
    stored = TraceFile(folder / KEPT)
    agent = make_agent(spec)
    judge = judge_of(spec, config, None)
    reflector: TraceReflector
    if agent.name == "lexical":
        if spec.agent.get("forget") is not None or spec.agent.get("output_limit") is not None:
            raise UsageError("--forget is for tasks: lessons from traces are kept by code.", hint="Leave it out.")
        allowed = (sample for sample in stored.samples if judge.refusal(sample.labels) is None)
        reflector = MiningReflector(survey(map(stored.load, allowed)))
        agent = dataclasses.replace(agent, curator=MiningCurator())
    else:
        reflector = cast("TraceReflector", agent.reflector)
        if not hasattr(reflector, "reflect_trace"):
            raise UsageError(f"The agent {agent.name} cannot learn from traces.", hint="Use --agent lexical or ace.")
    return Prepared(
        spec,
        _no_tasks(stored),
        agent,
        config,
        StoredRuns(stored, RecordedTraces(reflector)),
        judge,
        stored.samples,
        stored.digest,
    )


def _no_tasks(stored: TraceFile) -> TaskSet:
    """Return a task set without tasks: a run on traces has nothing to score."""
    return TaskSet("traces", "traces", (), (), (), Exact(), about=f"{len(stored)} recorded runs")


def _shown(traces: Iterator[Trace], sizes: list[int], *, quiet: bool) -> Iterator[Trace]:
    """Pass traces on and note their sizes; say now and then how many there were, where a person waits."""
    for number, trace in enumerate(traces, 1):
        sizes.append(min(count_tokens(trace), _MOST_READ))
        if not quiet and number % 500 == 0:
            click.echo(f"read {number} traces", err=True)
        yield trace


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
    kinds = ", ".join(f"{name} {count} in {counted(files.get(name, 0), 'file')}" for name, count in formats.items())
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
    """Return the first notices of what was not read, and of what was read but changed, as lines."""
    lines: list[str] = []
    for name, title in (("skipped", "not read"), ("notes", "noted")):
        items = cast("list[str]", facts[name])
        lines += [f"{title:<10} {item}" for item in items[:most]]
        if len(items) > most:
            lines.append(f"{title:<10} and {len(items) - most} more (`{typed('traces')} PATH --json` names all)")
    return lines


def _by_support(done: Finished) -> list[Bullet]:
    book = done.result.best
    return sorted(book, key=lambda bullet: (-len(bullet.sources), bullet.harmful - bullet.helpful, bullet.id))


def _top(done: Finished) -> JSON:
    return [
        {"id": bullet.id, "runs": len(bullet.sources), "text": bullet.text} for bullet in _by_support(done)[:_SHOWN]
    ]


def _top_lines(done: Finished) -> list[str]:
    best = _by_support(done)[:5]
    if not best:
        return ["Nothing was learned: no run shows a failure and its fix that could be said in a line."]
    return [
        "best supported:",
        *(f"  {counted(len(bullet.sources), 'run'):>8}  [{bullet.id}] {bullet.text}" for bullet in best),
    ]


def _print_dry_run(spec: RunSpec, report: Report, traces: Iterator[Trace], *, as_json: bool) -> None:
    sizes = [min(count_tokens(trace), _MOST_READ) for trace in traces]
    if not as_json:
        click.echo(f"{counted(len(sizes), 'trace')}, about {sum(sizes):,} tokens as a reflector reads them.")
    more = {"traces": len(sizes), "trace_tokens": sum(sizes), "formats": dict(report.formats)}
    print_estimate(spec, as_json=as_json, work=work_of(spec, sizes), more=more)
