"""The plots of a run show every step, at one meaning of "steps done"."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from combee.kernel.learn import StepFinished, StepStarted
from combee.report.charts import batch_plot, lessons_plot, score_plot, size_plot
from combee.report.svg import Plot


def steps(*hits: int, total: int = 4) -> list[StepFinished]:
    """Return the ends of steps with these right answers; the book grows by ten tokens with each."""
    first = StepFinished(0, 0, 4, 0, total, 4, 4, 4, 0, 0, 0, 1, 4, 1, 4, 10, "v", 0.1)
    return [replace(first, step=k, hits=right, tokens=10 * (k + 1)) for k, right in enumerate(hits)]


def points(plot: Plot | None, name: str) -> list[tuple[float, float]]:
    """Return what the marks of a line say."""
    assert plot is not None
    found = re.findall(r"<title>([^<]*): ([^:<]*), ([^,<]*)</title>", str(plot.body))
    return [(float(x), float(y)) for line, x, y in found if line.startswith(name)]


def test_a_short_run_shows_the_score_of_every_step() -> None:
    plot = score_plot(steps(0, 0, 4, 4), [(4.0, 0.5)])
    assert points(plot, "training") == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert points(plot, "validation") == [(4, 0.5)]
    assert "a point" not in str(plot and plot.body)


def test_a_book_stands_where_its_validation_stands_and_where_the_next_step_is_answered_with_it() -> None:
    run = steps(0, 1, 2)
    assert points(size_plot(run, "tokens"), "tokens") == [(1, 10), (2, 20), (3, 30)]
    assert points(size_plot(run, "tokens", 5), "tokens") == [(0, 5), (1, 10), (2, 20), (3, 30)]
    assert [x for x, _ in points(lessons_plot(run), "lessons from reflections")] == [1, 2, 3]
    assert [x for x, _ in points(batch_plot([StepStarted(0, k, 4) for k in range(3)]), "batch")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("count", "total", "fewest", "most"), [(21, 4, 10, 12), (500, 1, 20, 26), (100, 125, 100, 100), (1000, 4, 100, 120)]
)
def test_a_long_run_shares_points_says_so_and_loses_no_answer(count: int, total: int, fewest: int, most: int) -> None:
    run = steps(*[k % (total + 1) for k in range(count)], total=total)
    plot = score_plot(run, [])
    assert plot is not None
    course = re.findall(r'd="M([^"]*)" class="path"', str(plot.body))[0]
    assert fewest <= course.count("L") + 1 <= most
    assert ("steps a point)" in plot.title) == (course.count("L") + 1 < count)


def test_nothing_scored_has_no_plot() -> None:
    assert score_plot(steps(0, 0, total=0), []) is None
