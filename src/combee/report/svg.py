"""Plots as SVG: lines and bars with axes, ticks and a legend, for a page (`inline`) or a file (`save`).

Light and dark follow the reader's system. Points that are not finite, or not positive on a logarithmic axis, are left
out.

Axes: which range to show, where the ticks stand, how numbers are written, and where a value lies in pixels.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from combee.files import write_whole
from combee.report.html import PLOT, SERIES, Html, el, join

__all__ = ["Axis", "Mark", "Plot", "Series", "bar_plot", "line_plot", "make_axis", "number", "text_width"]

WIDTH = 460
_ROW = 18  # height of a legend row
_BAR = 14  # height of a bar


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing of `width` by `height` pixels; it scales without loss."""

    title: str
    width: float
    height: float
    body: Html = field(repr=False)
    axes: str | None = None
    """Of lines: start, end, low, high and 1 for a logarithm, of x and then of y. The script of a page zooms by it."""

    def inline(self, *, fixed: bool = False) -> Html:
        """Return it for a page that has the rules of `style`; `fixed` keeps its size, for a frame that scrolls."""
        size: dict[str, float] = {"width": self.width, "height": self.height} if fixed else {}
        return self._svg(self.body, data_axes=self.axes, **size)

    def standalone(self) -> str:
        """Return it as a whole SVG file."""
        body = join([el("style", Html(PLOT)), el("rect", width="100%", height="100%", class_="ground"), self.body])
        text = self._svg(body, xmlns="http://www.w3.org/2000/svg", width=self.width, height=self.height)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'

    def save(self, path: Path | str) -> Path:
        """Write it to a file, whole or not at all. Raises as `write_whole`."""
        return write_whole(Path(path), self.standalone())

    def _svg(self, body: Html, **more: str | float | None) -> Html:
        box = f"0 0 {self.width:g} {self.height:g}"
        return el("svg", body, viewBox=box, role="img", aria_label=self.title, **more)


@dataclass(frozen=True, slots=True)
class Series:
    """One line. `spread` holds (low, high) for each point: a band, or whiskers where no `line` is drawn.

    `line` and `dots` say what is drawn.
    """

    name: str
    points: Sequence[tuple[float, float]]
    spread: Sequence[tuple[float, float]] = ()
    line: bool = True
    dots: bool = True
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A dotted line across the plot at a value of "x" or "y", with a word on it."""

    value: float
    label: str
    axis: str = "y"


def line_plot(
    series: Sequence[Series],
    *,
    title: str,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    zero: bool = True,
    y_limits: tuple[float, float] | None = None,
    whole_x: bool = False,
    marks: Sequence[Mark] = (),
) -> Plot:
    """Draw lines over one pair of axes.

    Args:
        series: Six are told apart by colour, the next six by dashes too; marks differ between neighbours.
        title: Stands above.
        x: What the horizontal axis shows, with its unit.
        y: What the vertical axis shows, with its unit.
        log_x: Logarithmic horizontal axis.
        log_y: Logarithmic vertical axis.
        zero: Begin the vertical axis at 0.
        y_limits: Range of the vertical axis.
        whole_x: The horizontal axis counts: it begins at 0, and only whole numbers have ticks.
        marks: Values to point out.
    """
    kept = [_drawable(one, log_x=log_x, log_y=log_y) for one in series]
    kept = [replace(one, dashed=one.dashed or i >= SERIES) for i, one in enumerate(kept)]
    heading, top = _heading(title, {one.name: _sign(one, i) for i, one in enumerate(kept)} if len(kept) > 1 else {})
    height = top + 190 + 44
    values = [value for one in kept for _, value in one.points] + [
        v for one in kept for pair in one.spread for v in pair
    ]
    values += [mark.value for mark in marks if mark.axis == "y"]
    vertical = make_axis(values, height - 44, top, log=log_y, zero=zero, limits=y_limits)
    left = 34 + max(text_width(number(tick)) for tick in vertical.ticks)
    across = [place for one in kept for place, _ in one.points] + [mark.value for mark in marks if mark.axis == "x"]
    horizontal = make_axis(across, left, WIDTH - 18, log=log_x, zero=whole_x, whole=whole_x)
    parts = [
        heading,
        _frame(x, y, horizontal, vertical, height),
        *(_mark(mark, horizontal, vertical) for mark in marks),
        *(_series(one, i, horizontal, vertical) for i, one in enumerate(kept)),
    ]
    axes = " ".join(
        f"{axis.start:g} {axis.end:g} {axis.low:.10g} {axis.high:.10g} {axis.log:d}" for axis in (horizontal, vertical)
    )
    return Plot(title, WIDTH, height, join(parts), axes)


def _drawable(one: Series, *, log_x: bool, log_y: bool) -> Series:
    def good(point: tuple[float, float]) -> bool:
        x, y = point
        return math.isfinite(x) and math.isfinite(y) and (x > 0 or not log_x) and (y > 0 or not log_y)

    chosen = [i for i, point in enumerate(one.points) if good(point)]
    spread = [one.spread[i] for i in chosen] if len(one.spread) == len(one.points) else []
    return replace(one, points=[one.points[i] for i in chosen], spread=spread)


def _frame(x: str, y: str, horizontal: Axis, vertical: Axis, height: float) -> Html:
    left, right, bottom, top = horizontal.start, horizontal.end, vertical.start, vertical.end
    parts: list[Html] = []
    for tick in vertical.ticks:
        at = vertical.at(tick)
        parts.append(el("line", x1=left, x2=right, y1=at, y2=at, class_="grid"))
        parts.append(el("text", number(tick), x=left - 7, y=at + 4, class_="end"))
    for tick in horizontal.ticks:
        at = horizontal.at(tick)
        parts.append(el("line", x1=at, x2=at, y1=bottom, y2=bottom + 4, class_="axis"))
        parts.append(el("text", number(tick), x=at, y=bottom + 17, class_="mid", data_tick=at))
    parts.append(el("path", d=f"M{left:g} {top:g}V{bottom:g}H{right:g}", class_="axis", fill="none"))
    parts.append(el("text", x, x=(left + right) / 2, y=height - 8, class_="mid"))
    middle = (top + bottom) / 2
    parts.append(el("text", y, x=14, y=middle, class_="mid", transform=f"rotate(-90 14 {middle:g})"))
    return join(parts)


def _series(one: Series, index: int, horizontal: Axis, vertical: Axis) -> Html:
    places = [(horizontal.at(x), vertical.at(y)) for x, y in one.points]
    parts: list[Html] = []
    if one.spread and places and not one.line:
        ends = [(vertical.at(low), vertical.at(high)) for low, high in one.spread]
        parts += [
            el("line", x1=x, x2=x, y1=low, y2=high, class_="whisker")
            for (x, _), (low, high) in zip(places, ends, strict=True)
        ]
    elif one.spread and places:
        upper = [f"{x:g} {vertical.at(high):g}" for (x, _), (_, high) in zip(places, one.spread, strict=True)]
        lower = [f"{x:g} {vertical.at(low):g}" for (x, _), (low, _) in zip(places, one.spread, strict=True)]
        parts.append(el("path", d=f"M{'L'.join([*upper, *reversed(lower)])}Z", class_="band"))
    if one.line and len(places) > 1:
        course = "L".join(f"{x:g} {y:g}" for x, y in places)
        parts.append(el("path", d=f"M{course}", class_="path dash" if one.dashed else "path"))
    if one.dots or len(places) == 1:
        parts += [
            el("path", el("title", f"{one.name}: {number(x)}, {y:.4g}"), d=_dot(index, *place), class_="dot")
            for place, (x, y) in zip(places, one.points, strict=True)
        ]
    points = " ".join(f"{x:.6g}:{y:.6g}" for x, y in one.points)
    return el("g", *parts, class_=f"c{index % SERIES}", data_series=index, data_name=one.name, data_points=points)


def _dot(index: int, x: float, y: float) -> str:
    """Return the outline of a mark: another shape for each line, so that colour is not the only difference."""
    match index % 4:
        case 0:
            return f"M{x - 3.6:g} {y:g}a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z"
        case 1:
            return f"M{x - 3.3:g} {y - 3.3:g}h6.6v6.6h-6.6z"
        case 2:
            return f"M{x:g} {y - 4.4:g}l4.4 4.4l-4.4 4.4l-4.4 -4.4z"
        case _:
            return f"M{x:g} {y - 4.2:g}l4.2 7.4h-8.4z"


def _mark(mark: Mark, horizontal: Axis, vertical: Axis) -> Html:
    if mark.axis == "x":
        at = horizontal.at(mark.value)
        line = el("line", x1=at, x2=at, y1=vertical.start, y2=vertical.end, class_="mark")
        room = horizontal.end - at > text_width(mark.label) + 6
        place = at + 5 if room else at - 5
        label = el("text", mark.label, x=place, y=vertical.end + 11, class_="small" if room else "small end")
        return el("g", line, label, data_at=at)
    at = vertical.at(mark.value)
    line = el("line", x1=horizontal.start, x2=horizontal.end, y1=at, y2=at, class_="mark")
    return join([line, el("text", mark.label, x=horizontal.end, y=at - 4, class_="small end")])


def _legend_places(names: Sequence[str]) -> list[tuple[float, int]]:
    """Return x and row of each name, as many in a row as fit."""
    places: list[tuple[float, int]] = []
    x, row = 10.0, 0
    for name in names:
        wide = 30 + text_width(name) + 14
        if places and x + wide > WIDTH:
            x, row = 10.0, row + 1
        places.append((x, row))
        x += wide
    return places


def _sign(one: Series, index: int) -> Html:
    """Return what stands for a line in the legend, drawn as the line is."""
    line = el("path", d="M0 0h24", class_="path dash" if one.dashed else "path") if one.line else None
    return join([line, el("path", d=_dot(index, 12, 0), class_="dot") if one.dots or len(one.points) == 1 else None])


def _heading(title: str, legend: Mapping[str, Html]) -> tuple[Html, float]:
    """Return the title, in as many lines as it takes, with the legend under it, and the place where axes may begin."""
    rows = textwrap.wrap(title, int((WIDTH - 20) / text_width("x", 13.5)))
    parts = [el("text", row, x=10, y=18 + i * _ROW, class_="title") for i, row in enumerate(rows)]
    top = 18 + _ROW * max(len(rows) - 1, 0)
    places = _legend_places(list(legend))
    for index, ((name, sign), (x, row)) in enumerate(zip(legend.items(), places, strict=True)):
        text = el("text", name, x=30, y=4, class_="label")
        place = f"translate({x:g} {top + 18 + row * _ROW})"
        parts.append(el("g", sign, text, class_=f"c{index % SERIES}", transform=place, data_key=index))
    return join(parts), top + 18 + (_ROW * (places[-1][1] + 1) if places else 0)


def bar_plot(
    categories: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    title: str,
    x: str,
    x_limits: tuple[float, float] | None = None,
    spread: Mapping[str, Sequence[tuple[float, float] | None]] | None = None,
) -> Plot:
    """Draw lying bars, one group a category, each with its value written at its end.

    Args:
        categories: Names, from the top.
        series: For each name of a series, one value a category (None: no bar).
        title: Stands above.
        x: What the bars show, with its unit.
        x_limits: Range of the axis; from 0 unless given.
        spread: For each name of a series, (low, high) of each bar, drawn as a whisker.
    """
    names = list(series)
    square = el("rect", x=4, y=-5, width=12, height=10, rx=2, class_="bar")
    heading, top = _heading(title, dict.fromkeys(names, square) if len(names) > 1 else {})
    thick = _BAR + 3
    step = thick * len(names) + 12
    height = top + step * len(categories) + 44
    whiskers = spread or {}
    values = [float(value) for row in series.values() for value in row if value is not None and math.isfinite(value)]
    values += [float(end) for pairs in whiskers.values() for pair in pairs if pair for end in pair]
    exact = any(not value.is_integer() for value in values) and max(map(abs, values)) < 10
    left = min(max([text_width(name) for name in categories], default=0) + 22, WIDTH / 2)
    horizontal = make_axis(values, left, WIDTH - 56, zero=True, limits=x_limits)
    parts = [heading]
    bottom = height - 44
    for tick in horizontal.ticks:
        at = horizontal.at(tick)
        parts.append(el("line", x1=at, x2=at, y1=top - 4, y2=bottom, class_="grid"))
        parts.append(el("text", number(tick), x=at, y=bottom + 16, class_="mid"))
    for row, name in enumerate(categories):
        y = top + row * step
        parts.append(el("text", name, x=left - 8, y=y + (step - 12) / 2 + 4, class_="end label"))
        for i, key in enumerate(names):
            pair = whiskers[key][row] if key in whiskers else None
            bar = _bar(series[key][row], pair, horizontal, exact=exact)
            place = f"translate(0 {y + i * thick:g})"
            parts.append(el("g", bar, class_=f"c{i % SERIES}", transform=place, data_series=i))
    parts.append(el("text", x, x=(left + horizontal.end) / 2, y=height - 8, class_="mid"))
    return Plot(title, WIDTH, height, join(parts))


def _bar(value: float | None, pair: tuple[float, float] | None, horizontal: Axis, *, exact: bool) -> Html:
    """Return one bar at the top of its group, with three decimals where values are shares."""
    if value is None or not math.isfinite(value):
        return el("text", "–", x=horizontal.start + 5, y=_BAR / 2 + 4)
    zero, at = horizontal.at(0), horizontal.at(value)
    parts = [el("rect", x=min(zero, at), y=0, width=round(abs(at - zero), 1), height=_BAR, rx=2, class_="bar")]
    edge = max(at, zero)
    if pair is not None:
        low, high = horizontal.at(pair[0]), horizontal.at(pair[1])
        parts.append(el("line", x1=low, x2=high, y1=_BAR / 2, y2=_BAR / 2, class_="whisker"))
        edge = max(edge, high)
    parts.append(el("text", f"{value:.3f}" if exact else number(value), x=edge + 6, y=_BAR / 2 + 4, class_="label"))
    return join(parts)


WANTED = 5  # ticks, about
_WIDE = 0x1100  # from here on characters may be as wide as they are high


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `low` to `high` over pixels from `start` to `end` (which may be less: y grows downwards)."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value, held within the axis."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def make_axis(
    values: Iterable[float],
    start: float,
    end: float,
    *,
    log: bool = False,
    zero: bool = False,
    limits: tuple[float, float] | None = None,
    whole: bool = False,
) -> Axis:
    """Return an axis that shows all values (those that a log axis cannot show are left out).

    Args:
        values: What is shown; may be empty.
        start: Pixel of the low end.
        end: Pixel of the high end.
        log: Logarithmic.
        zero: Begin at 0 if all values are above it.
        limits: The range, if it is not to follow from the values.
        whole: Ticks at whole numbers only.
    """
    kept = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    low, high = limits or (min(kept, default=1.0 if log else 0.0), max(kept, default=1.0))
    if log:
        if limits is None:  # so that no point stands on the frame
            pad = (high / low) ** 0.06 if high > low else 2.0
            low, high = low / pad, high * pad
        return Axis(low, high, start, end, _log_ticks(low, high), log=True)
    if zero and low > 0:
        low = 0.0
    if high - low <= max(abs(low), abs(high), 1e-200) * 1e-9:  # equal, as far as a plot can show
        pad = max(abs(low) / 10, 1.0 if whole or low == 0 else 1e-9)
        low, high = (low, low + pad) if zero and low == 0 else (low - pad, high + pad)
    step = _nice_step((high - low) / WANTED)
    if whole:
        step = max(1.0, round(step))
    if limits is None:
        low = low if whole else math.floor(low / step + 1e-9) * step
        high = high if whole else math.ceil(high / step - 1e-9) * step
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return Axis(low, high, start, end, tuple(round((first + i) * step, 12) for i in range(count)))


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next((factor for factor in (1.0, 2.0, 5.0) if factor * power >= rough * 0.999), 10.0) * power


def _log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return powers of ten, or also 3, or 2 and 5 of each, or more: whatever comes nearest to the wanted number."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    choices = [
        [f * 10.0**p for p in powers for f in factors if low * 0.999 <= f * 10.0**p <= high * 1.001]
        for factors in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0))
    ]
    found = min(choices, key=lambda ticks: abs(len(ticks) - WANTED - 0.5))  # rather one more
    while len(found) > 8:
        found = found[::2]
    return tuple(found) if len(found) > 1 else (low, high)


def number(value: float) -> str:
    """Return a number short enough for an axis or a label: three digits, thousands as k, millions as M."""
    size = abs(value)
    if size >= 9.995e8 or (value and size < 1e-3):
        return f"{value:.3g}"
    for limit, unit, letter in ((999_500, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return f"{value / unit:.3g}{letter}"
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.3g}"


def text_width(text: str, size: float = 12) -> float:
    """Return about how many pixels a text takes; nothing here can measure a font."""
    return size * sum(1.05 if ord(character) >= _WIDE else 0.56 for character in text)
