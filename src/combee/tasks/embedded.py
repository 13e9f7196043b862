"""Two task sets that come with Combee, seeded, of any size: `tags`, and the support tickets of the demo.

`tags`: which US GAAP tag fits an amount in a sentence? Questions have the shape of FiNER rows. Some patterns of every
tag appear only in val and some only in test, so that what was learned has to carry over to sentences never seen; no
question is in two splits. Patterns become sentences: amounts, companies, dates, and phrases and sentences around them
that give nothing away. All randomness comes from the generator that is passed in, so equal seeds write equal text.

Support tickets: desks follow no reason, they are house rules that no model can know, only learn. Pairs of a thing and a
fault are the patterns; a seed draws the desk of each. Held-out tickets say it in words and frames that training never
shows, and a part of their patterns is never trained at all.
"""

from __future__ import annotations

import functools
import itertools
import random
import re
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from combee.errors import UsageError
from combee.kernel.learn.roles import Task
from combee.tasks.model import Sizes, TaskSet
from combee.tasks.scorers import Exact, TagList
from combee.tasks.shape import Question, finer_context

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


Amount = Callable[[random.Random], tuple[str, str]]
"""Makes the amount that is asked for: (the entity, the phrase it stands in)."""

_SLOT = re.compile(r"@|\{(\w)\}")
_HOLDS_TIME = re.compile(r"\{[qdy]\}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FIRST = _words(
    "Alder Bel Cor Dun East Fair Glen Har Iron Juni Kest Lark Mont Nor Oak Pine "
    "Quill Red Stone Thorn Umber Vale West Yar"
)
_SECOND = _words("brook crest dale field ford gate haven mark mere point ridge stead ton view ward well wick wood")
_THIRD = _words(
    "Industries Energy Holdings Systems Bancorp Therapeutics Logistics Foods "
    "Materials Software Properties Media Medical Partners Networks Retail"
)
_END = ("", ", Inc.", " Corp.", " LLC", " Ltd.", " Group")
_MONTHS = _words("January February March April May June July August September October November December")
_MONTH_ENDS = ("March 31", "June 30", "September 30", "December 31", "January 31", "April 30", "October 31")
_WORDS = _words("one two three four five six seven eight nine ten")
_TIMES = ("during {q}, ", "in {q}, ", "for {q}, ", "as of {d}, ", "at {d}, ", "since {d}, ")
_LEADS = (
    "in connection with the transaction, ",
    "as previously disclosed, ",
    "according to the agreement, ",
    "as a result, ",
    "in addition, ",
    "on a consolidated basis, ",
    "for our largest segment, ",
)
_TAILS = (
    ", compared with {m} a year earlier",
    ", as described in Note {n}",
    ", subject to customary conditions",
    ", which management considers appropriate",
    " (see Note {n})",
    ", based on information available to us",
    ", in line with our expectations",
    ", of which part relates to discontinued operations",
    ", and no material changes have occurred since",
    ", net of amounts that belong to {o}",
)
_NOISE = (
    "{c} is a Delaware corporation with offices in {n} countries.",
    "The accompanying statements are unaudited.",
    "Certain prior period amounts have been reclassified.",
    "Our fiscal year ends on the Saturday nearest to {d}.",
    "We operate through {n} business units.",
    "The preparation of these statements requires management to make estimates.",
    "{c} and {o} agreed to share certain services.",
    "There were no transfers between levels in {q}.",
    "Actual results could differ from those estimates.",
    "Management evaluates performance by adjusted earnings.",
    "{o} is a party to several agreements with us.",
    "Sales were {m} in {q}.",
    "The company employs about {s} people.",
    "All intercompany balances have been eliminated.",
    "Weather and fuel prices affect our results.",
    "In {y} the company moved its headquarters.",
    "{b} acts as administrative agent.",
    "The pandemic affected demand in {q}.",
    "We do not expect new guidance to have a material effect.",
    "Our products are sold in {n} states.",
)


def _money(rng: random.Random) -> tuple[str, str]:
    unit = rng.choice(("million", "million", "million", "billion", "", ""))
    if unit:
        number = f"{rng.uniform(1, 990 if unit == 'million' else 9.9):.{rng.choice((1, 1, 2))}f}"
        return number, f"$ {number} {unit}"
    number = f"{rng.randrange(10_000, 9_999_999):,}"
    return number, f"$ {number}"


def _percent(rng: random.Random) -> tuple[str, str]:
    number = f"{rng.uniform(0.2, 98):.{rng.choice((0, 1, 2, 2))}f}"
    return number, f"{number} %"


def _rate(rng: random.Random) -> tuple[str, str]:
    number = f"{rng.uniform(0.1, 14):.{rng.choice((1, 2, 2, 3))}f}"
    return number, f"{number} %"


def _shares(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.25:
        number = f"{rng.uniform(1, 60):.{rng.choice((1, 2))}f}"
        return number, f"{number} million"
    number = f"{rng.randrange(1_000, 60_000_000):,}"
    return number, number


def _price(rng: random.Random) -> tuple[str, str]:
    number = f"{rng.uniform(0.05, 180):.2f}"
    return number, f"$ {number}"


def _years(rng: random.Random) -> tuple[str, str]:
    number = rng.choice((rng.choice(_WORDS[1:]), str(rng.randrange(2, 31)), f"{rng.uniform(1, 12):.1f}"))
    return number, number


KINDS: Mapping[str, Amount] = {
    "money": _money,
    "percent": _percent,
    "price": _price,
    "rate": _rate,
    "shares": _shares,
    "years": _years,
}
"""What an entity can be."""


def _date(rng: random.Random) -> str:
    return f"{rng.choice(_MONTHS)} {rng.randrange(1, 29)}, {rng.randrange(2015, 2024)}"


def _period(rng: random.Random) -> str:
    length = rng.choice(("three months", "six months", "nine months", "fiscal year", "year", "quarter"))
    return f"the {length} ended {rng.choice(_MONTH_ENDS)}, {rng.randrange(2015, 2024)}"


def _company(rng: random.Random) -> str:
    return f"{rng.choice(_FIRST)}{rng.choice(_SECOND)} {rng.choice(_THIRD)}{rng.choice(_END)}"


_SLOTS: Mapping[str, Callable[[random.Random], str]] = {
    "b": lambda rng: (
        f"{rng.choice(_FIRST)}{rng.choice(_SECOND)} {rng.choice(('Bank', 'National Bank', 'Trust Company'))}"
    ),
    "c": _company,
    "d": _date,
    "m": lambda rng: _money(rng)[1],
    "n": lambda rng: rng.choice(_WORDS[1:]) if rng.random() < 0.5 else str(rng.randrange(2, 16)),
    "o": _company,
    "p": lambda rng: _percent(rng)[1],
    "q": _period,
    "s": lambda rng: _shares(rng)[1],
    "x": lambda rng: _price(rng)[1],
    "y": lambda rng: str(rng.randrange(2016, 2028)),
}


def write_sentence(pattern: str, amount: str, settings: Sequence[str], rng: random.Random) -> str:
    """Return the pattern filled in, often with an opening, a setting or tail, and another sentence beside it."""
    text = pattern
    if rng.random() < 0.35:
        fits = _LEADS if _HOLDS_TIME.search(pattern) else (*_TIMES, *_LEADS)
        text = rng.choice(fits) + text
    if rng.random() < 0.6:
        text += f", {rng.choice(settings)}"
    elif rng.random() < 0.5:
        text += rng.choice(_TAILS)
    text = f"{text[:1].upper()}{text[1:]}."
    if rng.random() < 0.25:
        noise = rng.choice(_NOISE)
        text = f"{noise} {text}" if rng.random() < 0.5 else f"{text} {noise}"

    def fill(match: re.Match[str]) -> str:
        slot = match[1]
        return _SLOTS[slot](rng) if slot else amount

    return _SLOT.sub(fill, text).replace("..", ".")


NEVER_SEEN = 0.15
"""Share of the patterns, and of the held-out tickets, that training never shows."""


def ticket_set(train: int = 240, test: int = 120, *, patterns: int = 60, seed: int = 0) -> TaskSet:
    """Make the set: equal seeds give equal tickets.

    Args:
        train: Training tickets.
        test: Held-out tickets.
        patterns: Pairs of a thing and a fault, each with a desk; `NEVER_SEEN` of them are held out.
        seed: Decides pairs, desks and wordings.
    """
    data = tomllib.loads(files("combee.tasks").joinpath("tickets.toml").read_text(encoding="utf-8"))
    chance = random.Random(f"tickets {seed}")
    pairs = list(itertools.product(sorted(data["things"]), sorted(data["faults"])))
    chance.shuffle(pairs)
    desks = (data["desks"] * patterns)[:patterns]
    chance.shuffle(desks)
    rules = dict(zip(pairs[:patterns], desks, strict=True))
    unseen = round(patterns * NEVER_SEEN)
    seen, never = pairs[unseen:patterns], pairs[:unseen]

    def ticket(pair: tuple[str, str], number: int, split: str) -> Task:
        thing, fault = data["things"][pair[0]], data["faults"][pair[1]]
        held_out = split == "test"
        # One of the two is said in words that training has, so that there is something to recognise it by.
        new = chance.randrange(2) if held_out else None
        words = {
            "thing": thing[-1] if new == 0 else chance.choice(thing[:-1]),
            "fault": fault[-1] if new == 1 else chance.choice(fault[:-1]),
        }
        text = chance.choice(data["held_out_frames" if held_out else "frames"]).format(**words)
        return Task(f"{split}-{number}", text[0].upper() + text[1:], rules[pair])

    def tickets(split: str, chosen: list[tuple[str, str]]) -> tuple[Task, ...]:
        by_question: dict[str, Task] = {}
        for pair in itertools.islice(itertools.cycle(chosen), 50 * len(chosen)):
            if len(by_question) == len(chosen):
                break
            task = ticket(pair, len(by_question), split)
            by_question.setdefault(task.question, task)
        return tuple(by_question.values())

    def spread(count: int, among: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return list(itertools.islice(itertools.cycle(among), count))

    trained = spread(train, seen)
    chance.shuffle(trained)
    tested = spread(round(test * (1 - NEVER_SEEN)), seen) + spread(round(test * NEVER_SEEN), never)
    chance.shuffle(tested)
    about = (
        f"{train} support tickets made for Combee: {patterns} patterns go to {len(set(desks))} desks by rules without "
        f"reason. Held-out tickets are worded anew; {NEVER_SEEN:.0%} of them follow patterns that training never shows."
    )
    return TaskSet(
        "tickets", "rows", tickets("train", trained), (), tickets("test", tested), Exact(), tuple(data["desks"]), about
    )
