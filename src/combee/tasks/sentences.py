"""Patterns become sentences: amounts, companies, dates, and phrases and sentences around them that give nothing away.

All randomness comes from the generator that is passed in, so equal seeds write equal text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

__all__ = ["KINDS", "Amount", "write_sentence"]

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
