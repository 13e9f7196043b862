"""The parts of a run's page that are tables and text: settings, steps, guard, model calls, versions, playbook."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from combee.kernel.journal import JSON, Version
from combee.kernel.learn import LearnConfig
from combee.kernel.playbook import Bullet
from combee.report.html import Html, Piece, cut, definitions, el, fold, table
from combee.report.page import Section
from combee.report.read import RunRecord
from combee.report.scale import number

__all__ = ["book_section", "calls_section", "guard_section", "settings_section", "steps_section", "versions_section"]

MOST_ROWS = 200
MOST_REASONS = 6
MOST_BOOK = 400_000  # characters of bullets on a page
MOST_BULLET = 4_000  # characters of one bullet
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


def book_section(record: RunRecord) -> Section:
    """The bullets by section, each with its counters."""
    book = record.book
    bullets = tuple(book) if book is not None else ()
    shown: dict[str, list[Bullet]] = {}
    room = MOST_BOOK
    for bullet in bullets:
        room -= min(len(bullet.text), MOST_BULLET)
        if room < 0:
            break
        shown.setdefault(bullet.section, []).append(bullet)
    count = sum(map(len, shown.values()))
    body: list[Piece] = []
    for name, part in shown.items():
        items = el("ol", *map(_bullet, part), class_="book")
        body.append(fold(f"{name} ({len(part):,})", items, opened=len(bullets) <= 40))
    if not bullets:
        body.append(el("p", "It is empty.", class_="dim"))
    elif count < len(bullets):
        note = f"{len(bullets) - count:,} more bullets: combee show {record.name}"
        body.append(el("p", note, class_="dim"))
    title = f"Playbook ({record.label}: {len(bullets):,} bullets)" if record.label else "Playbook"
    return Section("playbook", title, body)


def _bullet(bullet: Bullet) -> Html:
    last = "never used" if bullet.last_used is None else f"last used in step {bullet.last_used}"
    sources = f"{len(bullet.sources):,} source{'' if len(bullet.sources) == 1 else 's'}"
    meta = el(
        "span",
        el("span", bullet.id, class_="key"),
        " · ",
        el("span", f"helpful {number(bullet.helpful)}", class_="up" if bullet.helpful else None),
        " · ",
        el("span", f"harmful {number(bullet.harmful)}", class_="down" if bullet.harmful else None),
        f" · {sources} · {last}",
        class_="meta",
    )
    return el("li", el("p", cut(bullet.text, MOST_BULLET), dir="auto"), meta)
