"""The part of a run's page on gepa's search: how it went, its candidates and their lineage, and every proposal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from combee.report.charts import front_plot, lineage_plot
from combee.report.html import Html, Piece, cut, el, fold, scrolling, table
from combee.report.page import Section, figures
from combee.report.read import GepaProposal, Search
from combee.report.svg import Plot, Series, line_plot, number

__all__ = ["search_section"]

MOST_ROWS = 200
MOST_TEXT = 4_000  # characters of one component


def search_section(search: Search) -> Section:
    """What the search came to: validation and minibatch scores, lineage, Pareto front, proposals with their reasons."""
    body: list[Piece] = [el("p", _said(search))]
    if not search.candidates:
        return Section("search", "Search (gepa)", body)
    body.append(figures([_validation_plot(search), *_minibatch_plots(search.proposals)]))
    note = "Filled: the score on the validation records. Green frame: the best; blue: the others of the front, which "
    note += "are among the best at some record."
    lineage, front = lineage_plot(search), front_plot(search)
    body += [el("p", note, class_="dim"), scrolling("Lineage of candidates", lineage.inline(fixed=True))]
    if front is not None:
        said = "Darker: a better score. A dot: no candidate has a better one."
        body += [el("p", said, class_="dim"), scrolling("Pareto front", front.inline(fixed=True))]
    body += [el("h3", "Candidates"), *_candidates(search), el("h3", "Proposals"), *_proposals(search)]
    return Section("search", "Search (gepa)", body)


def _said(search: Search) -> str:
    parts = []
    if search.started is not None:
        sizes = f"{search.started.trainset:,} training and {search.started.valset:,} validation records"
        parts.append(f"{', '.join(search.started.components)}: {sizes}")
    counts = Counter(one.status for one in search.proposals)
    judged = ", ".join(f"{counts[status]:,} {status}" for status in sorted(counts))
    calls = max((one.metric_calls for one in search.iterations), default=0)
    parts.append(f"{len(search.iterations):,} iterations, {calls:,} metric calls")
    parts += [f"{len(search.proposals):,} proposals ({judged})"] if judged else []
    parts += [f"{len(search.skipped):,} parents without anything to reflect on"] if search.skipped else []
    parts += [f"{len(search.errors):,} errors"] if search.errors else []
    best = search.best
    parts += [f"best of {len(search.candidates):,} candidates: #{best.index} with {best.score:.3f}"] if best else []
    return "; ".join(parts) + "."


def _validation_plot(search: Search) -> Plot:
    best: list[tuple[float, float]] = []
    for one in search.candidates:
        best.append((float(one.metric_calls), max(one.score, best[-1][1] if best else one.score)))
    each = [(float(one.metric_calls), one.score) for one in search.candidates]
    series = [Series("candidate", each, line=False), Series("best so far", best, dots=False)]
    return line_plot(series, title="Validation score of candidates", x="metric calls", y="mean score")


def _minibatch_plots(proposals: Sequence[GepaProposal]) -> Iterator[Plot]:
    """Draw the means of minibatches before and after; scores that are known as sums only are left out."""
    before = [(float(one.iteration), mean) for one in proposals if (mean := _mean(one.before)) is not None]
    after = [(float(one.iteration), mean) for one in proposals if (mean := _mean(one.after)) is not None]
    series = [Series("parent", before, dashed=True), Series("proposal", after, line=False)]
    if any(one.points for one in series):
        yield line_plot(series, title="Minibatch scores", x="iteration", y="mean score", whole_x=True)


def _mean(scores: tuple[float, ...] | float | None) -> float | None:
    return sum(scores) / len(scores) if isinstance(scores, tuple) and scores else None


def _candidates(search: Search) -> list[Piece]:
    wins, best = search.wins(), search.best
    ranked = sorted(search.candidates, key=lambda one: (-one.score, one.index))[:MOST_ROWS]
    rows: list[tuple[Piece, ...]] = [
        (
            el("strong", f"#{one.index}") if one is best else f"#{one.index}",
            ", ".join(f"#{parent}" for parent in one.parents) or "seed",
            one.iteration,
            f"{one.score:.3f}",
            f"{wins[one.index]:,} of {len(one.scores):,}",
            "yes" if one.index in search.front else "–",
            f"{one.metric_calls:,}",
            el("div", *(_text(name, text) for name, text in one.texts.items())),
        )
        for one in ranked
    ]
    heads = ("candidate", "parents", "iteration", "validation", "among the best at", "front", "metric calls", "text")
    left_out = len(search.candidates) - len(rows)
    note = f"The {left_out:,} candidates with the lowest scores are left out here."
    return [table(heads, rows, numbers=(2, 3, 4, 6)), el("p", note, class_="dim") if left_out else None]


def _text(name: str, text: Mapping[str, str]) -> Html:
    if "version" in text:
        return el("div", f"{name}: version ", el("span", text["version"][:12], class_="key"))
    return fold(name, el("p", cut(text.get("text", ""), MOST_TEXT), dir="auto"))


def _proposals(search: Search) -> list[Piece]:
    """Return every proposal, skip and error by iteration; of long searches the last ones."""
    told = [(one.iteration, _proposal_row(one)) for one in search.proposals]
    told += [
        (
            one.iteration,
            (one.iteration, f"#{one.parent}", "–", "–", "–", "skipped", el("div", one.reason.replace("_", " "))),
        )
        for one in search.skipped
    ]
    told += [
        (
            one.iteration,
            (
                one.iteration,
                "–",
                "–",
                "–",
                "–",
                el("span", "error", class_="bad"),
                el("div", cut(f"{one.kind}: {one.message}", 400)),
            ),
        )
        for one in search.errors
    ]
    rows = [row for _, row in sorted(told, key=lambda pair: pair[0])]
    heads = ("iteration", "parents", "minibatch before", "after", "verified", "outcome", "reason")
    left_out = max(0, len(rows) - MOST_ROWS)
    note = "Before and after: sums of the minibatch's scores, of how many records. Verified: records whose content was "
    note += "found in what their reflection gave."
    note += f" The first {left_out:,} are left out here." if left_out else ""
    return [table(heads, rows[-MOST_ROWS:], numbers=(0, 2, 3, 4)), el("p", note, class_="dim")]


def _proposal_row(one: GepaProposal) -> tuple[Piece, ...]:
    figures_of = (one.components or {}).values()
    covered = sum(int(str(part.get("covered", 0))) for part in figures_of)
    records = sum(int(str(part.get("records", 0))) for part in figures_of)
    outcome = f"{one.status}, now #{one.candidate}" if one.candidate is not None else one.status
    reason = one.reason.replace("_", " ") or ("better than its parent on the minibatch" if one.candidate else "–")
    return (
        one.iteration,
        ", ".join(f"#{parent}" for parent in one.parents) or "–",
        _sum(one.before),
        _sum(one.after),
        f"{covered:,} of {records:,}" if records else "–",
        outcome,
        el("div", cut(reason, 400)),
    )


def _sum(scores: tuple[float, ...] | float | None) -> str:
    if isinstance(scores, tuple):
        return f"{number(round(sum(scores), 3))} of {len(scores):,}"
    return "–" if scores is None else number(round(scores, 3))
