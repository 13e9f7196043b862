"""Axes: which range to show, where the ticks stand, how numbers are written, and where a value lies in pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Axis", "make_axis", "number", "text_width"]

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
