"""The embedded task set `tags`: which US GAAP tag fits an amount in a sentence? Written for Combee; seeded; any size.

Questions have the shape of FiNER rows. Some patterns of every tag appear only in val and some only in test, so that
what was learned has to carry over to sentences never seen; no question is in two splits.
"""

from __future__ import annotations

import functools
import itertools
import random
import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from combee.errors import UsageError
from combee.kernel.learn.roles import Task
from combee.tasks.finer import Question, finer_context
from combee.tasks.model import Sizes, TaskSet
from combee.tasks.scorers import TagList
from combee.tasks.sentences import KINDS, write_sentence

__all__ = ["DEFAULT_SIZES", "tag_names", "tag_set"]

DEFAULT_SIZES = (500, 100, 300)
"""Rows of train, val and test where none are asked for."""

_OWN_PATTERNS = {"val": 1, "test": 2}  # patterns of a tag that only this split has; the others are shared by all three
_OWN_SHARE = 0.15  # how often val and test use them
_SKEW = 1.2  # as in filings, a few phrasings of a tag are common and the others rare: weight 1 / rank ** skew
_MAX_ROWS = 100_000  # made in some seconds, before there is a run that could show progress
_ABOUT = (
    "{tags} US GAAP tags in generated sentences, written for Combee: easier and more regular than real filings, so "
    "scores compare methods with each other and say nothing about FiNER. {share:.0%} of val and test sentences follow "
    "patterns that train never shows."
)


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    kind: str
    patterns: tuple[str, ...]
    settings: tuple[str, ...]


@functools.cache
def _tags() -> tuple[_Tag, ...]:
    """Read the patterns that come with the package (a constant, so it is read once)."""
    data = tomllib.loads(files("combee.tasks").joinpath("tags.toml").read_text(encoding="utf-8"))
    return tuple(
        _Tag(name, one["entity"], tuple(one["patterns"].splitlines()), tuple(one["settings"].splitlines()))
        for name, one in data.items()
    )


def tag_names() -> tuple[str, ...]:
    """Return the tags that the set asks for, sorted."""
    return tuple(sorted(tag.name for tag in _tags()))


def tag_set(
    sizes: Sizes = DEFAULT_SIZES, *, seed: int = 0, questions_per_row: int = 1, options: bool = True
) -> TaskSet:
    """Make the set.

    Args:
        sizes: rows of (train, val, test); None takes the default of that split.
        seed: equal seeds give equal rows; a larger split begins with the rows of a smaller one.
        questions_per_row: questions in a row; the target is their tags, comma-separated, in order.
        options: put the list of tags before the questions, as FiNER rows have it.

    Raises:
        UsageError: a size or the number of questions is out of range.
    """
    if not 1 <= questions_per_row <= 100:
        raise UsageError(f"{questions_per_row} questions a row", hint="Give 1 to 100.")
    counts = {
        name: default if size is None else size
        for name, size, default in zip(("train", "val", "test"), sizes, DEFAULT_SIZES, strict=True)
    }
    for name, count in counts.items():
        if not 0 <= count <= _MAX_ROWS:
            raise UsageError(f"{name} size {count} is out of range", hint=f"Give 0 to {_MAX_ROWS:,}.")
    pools = _pools(seed)
    offered = tag_names()
    parts: dict[str, tuple[Task, ...]] = {}
    for name, count in counts.items():
        rows = _rows(name, pools[name], seed, questions_per_row)
        parts[name] = tuple(
            Task(
                f"{name}-{number:05d}",
                finer_context([question for question, _ in row], offered if options else ()),
                ",".join(tag for _, tag in row),
            )
            for number, row in zip(range(1, count + 1), rows, strict=False)
        )
    return TaskSet(
        name="tags",
        kind="tags",
        train=parts["train"],
        val=parts["val"],
        test=parts["test"],
        scorer=TagList(),
        choices=offered,
        about=_ABOUT.format(tags=len(offered), share=_OWN_SHARE),
    )


@dataclass(frozen=True, slots=True)
class _Pool:
    """The patterns one split may use of one tag."""

    tag: _Tag
    shared: tuple[str, ...]
    weights: tuple[float, ...]
    own: tuple[str, ...]


def _pools(seed: int) -> Mapping[str, tuple[_Pool, ...]]:
    pools: dict[str, list[_Pool]] = {"train": [], "val": [], "test": []}
    for tag in _tags():
        patterns = list(tag.patterns)
        random.Random(f"{seed}/patterns/{tag.name}").shuffle(patterns)
        own: dict[str, tuple[str, ...]] = {"train": ()}
        for name, count in _OWN_PATTERNS.items():
            own[name] = tuple(patterns[:count])
            patterns = patterns[count:]
        weights = tuple(itertools.accumulate(1 / rank**_SKEW for rank in range(1, len(patterns) + 1)))
        for name, pool in pools.items():
            pool.append(_Pool(tag, tuple(patterns), weights, own[name]))
    return {name: tuple(pool) for name, pool in pools.items()}


def _rows(name: str, pools: Sequence[_Pool], seed: int, per_row: int) -> Iterator[list[tuple[Question, str]]]:
    """Yield rows without end; a question comes once.

    An amount belongs to one split by its checksum: so splits share no question whatever their sizes, with nothing to
    compare.
    """
    place = ("train", "val", "test").index(name)
    rng = random.Random(f"{seed}/rows/{name}")
    seen: set[Question] = set()
    row: list[tuple[Question, str]] = []
    while True:
        pool = rng.choice(pools)
        own = pool.own and rng.random() < _OWN_SHARE
        pattern = rng.choice(pool.own) if own else rng.choices(pool.shared, cum_weights=pool.weights)[0]
        entity, phrase = KINDS[pool.tag.kind](rng)
        while zlib.crc32(entity.encode()) % 3 != place:
            entity, phrase = KINDS[pool.tag.kind](rng)
        question = Question(entity, write_sentence(pattern, phrase, pool.tag.settings, rng))
        if question in seen or _ambiguous(question):
            continue
        seen.add(question)
        row.append((question, pool.tag.name))
        if len(row) == per_row:
            yield row
            row = []


def _ambiguous(question: Question) -> bool:
    """Whether the amount stands twice in the sentence, so that nobody could tell which one is meant."""
    if question.sentence.count(question.entity) < 2:
        return False
    alone = rf"(?<![\w.,]){re.escape(question.entity)}(?!\w|[.,]\d)"
    return len(re.findall(alone, question.sentence)) != 1
