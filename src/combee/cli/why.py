"""`combee why`: where a bullet comes from. `combee forget`: the playbook as if a trace had never been.

For recorded runs `why` also names the file, the task and the cited steps.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from combee.cli.versions import RESERVED
from combee.errors import UsageError
from combee.kernel.journal import Journal
from combee.kernel.learn.collect import reflection_name
from combee.kernel.learn.roles import Step, Trace
from combee.kernel.playbook import check_place, digest, save, to_json
from combee.run.folders import find_run
from combee.run.history import Origin, Why, read_history
from combee.run.methods import method_of
from combee.run.settings import Settings
from combee.run.spec import SPEC_KEY
from combee.run.words import counted, typed
from combee.terminal.options import PathType, json_option, print_json

_LONGEST = 100


@click.command(name="why")
@click.argument("run")
@click.argument("bullet")
@click.option("--version", default="last", show_default=True, help="A label (best, last, stable) or a digest.")
@click.option(
    "--steps", is_flag=True, help="Also show the steps of recorded runs that are cited (>), with their answers."
)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def why_command(run: str, bullet: str, version: str, *, steps: bool, as_json: bool) -> None:
    """Say where BULLET of RUN comes from: reflections, traces, nodes of the tree, and votes over time."""
    folder = find_run(run)
    with Journal.open(folder, create=False, read_only=True) as journal:
        digest = journal.resolve(version)
        found = read_history(journal).why(digest, bullet.strip("[]"))
        texts = _texts(journal, {origin.reflection for origin in found.origins})
        spec = journal.meta(SPEC_KEY)
    kept: Mapping[str, Trace] = {}
    if spec is not None:  # a program of one's own keeps no settings
        method = method_of(Settings.from_json(spec))
        kept = method.recorded(folder, {origin.trace for origin in found.origins if origin.trace is not None})
    if as_json:
        data = dataclasses.asdict(found)
        for origin in data["origins"]:
            origin["text"] = texts.get(origin["reflection"])
            trace = kept.get(origin["trace"])
            origin["from"] = None if trace is None else _place(trace)
            origin["words_of"] = [
                _origin(lesson, origin["trace"], origin["text"] or "") for lesson in origin["lessons"]
            ]
            if steps and trace is not None:
                origin["steps"] = _steps(origin["lessons"], origin["trace"], origin["text"] or "", trace)
        print_json(data)
    else:
        click.echo(_told(found, texts, kept, steps=steps))


def _texts(journal: Journal, names: set[str]) -> dict[str, str]:
    """Return what these reflections say in full; a recorded run's names the steps that show a lesson."""
    texts: dict[str, str] = {}
    for address, value in journal.results("reflect"):
        name = reflection_name(address.item, address.place.epoch)
        if name in names and isinstance(value, dict):
            texts[name] = str(value.get("text", ""))
    return texts


def _place(trace: Trace) -> str:
    """Return the file and format that a trace was read from, and the beginning of its task."""
    source, form = trace.meta.get("source"), trace.meta.get("format")
    place = f"{source} ({form})" if source and form else source or form or "a recorded run"
    title = _short(next((line for line in trace.task.splitlines() if line.strip()), ""))
    return f"{place}: {title}" if title else place


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _cited(lesson: str, trace: str | None, text: str) -> str:
    """Return the steps that a reflection names as showing a lesson, such as `1, 3`; empty where it names none."""
    _, _, rest = text.partition(f"{lesson} (trace {trace}, step ")
    return rest.partition(")")[0].partition(";")[0]


def _origin(lesson: str, trace: str | None, text: str) -> str:
    """Return whose words a lesson is made of, where its reflection says it."""
    _, _, rest = text.partition(f"{lesson} (trace {trace}")
    return rest.partition(")")[0].partition("; words of ")[2]


def _around(cited: str, trace: Trace) -> list[tuple[Step, bool]]:
    """Return the cited steps, and as context those that answer a call of theirs; true says that a step is cited."""
    numbers = {int(number) for number in re.findall(r"\d+", cited)}
    calls = {call.id for step in trace.steps if step.index in numbers for call in step.tool_calls}
    marked = ((step, step.index in numbers) for step in trace.steps)
    return [(step, named) for step, named in marked if named or step.answers in calls]


def _lesson_lines(lesson: str, origin: Origin, text: str, trace: Trace | None) -> list[str]:
    """Return a lesson with the steps that show it, where its reflection names them; in full with the trace."""
    cited = _cited(lesson, origin.trace, text)
    words = _origin(lesson, origin.trace, text)
    where = f" ({'steps' if ',' in cited else 'step'} {cited})" if cited else ""
    lines = [f"    said: {lesson}{where}", *([f"    words of: {words}"] if words else [])]
    for step, named in [] if trace is None else _around(cited, trace):
        who = f"step {step.index}, {step.role}"
        lines.append(f"    > {who}: {_line(step)}" if named else f"      {who} (the answer, not cited): {_line(step)}")
    return lines


def _line(step: Step) -> str:
    calls = "; ".join(f"{call.name} {call.arguments}" for call in step.tool_calls)
    return _short(" ".join(filter(None, (step.text, calls))))


def _steps(lessons: Sequence[str], name: str, text: str, trace: Trace) -> list[dict[str, object]]:
    """Return the steps behind each lesson of a reflection on the trace `name`, as plain data."""
    return [
        {"lesson": number, "index": step.index, "role": step.role, "text": _line(step), "cited": named}
        for number, lesson in enumerate(lessons)
        for step, named in _around(_cited(lesson, name, text), trace)
    ]


def _told(found: Why, texts: Mapping[str, str], kept: Mapping[str, Trace], *, steps: bool) -> str:
    bullet = found.bullet
    lines = [f"[{bullet.id}] {bullet.text}", f"helpful {bullet.helpful}, harmful {bullet.harmful}", "", "history"]
    for touch in found.touches:
        cited = f" (from {', '.join(touch.sources)})" if touch.sources else ""
        text = "" if touch.detail == bullet.text else f": {touch.detail}"
        lines.append(f"  epoch {touch.epoch}, step {touch.step} ({touch.version[:12]}): {touch.what}{text}{cited}")
    lines += ["", f"rests on {counted(len(found.origins), 'reflection')}"]
    for origin in found.origins:
        if origin.sample is None:
            lines.append(f"  {origin.reflection}: not of this run")
            continue
        outcome = {True: "the answer was right", False: "the answer was wrong", None: "not scored"}[origin.passed]
        trace = kept.get(origin.trace or "")
        where = f"task {origin.sample}, trace {origin.trace}" if trace is None else _place(trace)
        lines.append(f"  {origin.reflection}: {where}; {outcome}")
        own = [lesson for lesson in origin.lessons if lesson == bullet.text] or origin.lessons
        for lesson in own:
            lines += _lesson_lines(lesson, origin, texts.get(origin.reflection, ""), trace if steps else None)
        if others := len(origin.lessons) - len(own):
            lines.append(f"    and {counted(others, 'lesson')} of other bullets")
        lines += [f"    passed: {node}" for node in origin.nodes]
    return "\n".join(lines)


@click.command(name="forget")
@click.argument("run")
@click.option("--trace", "traces", multiple=True, required=True, help="A trace, task or reflection; may be repeated.")
@click.option("--version", default="last", show_default=True, help="The version to start from: a label or a digest.")
@click.option("--to", "label", default="forgot", show_default=True, help="The label to put on the new version.")
@click.option("--out", type=PathType(), help="Also write the new playbook (.json, .md, .txt).")
@json_option
def forget_command(
    run: str, *, traces: tuple[str, ...], version: str, label: str, out: Path | None, as_json: bool
) -> None:
    """Replay RUN without the reflections on a trace; the result is a new version. The journal still holds the trace."""
    if label in RESERVED:
        raise UsageError(f"The label {label!r} is moved by the run itself.", hint="Choose another, or stable.")
    if out is not None:
        check_place(out)
    folder = find_run(run)
    with Journal.open(folder, create=False) as journal:
        old = journal.resolve(version)
        found = read_history(journal).forget(old, traces)
        new = digest(found.playbook)
        row = journal.version(old)
        data = {"forgot": list(found.sources), "of": old, "mixed": [bullet.id for bullet in found.mixed]}
        journal.add_version(to_json(found.playbook), new, parent=old, epoch=row.epoch, step=row.step, data=data)
        journal.label(label, new, note=f"forgot {', '.join(traces)}")
    if out is not None:
        save(found.playbook, out)
    if as_json:
        told: dict[str, object] = {
            "run": str(folder),
            "version": new,
            "label": label,
            "reflections": list(found.sources),
            "removed": [bullet.id for bullet in found.removed],
            "mixed": {bullet.id: bullet.text for bullet in found.mixed},
        }
        print_json(told)
        return
    click.echo(f"{counted(len(found.sources), 'reflection')} taken out: {', '.join(found.sources)}")
    click.echo(
        f"gone {counted(len(found.removed), 'bullet')}, left {len(found.playbook)}: the label {label} is on {new[:12]}"
    )
    for bullet in found.removed:
        click.echo(f"- [{bullet.id}] {bullet.text}")
    for bullet in found.mixed:
        click.echo(f"! [{bullet.id}] rests on other reflections too, but its text may hold something: {bullet.text}")
    click.echo(
        f"next: {typed('diff', f'{folder}@{version}', f'{folder}@{label}')} · "
        f"{typed('promote', folder, label, '--to', 'stable')}"
    )
    click.echo("The journal still holds the trace itself: delete the run folder to be rid of it.", err=True)
