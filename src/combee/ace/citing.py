"""What a reply cites: bullets by id, reflections and operations by number, as models really write them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from combee.kernel.playbook import Playbook, Vote, VoteKind, find_ids
from combee.model.asking import as_text

__all__ = ["cited_ids", "cited_numbers", "votes_of"]

_NUMBER = re.compile(r"[0-9]{1,9}")


def cited_ids(raw: object, book: Playbook) -> tuple[str, ...]:
    """Return the bullet ids that a reply names, each once: those of the book first, then unknown ones as written."""
    mentions = [as_text(part) for part in raw] if isinstance(raw, list) else None
    if mentions is not None and all(mention in book for mention in mentions):  # the usual case, and quick
        return tuple(dict.fromkeys(mentions))
    found = find_ids(mentions if mentions is not None else as_text(raw), book)
    return (*found.known, *found.unknown)


def cited_numbers(raw: object) -> list[int]:
    """Return the numbers in a list like [1, "2", "reflection 3"], or in a text like "1, 2"."""
    parts = raw if isinstance(raw, list) else [raw]
    found: list[int] = []
    for part in parts:
        if isinstance(part, bool) or part is None:
            continue
        if isinstance(part, int | float):
            found.append(int(part) if abs(part) < 1e9 else 0)
        else:
            found += [int(number) for number in _NUMBER.findall(as_text(part))]
    return list(dict.fromkeys(found))


def votes_of(raw: object, shown: Playbook, reflection: str) -> tuple[tuple[Vote, ...], tuple[str, ...]]:
    """Return the votes of a reply's `bullet_tags`, and what could not be used (ids that were not shown, other tags).

    `raw` is a list of objects with id and tag, or an object of id to tag.
    """
    if isinstance(raw, Mapping):
        pairs = [(as_text(name), as_text(tag)) for name, tag in raw.items()]
    elif isinstance(raw, list):
        pairs = [
            (as_text(part.get("id", part.get("bullet_id"))), as_text(part.get("tag")))
            for part in raw
            if isinstance(part, Mapping)
        ]
    else:
        pairs = []
    votes: set[Vote] = set()
    problems: list[str] = []
    for name, tag in pairs:
        known = [one for one in cited_ids([name], shown) if one in shown]
        word = tag.casefold()
        if not known:
            problems.append(f"a tag for {name[:40]!r}, which was not shown")
        elif word in {"helpful", "harmful"}:
            votes.add(Vote(reflection, known[0], VoteKind(word)))
        elif word != "neutral":
            problems.append(f"the tag {tag[:40]!r} for {known[0]}")
    return tuple(sorted(votes)), tuple(problems)
