"""The drawing of who talked to whom: no two texts lie on each other, none leaves the picture, most are written."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import combinations

import pytest

from combee.report.network import network
from combee.report.svg import text_width

TEXT = re.compile(r'<text x="([\d.-]+)" y="([\d.-]+)" class="([^"]+)"[^>]*>([^<]+)</text>')


Edge = tuple[str, str, int]


def star(draw: random.Random) -> list[Edge]:
    return [("user", f"desk {number}", draw.randrange(10, 10**6)) for number in range(12)]


def mesh(draw: random.Random) -> list[Edge]:
    names = [f"agent-{number}" for number in range(30)]
    return [(a, b, draw.randrange(10, 10**7)) for a, b in combinations(names, 2) if draw.random() < 0.25]


def long_names(draw: random.Random) -> list[Edge]:
    names = ["a" * 60, "the reviewer of everything", "w" * 20]
    return [(a, b, draw.randrange(10, 10**4)) for a, b in combinations(names, 2)]


@pytest.mark.parametrize("talk", [star, mesh, long_names])
def test_texts_do_not_lie_on_each_other_or_outside(talk: Callable[[random.Random], list[Edge]]) -> None:
    for seed in range(5):
        found = talk(random.Random(seed))
        plot = network(found)
        boxes = []
        texts = TEXT.findall(str(plot.inline()))
        for x, y, kind, text in texts:
            if "title" not in kind:
                wide = text_width(text, 11 if "small" in kind else 12)
                left = float(x) - (wide if "end" in kind else wide / 2 if "mid" in kind else 0)
                boxes.append((left, left + wide, float(y) - 9, float(y) + 2, text))
        assert all(left >= 0 and right <= plot.width for left, right, *_ in boxes)
        over = [
            (a[4], b[4])
            for a, b in combinations(boxes, 2)
            if a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]
        ]
        assert over == []
        numbers = [text for _, _, kind, text in texts if "small" in kind]
        assert len(numbers) >= min(len(found), 24) * 0.6  # most of those that may be written find a place
