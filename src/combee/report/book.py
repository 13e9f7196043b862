"""The playbook on a page: each bullet with its votes, and unfolded why it is there and which rows used it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from combee.kernel.playbook import Bullet
from combee.report.html import Html, Piece, cut, el, fold
from combee.report.page import Section, bullet_anchor, filter_box
from combee.report.read import RunRecord
from combee.report.svg import number
from combee.run.baselines import contradictions
from combee.run.rows import ScoredRow
from combee.run.words import counted

__all__ = ["book_section", "shown_bullets"]

MOST_BOOK = 400_000  # characters of bullets on a page
MOST_BULLET = 4_000  # characters of one bullet
MOST_SOURCES = 5
MOST_USES = 8
MOST_PAIRS = 20
_FEW = 20  # bullets up to which the list is as high as it gets


def shown_bullets(record: RunRecord) -> frozenset[str]:
    """Return the ids of the bullets that the page holds: those that fit on it, from the first on."""
    room, names = MOST_BOOK, set[str]()
    for bullet in record.book or ():
        room -= min(len(bullet.text), MOST_BULLET)
        if room < 0:
            break
        names.add(bullet.id)
    return frozenset(names)


def book_section(record: RunRecord) -> Section:
    """The bullets by section, to be searched; each with its counters, and unfolded with where it comes from."""
    bullets = tuple(record.book) if record.book is not None else ()
    names, shown = shown_bullets(record), dict[str, list[Bullet]]()
    for bullet in bullets:
        if bullet.id in names:
            shown.setdefault(bullet.section, []).append(bullet)
    uses: dict[str, list[ScoredRow]] = defaultdict(list)
    for row in (*record.rows.validation, *record.rows.training):
        for name in row.used:
            uses[name].append(row)
    asked = {row.task: row for row in (*record.rows.validation, *record.rows.training)}
    folds: list[Piece] = []
    for name, part in shown.items():
        items = el("ol", *(_bullet(one, record, uses[one.id], asked) for one in part), class_="book")
        folds.append(
            el(
                "details",
                el("summary", f"{name} ({len(part):,})"),
                items,
                class_="section",
                open="",
            )
        )
    body: list[Piece] = [filter_box("book", "only with harmful votes")] if bullets else []
    body += [*_contradictions(record), el("div", *folds, id="book", class_="tall" if len(bullets) > _FEW else None)]
    if not bullets:
        body.append(el("p", "It is empty.", class_="dim"))
    elif len(names) < len(bullets):
        body.append(el("p", f"{len(bullets) - len(names):,} more bullets: combee show {record.name}", class_="dim"))
    title = f"Playbook ({record.label}: {counted(len(bullets), 'bullet')})" if record.label else "Playbook"
    return Section("playbook", title, body)


def _contradictions(record: RunRecord) -> list[Piece]:
    found = contradictions(record.book) if record.book is not None else ()
    if not found:
        return []
    pairs = counted(len(found), "pair")
    said = f"{pairs} of bullets with different labels for nearly the same text: rows of the data contradict"
    listed = el("ul", *(el("li", str(one)) for one in found[:MOST_PAIRS]))
    return [el("p", f"{said} each other, or what tells them apart was cut."), listed]


def _bullet(bullet: Bullet, record: RunRecord, uses: Sequence[ScoredRow], asked: Mapping[str, ScoredRow]) -> Html:
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
    why = [_source(name, record, asked) for name in bullet.sources[:MOST_SOURCES]]
    more = len(bullet.sources) - len(why)
    why += [el("li", f"and {more:,} more: combee why")] if more > 0 else []
    inner: list[Piece] = [el("ul", *why)] if why else []
    if uses:
        right = sum(row.passed for row in uses)
        inner.append(el("p", f"Rows that used it: {len(uses):,}, of them {right:,} right.", class_="meta"))
        inner.append(el("ul", *(_use(row) for row in sorted(uses, key=lambda row: row.passed)[:MOST_USES])))
    unfolding = fold(meta, *inner) if inner else meta
    text = el("p", cut(bullet.text, MOST_BULLET), dir="auto")
    return el("li", text, unfolding, id=bullet_anchor(bullet.id))


def _source(name: str, record: RunRecord, asked: Mapping[str, ScoredRow]) -> Html:
    """Return one reflection that the bullet rests on: the run it reflects on, and what it said."""
    said = record.said.get(name)
    sample = name.rpartition("~")[0] or name
    row = asked.get(sample)
    parts: list[Piece] = [el("span", sample, class_="key")]
    if row is not None and row.step is not None:
        answered, right = cut(row.answer or "–", 80), cut(row.expected or "–", 80)
        parts.append(f" (step {row.step}): answered {answered}, right is {right}")
    if said is not None:
        parts.append(el("div", cut(said, 600), class_="meta", dir="auto"))
    return el("li", *parts)


def _use(row: ScoredRow) -> Html:
    mark = el("b", "right" if row.passed else "wrong", class_="up" if row.passed else "bad")
    return el("li", mark, " ", el("span", row.task, class_="key"), ": ", cut(" ".join(row.question.split()), 160))
