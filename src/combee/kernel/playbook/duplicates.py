"""Duplicates: which texts are nearly the same, and which bullets are the same lesson and may become one.

Similarity finds neighbours (word shingles, Jaccard); it never merges by itself. Bullets become one only when everything
that carries meaning is the same too (`lesson_core`), so numbers, identifiers, code, negation and conclusions are never
averaged away.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from math import ceil

from combee.errors import UsageError
from combee.kernel.playbook.model import Bullet, Playbook
from combee.kernel.playbook.sections import number_of
from combee.kernel.playbook.text import equality_key, lesson_core, similarity, word_list

_MEETINGS = 4
"""Rare shingles that two texts must share to be compared: more means longer lists and fewer comparisons."""


def check_similarity(threshold: float) -> None:
    """Raise `UsageError` unless the threshold lies above 0 and at most at 1."""
    if not 0 < threshold <= 1:
        raise UsageError(
            f"the similarity threshold is {threshold}", hint="It lies above 0 and at most at 1; 0.8 is usual."
        )


def near_duplicates(texts: Sequence[str], threshold: float) -> list[tuple[int, int, float]]:
    """Return all pairs (i, j, similarity), i < j, whose similarity is at least `threshold`, in order of i and j.

    Exact: it finds what comparing all pairs finds. Two texts can only be so similar when their rarest shingles meet, so
    only those are looked up (prefix filtering; Bayardo et al. 2007). The result grows with the number of pairs.

    Raises:
        UsageError: the threshold is not in (0, 1].
    """
    check_similarity(threshold)
    same: dict[frozenset[int], list[int]] = defaultdict(list)
    for index, shingled in enumerate(_numbered(texts)):
        same[shingled].append(index)
    groups = list(same.values())
    pairs = [(group[a], j, 1.0) for group in groups for a in range(len(group)) for j in group[a + 1 :]]
    for one, other, score in _join(list(same), threshold):
        pairs += [(min(i, j), max(i, j), score) for i in groups[one] for j in groups[other]]
    return sorted(pairs)


def _numbered(texts: Iterable[str]) -> Iterator[frozenset[int]]:
    """Yield the shingles of each text as numbers.

    The same sets as `shingles` gives, but smaller and quicker to compare.
    """
    numbers: dict[str, int] = {}
    for text in texts:
        words = [numbers.setdefault(word, len(numbers) + 1) for word in word_list(text)]
        if words:
            yield frozenset(words).union([one << 32 | other for one, other in pairwise(words)])
        else:
            yield frozenset({-numbers.setdefault("\0" + equality_key(text), len(numbers) + 1)})


def _join(sets: Sequence[frozenset[int]], threshold: float) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs of different sets that are similar enough."""
    frequency = Counter(chain.from_iterable(sets))
    rank = {item: number for number, item in enumerate(sorted(frequency, key=lambda item: (frequency[item], item)))}
    order = sorted(range(len(sets)), key=lambda number: len(sets[number]))
    ranked = [sorted(map(rank.__getitem__, sets[number])) for number in order]
    members = [frozenset(items) for items in ranked]
    sizes = [len(items) for items in ranked]
    index: dict[int, list[int]] = defaultdict(list)
    for one, (items, size) in enumerate(zip(ranked, sizes, strict=True)):
        least = ceil(threshold * size - 1e-9)  # a set that is similar enough has at least this many, and shares as many
        needed = min(_MEETINGS, least)
        first = bisect_left(sizes, least)
        meetings: Counter[int] = Counter()
        for item in items[: size - least + needed]:
            if postings := index.get(item):
                meetings.update(postings if postings[0] >= first else postings[bisect_left(postings, first) :])
        mine = members[one]
        for other, count in meetings.items():
            if count >= needed:
                shared = len(mine & members[other])
                score = shared / (size + sizes[other] - shared)
                if score >= threshold:
                    yield order[one], order[other], score
        # Later sets are at least as long, so a shorter prefix of this one is enough to be found.
        for item in items[: size - ceil(2 * threshold / (1 + threshold) * size - 1e-9) + _MEETINGS]:
            index[item].append(one)


def same_lesson(one: str, other: str, threshold: float) -> bool:
    """Tell whether two texts may become one: the same after normalising, or similar enough with the same core."""
    if equality_key(one) == equality_key(other):
        return True
    return lesson_core(one) == lesson_core(other) and similarity(one, other) >= threshold


def absorb(kept: Bullet, gone: Iterable[Bullet], *, text: str | None = None, sources: Iterable[str] = ()) -> Bullet:
    """Return `kept` with the counters and sources of the others (and more `sources`) added to its own.

    Nothing of the others is lost but their text.
    """
    family = [kept, *gone]
    used = [bullet.last_used for bullet in family if bullet.last_used is not None]
    return Bullet(
        id=kept.id,
        section=kept.section,
        text=kept.text if text is None else text,
        helpful=sum([bullet.helpful for bullet in family]),
        harmful=sum([bullet.harmful for bullet in family]),
        sources=(*chain.from_iterable(bullet.sources for bullet in family), *sources),
        created=min([bullet.created for bullet in family]),
        last_used=max(used) if used else None,
    )


def deduplicate(book: Playbook, threshold: float = 1.0) -> Playbook:
    """Return the book with bullets that say the same made one bullet.

    The better supported one stays: the greater helpful − harmful, then more sources, then the older. Each bullet joins
    one that is similar to itself, never one that is only similar to its neighbour; so all counters are counted once.
    The section does not matter. Folding twice changes nothing more.

    Raises:
        UsageError: the threshold is not in (0, 1].
    """
    check_similarity(threshold)
    families: dict[str, list[Bullet]] = {}
    heads: dict[tuple[str, ...], list[Bullet]] = defaultdict(list)
    by_text: dict[str, Bullet] = {}
    for bullet in sorted(book.bullets, key=_seniority):
        key = equality_key(bullet.text)
        head = by_text.get(key)
        if head is None:
            core = lesson_core(bullet.text)
            scored = [(similarity(bullet.text, other.text), other) for other in heads[core]]
            head = max(
                (pair for pair in scored if pair[0] >= threshold), key=lambda pair: pair[0], default=(0.0, None)
            )[1]
            if head is None:
                heads[core].append(bullet)
                families[bullet.id] = []
                by_text[key] = bullet
                continue
            by_text[key] = head
        families[head.id].append(bullet)
    if len(families) == len(book.bullets):
        return book
    kept = tuple(
        absorb(bullet, families[bullet.id]) if families[bullet.id] else bullet
        for bullet in book.bullets
        if bullet.id in families
    )
    return replace(book, bullets=kept)


def _seniority(bullet: Bullet) -> tuple[int, int, int, int, str]:
    return (bullet.harmful - bullet.helpful, -len(bullet.sources), bullet.created, number_of(bullet.id), bullet.id)
