"""The page of one run, put together from its record: how it went, where lessons were lost, what it knows.

The parts of a run's page that are tables and text: settings, steps, guard, model calls, versions, playbook.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from combee.files import write_whole
from combee.kernel.journal import JSON, Version
from combee.kernel.learn import LearnConfig, StepFinished
from combee.kernel.playbook import tokens
from combee.report.book import book_section, shown_bullets
from combee.report.charts import batch_plot, lessons_plot, level_table, pace_plot, score_plot, size_plot, tree_plot
from combee.report.gepa import search_section
from combee.report.html import Html, Piece, cut, definitions, el, fold, scrolling, table
from combee.report.page import Section, facts, figures, page, rows_section, when
from combee.report.read import RunRecord, ScanTree, losses, read_run
from combee.run.baselines import BASELINES
from combee.run.rows import share_text, single

__all__ = [
    "REPORT_NAME",
    "calls_section",
    "guard_section",
    "run_head",
    "run_page",
    "settings_section",
    "steps_section",
    "versions_section",
    "write_report",
]

REPORT_NAME = "report.html"
MOST_TREES = 12


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write the report of the run in `folder`, finished or not, and return its path (`report.html` in the folder).

    Raises:
        UsageError: There is no run, or no such place.
        StorageError: The journal is damaged, or the page cannot be written.
    """
    return write_whole(out if out is not None else folder / REPORT_NAME, run_page(read_run(folder)))


def run_page(record: RunRecord, *, live: str | None = None) -> str:
    """Return the page of a run as HTML; `live` is where its script fetches the head from while the run goes on."""
    sections = [section for section in _sections(record) if section is not None]
    return page(f"{record.name} · Combee run", run_head(record), sections, live=live)


def _sections(record: RunRecord) -> list[Section | None]:
    return [
        book_section(record),
        rows_section(record.rows, shown_bullets(record)),
        _progress(record),
        search_section(record.search) if record.search is not None else None,
        calls_section(record) if record.ledger else None,
        guard_section(record) if record.verdicts or record.refused or record.unused else None,
        _losses(record),
        steps_section(record) if record.steps else None,
        _pace(record),
        versions_section(record) if record.versions else None,
        settings_section(record),
        _trees(record),
    ]


def run_head(record: RunRecord) -> list[Piece]:
    """Return what stands above: how far the run is, when it was at work, and its figures."""
    state, detail = _state(record)
    good = {"completed": "good", "failed": "bad"}.get(state, "")
    parts: list[Piece] = [
        el("h1", record.name),
        el("p", el("span", state, class_=f"state {good}".strip()), " ", cut(detail, 1000)),
    ]
    if record.first is not None and record.latest is not None:
        times = f"Begun {when(record.first)}, latest event {when(record.latest)}"
        parts.append(el("p", times + (f", started {record.starts} times." if record.starts > 1 else "."), class_="dim"))
    if record.unreadable:
        note = f"{record.unreadable} records of another version of Combee could not be read and are left out."
        parts.append(el("p", note, class_="dim"))
    parts.append(facts(_facts(record)))
    return parts


def _state(record: RunRecord) -> tuple[str, str]:
    """Return how far the run is, and more on that. Of a search without our loop gepa alone tells its end."""
    if record.finished is not None:
        return record.finished.reason, record.finished.detail
    search = record.search
    if not record.starts and search is not None and search.finished is not None:
        return "completed", f"gepa ended after {search.finished.metric_calls:,} metric calls."
    if not record.starts and search is None:
        return "not begun", ""
    return "not finished", (
        "It is still going on, or was killed; go on with `combee resume`. This page shows it as it was."
    )


def _facts(record: RunRecord) -> list[tuple[str, Piece]]:
    last = record.steps[-1] if record.steps else None
    validations = [one for one in record.validations if one.total and not one.errors]
    complete = [one.hits / one.total for one in validations]
    lost = sum(len(scan.uncovered) for scan in record.last_scans)
    took_in = sum(len(scan.uncovered) + scan.covered for scan in record.last_scans)
    pairs: list[tuple[str, Piece]] = [
        ("steps done", f"{len(record.steps):,}"),
        ("bullets", f"{last.bullets if last else 0:,}"),
        ("tokens of the playbook", f"{last.tokens if last else 0:,}"),
    ]
    if complete:
        last_rows = single(validations[-1].hits, validations[-1].total)
        pairs += [("best validation", f"{max(complete):.3f}")]
        pairs += [(f"last validation ({share_text(last_rows)})", f"{complete[-1]:.3f}")]
        pairs += [(f"without learning: {BASELINES[name]}", f"{share:.3f}") for name, share in record.baselines.items()]
    if training := _by_epoch(record.steps):
        ends = [training[0], training[-1]] if len(training) > 1 else training
        name = "training, before learning" + (", first and last epoch" if len(training) > 1 else "")
        pairs.append((name, " → ".join(f"{share:.3f}" for share in ends)))
    if took_in:
        pairs.append(("reflections verified in deltas", f"{took_in - lost:,} of {took_in:,}"))
    if record.ledger:
        totals = record.ledger.values()
        unpriced = "+?" if any(one.unpriced for one in totals) else ""
        pairs.append(("US dollars in all", f"{sum(one.cost for one in totals):.4f}{unpriced}"))
        calls, failed = sum(one.calls for one in totals), sum(one.calls - one.ok for one in totals)
        gave = f"tokens in all ({calls:,} calls" + (f", {failed:,} gave nothing)" if failed else ")")
        pairs.append((gave, f"{sum(one.tokens for one in totals):,}"))
    if record.failures:
        pairs.append(("attempts at samples that failed", f"{len(record.failures):,}"))
    if record.finished:
        pairs.append(("seconds of the last start", f"{record.finished.seconds:,.1f}"))
    elif (left := _seconds_left(record)) is not None:
        pairs.append(("minutes left, about", f"{left / 60:,.1f}"))
    return pairs


def _seconds_left(record: RunRecord) -> float | None:
    """Return about how long the rest takes, from the steps that were timed; None where that cannot be known."""
    timed = [(step.batch, step.seconds) for step in record.steps if step.seconds]
    if record.started is None or not timed:
        return None
    left = record.started.samples - sum(step.batch for step in record.steps)
    return None if left <= 0 else left * sum(seconds for _, seconds in timed) / sum(batch for batch, _ in timed)


def _by_epoch(steps: Sequence[StepFinished]) -> list[float]:
    """Return the share of right answers in each epoch that has any."""
    sums: dict[int, list[int]] = {}
    for step in steps:
        found = sums.setdefault(step.epoch, [0, 0])
        found[0], found[1] = found[0] + step.hits, found[1] + step.total
    return [hits / total for hits, total in sums.values() if total]


def _progress(record: RunRecord) -> Section | None:
    if not record.steps:
        if record.search is not None:
            return None
        return Section("progress", "Progress", [el("p", "No step is finished yet.", class_="dim")])
    score = score_plot(record.steps, _held_out(record))
    start = record.start
    sizes = [
        size_plot(record.steps, "tokens", None if start is None else tokens(start)),
        size_plot(record.steps, "bullets", None if start is None else len(start)),
        lessons_plot(record.steps),
    ]
    note = "Steps done: 0 is the start; step k of the table ends at k + 1. The samples of step k are answered with k "
    note += "steps done: before it learns from them."
    drawn = figures([plot for plot in (score, *sizes) if plot is not None])
    return Section("progress", "Progress", [drawn, el("p", note, class_="dim")])


def _held_out(record: RunRecord) -> list[tuple[float, float]]:
    """Return (steps done, score on validation). Iterations of a search count from 1, with the seed as 0."""
    if record.search is not None:
        return [(one.iteration, one.score) for one in record.search.candidates]
    return [(one.step, one.hits / one.total) for one in record.validations if one.total]


def _pace(record: RunRecord) -> Section | None:
    auto = record.config is not None and record.config.batch == "auto"
    if not (record.choices or (auto and record.begun_steps)):
        return None
    sizes = batch_plot(record.begun_steps)
    if not record.choices:
        note = "No size is chosen yet: the steps so far measure how long each size takes, and learn too."
        return Section("batch", "Batch size", [figures([sizes]), el("p", note, class_="dim")])
    last = record.choices[-1]
    said = f"From step {last.step} on: {last.batch} samples a step"
    if last.exact is not None and last.alpha is not None and last.alpha_error is not None:
        said += f". b* = {last.exact:.1f} from alpha = {last.alpha:.3f} ± {last.alpha_error:.3f}"
        said += f" and the smallest size {last.smallest}" if last.smallest is not None else ""
    lines = [f"Were the smallest size {low}, b* would be {exact:.1f}." for low, exact in last.sensitivity]
    lines += last.warnings
    earlier = [f"{one.batch} from step {one.step} on" for one in record.choices[:-1]]
    lines += [f"Chosen before: {cut(', '.join(earlier), 400)}."] if earlier else []
    items = el("ul", *(el("li", line) for line in lines)) if lines else None
    return Section("batch", "Batch size", [figures([pace_plot(last), sizes]), el("p", f"{said}."), items])


def _trees(record: RunRecord) -> Section | None:
    scans = record.scans
    if not scans:
        return None
    chosen = _telling(scans)
    worst = max(chosen, key=_trouble)
    note = "Left: calls that read reflections; right: what their lessons were folded into. In → out on each node; "
    note += "the filled part is the share that came out (equal lessons count once), amber where keys were lost. "
    note += "What the leaves of round 0 lose, those of round 1 read again."
    body: list[Piece] = [el("p", note, class_="dim")]
    if len(chosen) < len(scans):
        text = (
            f"{len(chosen)} of {len(scans):,} aggregations are drawn: the first, the last, and those with most losses."
        )
        body.append(el("p", text, class_="dim"))
    body += [_tree(scan, opened=scan is worst) for scan in chosen]
    return Section("trees", "Scan trees", body)


def _trouble(scan: ScanTree) -> tuple[int, int, int]:
    failed = sum(node.error is not None for node in scan.nodes)
    return len(scan.uncovered) + failed, len(scan.nodes), -scan.step


def _telling(scans: tuple[ScanTree, ...]) -> list[ScanTree]:
    """Return the scans to draw, in order."""
    inner = sorted(range(1, len(scans) - 1), key=lambda i: _trouble(scans[i]), reverse=True)[: MOST_TREES - 2]
    return [scans[i] for i in sorted({0, len(scans) - 1, *inner})]


def _tree(scan: ScanTree, *, opened: bool) -> Html:
    name = f"Step {scan.step}" + (f", attempt {scan.attempt + 1}" if scan.attempt else "")
    total = scan.covered + len(scan.uncovered)
    failed = sum(node.error is not None for node in scan.nodes)
    said = f"{name}: {scan.covered:,} of {total:,} reflections verified in the delta, {len(scan.nodes):,} node"
    said += "s" if len(scan.nodes) != 1 else ""
    said += f", {failed:,} failed" if failed else ""
    plot = tree_plot(scan.nodes, name)
    return fold(said, scrolling(f"Tree: {name}", plot.inline(fixed=True)), level_table(scan.nodes), opened=opened)


def _flow(record: RunRecord) -> str:
    """Return in words what became of the lessons."""
    steps = record.steps
    parts = [f"{sum(step.lessons for step in steps):,} lessons came from reflections"]
    parts.append(f"{sum(step.operations for step in steps):,} operations reached the playbook (equal lessons are one)")
    refused = sum(step.refused for step in steps)
    parts += [f"which refused {refused:,} of them"] if refused else []
    guard = " What the guard left out is told below." if any(verdict.reasons for verdict in record.verdicts) else ""
    return f"{', '.join(parts)}.{guard}"


def _not_worked(record: RunRecord) -> list[Piece]:
    """Return what was not lost but never came in: failed samples, and aggregations that failed as a whole."""
    body: list[Piece] = [
        el(
            "p",
            f"Step {one.step}: the aggregation failed as a whole ({cut(one.reason, 300)}); "
            f"its {one.reflections:,} reflections were kept for the next step.",
        )
        for one in record.reduce_failures[:MOST_ROWS]
    ]
    if record.failures:
        reasons = Counter(cut(reason, 200) for _, _, reason in record.failures)
        listed = [el("li", f"{count:,} × {reason}") for reason, count in reasons.most_common(10)]
        said = (
            f"{len(record.failures):,} attempts at samples failed for outside reasons; a failed sample is tried again."
        )
        body += [el("p", said), el("ul", *listed)]
    return body


def _losses(record: RunRecord) -> Section | None:
    total = sum(len(scan.uncovered) for scan in record.last_scans)
    rejected = [verdict.step for verdict in record.verdicts if verdict.verdict == "reject"]
    if not (record.scans or record.failures or record.reduce_failures):
        return None
    body: list[Piece] = [el("p", _flow(record)), *_not_worked(record)]
    if rejected:
        steps = cut(", ".join(map(str, rejected)), 300)
        body.append(el("p", f"The guard kept the old book in step {steps}: nothing of those steps was learned."))
    if not total:
        none = "The aggregation lost none: the content of every reflection was found in the delta of its step."
        body.append(el("p", none) if record.scans else None)
        return Section("lost", "Lessons lost", body)
    rows: list[tuple[Piece, ...]] = []
    for loss in islice(losses(record), MOST_ROWS):
        said = " / ".join(record.lessons.get(loss.key, ()))
        cells = [el("span", text, class_="key") for text in (cut(loss.key, 80), loss.node or "–")]
        rows.append((loss.step, *cells, el("div", cut(loss.reason, 300)), el("div", cut(said, 300) or "–", dir="auto")))
    note = f"{total:,} reflections are not verified in the delta of their step."
    note += f" The first {MOST_ROWS} are listed." if total > len(rows) else ""
    heads = ("step", "reflection", "node", "reason", "what it had to say")
    body += [el("p", note), table(heads, rows, numbers=(0,))]
    return Section("lost", f"Lessons lost ({total:,})", body)


MOST_ROWS = 200
MOST_REASONS = 6
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")  # a name and password within an address


def settings_section(record: RunRecord) -> Section:
    """What the run was told to do; what differs from the defaults stands out."""
    body: list[Piece] = []
    given = {name: value for name, value in record.spec.items() if value not in (None, {}, [], "")}
    if record.config is not None:
        given.pop("learn", None)
        usual = LearnConfig().to_json()
        settled = record.config.to_json().items()
        pairs = [(name, _value(value, strong=value != usual.get(name))) for name, value in settled]
        body = [definitions(pairs), el("p", "Bold: not the default of Combee.", class_="dim")]
    others: list[tuple[Piece, Piece]] = []
    for name, value in given.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        others += [(f"{name}.{key}" if key else name, _value(part, strong=True)) for key, part in inner]
    if others:
        body.insert(0, definitions(others))
    if not body:
        body = [el("p", "The run was started from a program, which kept no settings in the journal.", class_="dim")]
    return Section("settings", "Settings", body)


def _value(value: JSON, *, strong: bool) -> Html:
    if value is None or value == []:
        text = "–"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, list):
        text = ", ".join(map(str, value))
    else:
        text = _LOGIN.sub("…@", str(value))
    return el("strong" if strong else "span", cut(text, 300))


def steps_section(record: RunRecord) -> Section:
    """One row a step; of very long runs the last ones."""
    heads = ["step", "epoch", "samples", "score", "lessons", "operations", "lost", "refused", "failed"]
    heads += ["calls", "reads", "chain", "bullets", "tokens", "seconds"]
    rows: list[tuple[Piece, ...]] = [
        (
            step.step,
            step.epoch,
            step.batch,
            f"{step.hits / step.total:.3f}" if step.total else "–",
            step.lessons,
            step.operations,
            step.uncovered,
            step.refused,
            step.failed,
            step.calls,
            step.reads,
            step.depth,
            f"{step.bullets:,}",
            f"{step.tokens:,}",
            "–" if step.seconds is None else f"{step.seconds:.2f}",
        )
        for step in record.steps[-MOST_ROWS:]
    ]
    note = (
        "Score: before learning from the step's samples. Failed: samples without a result. Lost: reflections whose "
        "content is not in what the aggregation gave. Chain: calls that waited for each other."
    )
    left_out = len(record.steps) - len(rows)
    more = f" The first {left_out:,} steps are left out here." if left_out else ""
    return Section("steps", "Steps", [table(heads, rows, numbers=range(15)), el("p", note + more, class_="dim")])


def guard_section(record: RunRecord) -> Section:
    """What the guard said, most recent last; steps that it accepted without a word are only counted."""
    counts = Counter(verdict.verdict for verdict in record.verdicts)
    body: list[Piece] = [el("p", ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in counts.items()))]
    telling = [one for one in record.verdicts if one.reasons or one.notes or one.verdict != "accept"]
    rows: list[tuple[Piece, ...]] = []
    for verdict in telling[-MOST_ROWS:]:
        listed = [el("li", cut(reason, 400)) for reason in verdict.reasons]
        listed += [el("li", cut(note, 400), class_="dim") for note in verdict.notes]
        shown = el("ul", *listed[:MOST_REASONS]) if listed else "–"
        more = len(listed) - MOST_REASONS
        name = verdict.verdict.replace("_", " ") + (f" (attempt {verdict.attempt + 1})" if verdict.attempt else "")
        name += f", then {verdict.max_items} a call" if verdict.max_items is not None else ""
        name += ", rolled back" if verdict.rollback else ""
        mark = el("span", name, class_="bad") if verdict.verdict in {"reject", "retry_smaller"} else name
        rows.append((verdict.step, mark, el("div", shown, f"and {more} more" if more > 0 else None)))
    if rows:
        body.append(table(("step", "verdict", "reasons"), rows, numbers=(0,)))
    if len(telling) > len(rows):
        body.append(el("p", f"{len(telling) - len(rows):,} earlier ones are left out here.", class_="dim"))
    if record.alerts:
        failed = [one for one in record.alerts if not one.ok]
        body.append(el("p", f"The alert command was run {len(record.alerts):,} times, {len(failed):,} in vain."))
        body.append(el("ul", *(el("li", f"step {one.step}: {cut(one.detail, 300)}") for one in failed[:10])))
    if record.refused:
        body.append(el("h3", f"{len(record.refused):,} samples were not admitted"))
        pairs = [(el("span", one.sample, class_="key"), cut(one.reason, 300)) for one in record.refused[:MOST_ROWS]]
        body.append(table(("sample", "reason"), pairs))
    if record.unused:
        body.append(el("h3", f"{sum(record.unused.values()):,} parts of replies were not used"))
        found = sorted(record.unused.items(), key=lambda one: (-one[1], one[0]))
        body.append(
            table(("what was wrong", "times"), [(cut(what, 300), n) for what, n in found[:MOST_ROWS]], numbers=(1,))
        )
    return Section("guard", "Guard", body)


def calls_section(record: RunRecord) -> Section:
    """The ledger's sums by role."""
    heads = ["role", "calls", "answered", "prompt tokens", "of them cached", "completion tokens", "dollars"]
    heads += ["waited s", "on the wire s", "other outcomes"]
    rows: list[tuple[Piece, ...]] = []
    notes: list[str] = []
    for role, sums in record.ledger.items():
        others = {name: count for name, count in sums.outcomes.items() if name != "ok"}
        rows.append(
            (
                role,
                f"{sums.calls:,}",
                f"{sums.ok:,}",
                f"{sums.prompt:,}",
                f"{sums.cached:,}",
                f"{sums.completion:,}",
                f"{sums.cost:.4f}" + ("+?" if sums.unpriced else ""),
                f"{sums.queued:,.1f}",
                f"{sums.wire:,.1f}",
                ", ".join(f"{name} {count}" for name, count in sorted(others.items())) or "–",
            )
        )
        notes += [f"{role}: the price of {sums.unpriced:,} paid calls is not known."] if sums.unpriced else []
        notes += [f"{role}: tokens of {sums.estimated:,} calls are estimated."] if sums.estimated else []
        notes += [f"{role}: {sums.maybe_paid:,} calls may have been paid for."] if sums.maybe_paid else []
    parts: list[Piece] = [table(heads, rows, numbers=range(1, 9))]
    return Section("calls", "Model calls", [*parts, *(el("p", note, class_="dim") for note in notes)])


def versions_section(record: RunRecord) -> Section:
    """The history of the playbook, newest first, with the labels as they stand."""
    names: dict[str, list[str]] = {}
    for label, digest in record.labels.items():
        names.setdefault(digest, []).append(label)
    scores = {one.version: f"{one.hits / one.total:.3f}" for one in record.validations if one.total and not one.errors}
    recent: Sequence[Version] = record.versions[-MOST_ROWS:]
    rows: list[tuple[Piece, ...]] = [
        (
            el("span", version.digest[:12], class_="key"),
            "start" if version.parent is None else f"{version.epoch} / {version.step}",
            scores.get(version.digest, "–"),
            ", ".join(names.get(version.digest, [])) or "–",
        )
        for version in reversed(recent)
    ]
    body: list[Piece] = [table(("version", "epoch / step", "validation", "labels"), rows, numbers=(2,))]
    if len(record.versions) > len(recent):
        body.append(el("p", f"{len(record.versions) - len(recent):,} earlier ones are left out here.", class_="dim"))
    return Section("versions", "Versions", body)
