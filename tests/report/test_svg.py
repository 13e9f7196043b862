"""Plots are well-formed files whose numbers are all finite, whatever is plotted."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.report import Mark, Plot, Series, bar_plot, line_plot
from combee.report.svg import make_axis, number, text_width

FLOATS = st.floats(allow_nan=True, allow_infinity=True, width=32)
POINTS = st.lists(st.tuples(FLOATS, FLOATS), max_size=8)


def check(plot: Plot) -> ET.Element:
    root = ET.fromstring(plot.standalone())  # noqa: S314 - made here
    texts = [value for item in root.iter() for value in item.attrib.values()]
    assert not re.search(r"\b(nan|inf)\b", " ".join(texts))
    return root


@given(st.lists(POINTS, max_size=4), st.booleans(), st.booleans(), st.booleans())
def test_any_points_make_a_drawing(
    lines: list[list[tuple[float, float]]], log_x: bool, log_y: bool, zero: bool
) -> None:
    series = [Series(f"line {i}", points) for i, points in enumerate(lines)]
    check(line_plot(series, title="t", x="x", y="y", log_x=log_x, log_y=log_y, zero=zero))


@given(st.lists(st.one_of(st.none(), FLOATS), max_size=6))
def test_any_values_make_bars(values: list[float | None]) -> None:
    names = [f"way {i}" for i in range(len(values))]
    check(bar_plot(names, {"one": values, "two": values}, title="t", x="x"))


def test_a_line_has_axes_ticks_legend_band_and_marks() -> None:
    points = [(1.0, 0.4), (2.0, 0.5), (3.0, 0.45)]
    series = [
        Series("a & b", points, spread=[(0.3, 0.5), (0.4, 0.6), (0.4, 0.5)]),
        Series("other", points, dashed=True),
    ]
    plot = line_plot(
        series, title="<T>", x="step", y="share", y_limits=(0, 1), marks=[Mark(0.44, "needed"), Mark(2, "x", "x")]
    )
    root = check(plot)
    texts = [item.text for item in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<T>", "a & b", "other", "step", "share", "needed", "0", "0.2", "1"} <= set(texts)
    classes = [item.get("class", "") for item in root.iter()]
    assert {"band", "path dash", "path", "mark", "grid", "axis"} <= set(classes)


def test_bars_carry_their_values_and_a_missing_one_a_dash() -> None:
    plot = bar_plot(
        ["naive", "combee"], {"accuracy": [None, 0.84]}, title="t", x="share", spread={"accuracy": [None, (0.8, 0.9)]}
    )
    root = check(plot)
    texts = [item.text for item in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "0.840" in texts
    assert "–" in texts
    assert [item for item in root.iter() if item.get("class") == "whisker"]


def test_a_plot_is_saved_whole_with_both_looks(tmp_path: Path) -> None:
    plot = line_plot([Series("a", [(1, 1)])], title="t", x="x", y="y")
    path = plot.save(tmp_path / "plot.svg")
    text = path.read_text(encoding="utf-8")
    assert "prefers-color-scheme:dark" in text
    assert [item.name for item in tmp_path.iterdir()] == ["plot.svg"]
    with pytest.raises(UsageError, match="no folder"):
        plot.save(tmp_path / "missing" / "plot.svg")
    with pytest.raises(UsageError, match="is a folder"):
        plot.save(tmp_path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (13252, "13.3k"),
        (5000, "5,000"),
        (2.5e6, "2.5M"),
        (0.84, "0.84"),
        (1e-7, "1e-07"),
        (999_999, "1M"),
        (999_499, "999k"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


@given(
    st.lists(st.floats(-1e12, 1e12, allow_nan=False), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
)
def test_ticks_lie_on_the_axis_and_are_few(values: list[float], zero: bool, whole: bool) -> None:
    axis = make_axis(values, 10, 300, zero=zero, whole=whole)
    assert 1 <= len(axis.ticks) <= 12
    assert all(10 <= axis.at(tick) <= 300 for tick in axis.ticks)
    assert all(10 <= axis.at(value) <= 300 for value in values)


def test_a_logarithmic_axis_has_a_handful_of_ticks() -> None:
    for low, high in ((2, 64), (1, 1e6), (5, 9), (0.001, 0.002), (3, 3)):
        axis = make_axis([low, high], 0, 100, log=True)
        assert 2 <= len(axis.ticks) <= 8


def test_a_long_title_takes_lines_and_nothing_is_cut() -> None:
    title = "Accuracy on held-out rows by samples a step, under simulated forgetting, the mean and range of five orders"
    short, long = (
        line_plot([Series("a", [(1, 1), (2, 2)]), Series("b", [(1, 2), (2, 1)])], title=one, x="x", y="y")
        for one in ("Accuracy", title)
    )
    rows = re.findall(r'class="title"[^>]*>([^<]*)<', str(long.body))
    assert " ".join(rows) == title
    assert all(text_width(row, 13) <= long.width - 10 for row in rows)
    assert long.height > short.height


def test_lines_of_one_colour_differ_by_dashes_in_the_plot_and_in_the_legend() -> None:
    names = [f"way {i}" for i in range(8)]
    lines = [Series(name, [(1, i), (2, i + 1)]) for i, name in enumerate(names)]
    root = check(line_plot(lines, title="t", x="x", y="y"))
    looks: dict[str, list[str]] = {}
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        line = next(item for item in group if item.get("class", "").startswith("path"))
        name = next((item.text or "" for item in group if item.get("class") == "label"), "")
        looks.setdefault(name or "drawn", []).append(f"{group.get('class')} {line.get('class')}")
    assert len(set(looks.pop("drawn"))) == 8
    assert [looks[name] for name in names[6:]] == [["c0 path dash"], ["c1 path dash"]]
    assert looks["way 0"] == ["c0 path"]


def test_an_axis_that_counts_begins_at_zero() -> None:
    root = check(line_plot([Series("a", [(3, 1), (4, 2)])], title="t", x="steps", y="y", whole_x=True))
    ticks = [item.text for item in root.iter("{http://www.w3.org/2000/svg}text") if item.get("class") == "mid"]
    assert ticks[:5] == ["0", "1", "2", "3", "4"]
