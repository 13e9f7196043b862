"""Say what can be read in a folder of traces; write it as JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click

from combee.errors import UsageError
from combee.kernel.journal import JSON
from combee.redaction import Redactor, Trace
from combee.run.folders import check_traces
from combee.run.spread import cores
from combee.run.words import typed
from combee.terminal.options import PathType, patterns_of, print_json
from combee.traces.method import OTHER_FORMATS, notices, shown_report
from combee.traces.mining import failed_calls, keep, users_of, what_users_said
from combee.traces.readers import read

__all__ = ["command"]

_SHOWN = 20


@click.command(name="traces")
@click.argument("path", type=PathType())
@click.option("--format", "trace_format", default="auto", show_default=True, help="One format, instead of by content.")
@click.option("--out", type=PathType(), help="Write the traces, cleaned and redacted, as JSON lines.")
@click.option("--redact", multiple=True, metavar="KIND=REGEX", help="A secret of your own; may be given often.")
@click.option("--no-redact", is_flag=True, help="Keep what the traces hold as it is, secrets too.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, with all that was not read.")
def command(
    path: Path, trace_format: str, out: Path | None, redact: tuple[str, ...], *, no_redact: bool, as_json: bool
) -> int:
    """Read PATH and say what is in it: formats, traces, steps, outcomes, failures, and what could not be read."""
    redactor = None if no_redact else Redactor(patterns_of(redact))
    check_traces(path)
    result = read(path, trace_format)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    kept = keep(result.once(), out, redactor, _looked_at, processes=cores())
    facts = shown_report(result.report, None if out is None or redactor is None else kept.redacted)
    facts |= {
        "outcomes": dict(sorted(Counter(ended for ended, *_ in kept.facts).items())),
        "failed_calls": sum(failures for _, failures, *_ in kept.facts),
        "users": dict(sorted(Counter(who for _, _, who, _ in kept.facts).items())),
        "not_judged": sum(unjudged for *_, unjudged in kept.facts),
        "out": None if out is None else str(out),
    }
    if as_json:
        print_json(facts)
        return 0 if result.report.traces else UsageError.exit_code
    click.echo(_text(facts))
    if not result.report.traces:
        raise UsageError(f"No trace could be read from {path}.", hint=f"See what was not read. {OTHER_FORMATS}")
    return 0


def _looked_at(trace: Trace) -> tuple[str, int, str, int]:
    """Return how a run ended, how many of its calls failed, who its user is, and how many messages were not judged."""
    who = users_of(trace)
    return _ended(trace), failed_calls(trace), who, len(what_users_said(trace, who).unjudged)


def _ended(trace: Trace) -> str:
    outcome = trace.outcome
    if outcome is None or outcome.success is None:
        return "unknown"
    said = "passed" if outcome.success else "failed"
    return f"{said} (claimed)" if outcome.claimed else said


def _text(facts: Mapping[str, JSON]) -> str:
    def pairs(name: str) -> str:
        found = facts[name]
        shown = (f"{key} {count}" for key, count in found.items()) if isinstance(found, dict) else ()
        return ", ".join(shown) or "none"

    met = f", {facts['twice']} more met before: each run counts once" if facts["twice"] else ""
    lines = [
        f"traces     {facts['traces']} ({pairs('formats')})" + met,
        f"steps      {facts['steps']}, {facts['tool_calls']} tool calls, {facts['failed_calls']} failed",
        f"outcomes   {pairs('outcomes')}",
        f"users      {pairs('users')}",
    ]
    if facts["not_judged"]:
        lines.append(
            f"not judged {facts['not_judged']} messages of developers: code cannot tell whether they set something "
            f"right; `{typed('learn')} --from PATH --model NAME` asks a model"
        )
    if facts["out"]:
        lines.append(f"redacted   {'not looked for' if facts['redacted'] is None else pairs('redacted')}")
        lines.append(f"wrote      {facts['out']}")
    return "\n".join([*lines, *notices(facts, _SHOWN)])
