"""The stock of modules that broken repositories are drawn from, each with ways to break it and tests that see them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["STOCK", "Part"]


@dataclass(frozen=True, slots=True)
class Part:
    """One module. `breaks` are (right, wrong, kind of bug); LIMIT is filled in for each repository."""

    module: str
    function: str
    source: str
    tests: str
    breaks: tuple[tuple[str, str, str], ...]


STOCK = (
    Part(
        "slug",
        "slug",
        'def slug(title):\n    """Return the words of a title, joined by dashes."""\n'
        '    return "-".join(title.strip().lower().split())\n',
        'def test_slug_words():\n    assert slug("Big News Today") == "big-news-today"\n\n\n'
        'def test_slug_spaces():\n    assert slug("  a   b ") == "a-b"\n',
        ((".lower()", ".upper()", "wrong call"), ('"-".join', '"_".join', "wrong constant")),
    ),
    Part(
        "window",
        "last",
        'def last(items, count=LIMIT):\n    """Return the last items, oldest first."""\n'
        "    if count <= 0:\n        return []\n    return list(items)[-count:]\n",
        "def test_last_two():\n    assert last([1, 2, 3], 2) == [2, 3]\n\n\n"
        "def test_last_none():\n    assert last([1, 2, 3], 0) == []\n\n\n"
        "def test_last_default():\n    assert last(range(50)) == list(range(50 - LIMIT, 50))\n",
        (("[-count:]", "[-count - 1:]", "off by one"), ("count <= 0", "count < 0", "boundary")),
    ),
    Part(
        "dedupe",
        "unique",
        'def unique(items):\n    """Return the items without repeats, first ones kept in order."""\n'
        "    seen = set()\n    kept = []\n    for item in items:\n        if item not in seen:\n"
        "            seen.add(item)\n            kept.append(item)\n    return kept\n",
        "def test_unique_order():\n    assert unique([2, 1, 2, 3]) == [2, 1, 3]\n\n\n"
        "def test_unique_empty():\n    assert unique([]) == []\n",
        (
            ("            seen.add(item)\n", "", "missing line"),
            ("if item not in seen", "if item in seen", "inverted condition"),
        ),
    ),
    Part(
        "tags",
        "add_tag",
        'def add_tag(tag, tags=None):\n    """Return the tags with one more."""\n'
        "    tags = [] if tags is None else list(tags)\n    tags.append(tag)\n    return tags\n",
        'def test_add_tag_fresh():\n    add_tag("a")\n    assert add_tag("b") == ["b"]\n\n\n'
        'def test_add_tag_no_side_effect():\n    given = ["a"]\n    add_tag("b", given)\n    assert given == ["a"]\n',
        (
            ("else list(tags)", "else tags", "shared state"),
            ("    tags.append(tag)\n    return tags", "    return tags.append(tag)", "wrong return"),
        ),
    ),
    Part(
        "score",
        "mean",
        'def mean(values):\n    """Return the mean; 0 for no values."""\n'
        "    values = list(values)\n    if not values:\n        return 0.0\n    return sum(values) / len(values)\n",
        "def test_mean_of_two():\n    assert mean([1, 2]) == 1.5\n\n\n"
        "def test_mean_of_none():\n    assert mean([]) == 0.0\n",
        (
            ("sum(values) / len", "sum(values) // len", "wrong operator"),
            ("    if not values:\n        return 0.0\n", "", "missing guard"),
        ),
    ),
    Part(
        "rank",
        "top",
        'def top(items, key="score", count=LIMIT):\n    """Return the best items by a field, best first."""\n'
        "    return sorted(items, key=lambda item: item.get(key, 0), reverse=True)[:count]\n",
        'def test_top_best_first():\n    assert top([{"score": 1}, {"score": 3}])[0]["score"] == 3\n\n\n'
        'def test_top_missing_field():\n    assert len(top([{}, {"score": 1}])) == 2\n',
        ((", reverse=True", "", "wrong order"), ("item.get(key, 0)", "item[key]", "missing guard")),
    ),
    Part(
        "dates",
        "is_leap",
        'def is_leap(year):\n    """Return whether a year has 366 days."""\n'
        "    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n",
        "def test_is_leap_plain():\n    assert is_leap(2024) and not is_leap(2023)\n\n\n"
        "def test_is_leap_centuries():\n    assert is_leap(2000) and not is_leap(1900)\n",
        (
            ("or year % 400 == 0", "and year % 400 == 0", "wrong operator"),
            (" and (year % 100 != 0 or year % 400 == 0)", "", "missing case"),
        ),
    ),
    Part(
        "parse",
        "pairs",
        'def pairs(text):\n    """Return key=value lines as a dict; lines without a value are left out."""\n'
        '    found = {}\n    for line in text.splitlines():\n        key, sign, value = line.partition("=")\n'
        "        if sign:\n            found[key.strip()] = value.strip()\n    return found\n",
        'def test_pairs_plain():\n    assert pairs("a = 1\\nb=2") == {"a": "1", "b": "2"}\n\n\n'
        'def test_pairs_value_with_sign():\n    assert pairs("q=a=b\\nx") == {"q": "a=b"}\n',
        (
            ('line.partition("=")', 'line.rpartition("=")', "wrong call"),
            ("found[key.strip()] = value.strip()", "found[value.strip()] = key.strip()", "swapped"),
        ),
    ),
    Part(
        "chunk",
        "chunks",
        'def chunks(items, size=LIMIT):\n    """Return lists of at most `size` items."""\n'
        '    if size < 1:\n        raise ValueError("size")\n'
        "    return [list(items[at : at + size]) for at in range(0, len(items), size)]\n",
        "def test_chunks_rest():\n    assert chunks([1, 2, 3], 2) == [[1, 2], [3]]\n\n\n"
        "def test_chunks_refuses_zero():\n    try:\n        chunks([1], 0)\n"
        '    except ValueError as error:\n        assert str(error) == "size"\n'
        "    else:\n        raise AssertionError\n",
        (
            ("range(0, len(items), size)", "range(0, len(items) - 1, size)", "off by one"),
            ('    if size < 1:\n        raise ValueError("size")\n', "", "missing guard"),
        ),
    ),
    Part(
        "retry",
        "attempts",
        'def attempts(work, most=LIMIT):\n    """Return the result of the first try that does not raise OSError."""\n'
        "    for number in range(most):\n        try:\n            return work()\n        except OSError:\n"
        "            if number == most - 1:\n                raise\n    return None\n",
        "def test_attempts_second_try():\n    seen = []\n\n    def work():\n        seen.append(1)\n"
        "        if len(seen) < 2:\n            raise OSError\n        return 7\n\n    assert attempts(work) == 7\n\n\n"
        "def test_attempts_gives_up():\n    def work():\n        raise OSError\n\n    try:\n        attempts(work, 2)\n"
        "    except OSError:\n        pass\n    else:\n        raise AssertionError\n",
        (
            ("except OSError", "except KeyError", "wrong exception"),
            ("number == most - 1", "number == most", "off by one"),
        ),
    ),
)
