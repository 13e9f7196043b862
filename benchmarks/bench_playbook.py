"""Speed of the playbook: apply, render, parse, JSON, duplicates.

Prints a small table beside the bars that the project set itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import accumulate

from combee.kernel.playbook import (
    Add,
    Bullet,
    Operation,
    Playbook,
    Remove,
    Update,
    Vote,
    VoteKind,
    apply,
    deduplicate,
    delta_of,
    from_json,
    from_text,
    near_duplicates,
    similarity,
    to_json,
    to_text,
    view,
)
from combee.kernel.playbook.sections import SECTIONS, make_id
from combee.kernel.playbook.text import shingles


def _texts(count: int, seed: int, *, near: float = 0.1) -> list[str]:
    """Make lessons of 8 to 40 words; a share of them differs from an earlier one in a word or two."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(6000)]
    weights = list(accumulate(1 / (rank + 2) for rank in range(6000)))  # few words are frequent and most are rare
    texts: list[str] = []
    for _ in range(count):
        if texts and rng.random() < near:
            words = rng.choice(texts).split()
            for _ in range(rng.randint(1, 2)):
                words[rng.randrange(len(words))] = rng.choice(vocabulary)
        else:
            words = rng.choices(vocabulary, cum_weights=weights, k=rng.randint(8, 40))
        texts.append(" ".join(words))
    return texts


def _templates(count: int, seed: int) -> list[str]:
    """Make lessons of few patterns with changing slots: the hard case, where every word is frequent."""
    rng = random.Random(seed)
    words = _texts(400, seed, near=0.0)
    return [
        f"When the sentence mentions {' '.join(rng.choice(words).split()[:5])} of {rng.randint(2000, 2030)}, "
        f"use the tag {rng.choice(words).split()[0].title()}Amount and not the total of the period"
        for _ in range(count)
    ]


def _book(texts: list[str]) -> Playbook:
    names = list(SECTIONS)
    bullets = [
        Bullet(make_id(names[n * 7 // len(texts)], n + 1), names[n * 7 // len(texts)], text, n % 5, n % 2, (f"r{n}",))
        for n, text in enumerate(texts)
    ]
    return Playbook(tuple(bullets), len(bullets))


def _timed(name: str, bar: float | None, work: Callable[[], object], *, runs: int = 3) -> object:
    """Print the best of some runs, in seconds of this process, which another program's load does not change much."""
    best, result = float("inf"), None
    for _ in range(runs):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
        if best > 2:
            break
    verdict = "" if bar is None else f"< {bar:g}  {'ok' if best < bar else 'OVER'}"
    print(f"{name:<58}{best:8.3f} s  {verdict}")
    return result


def _recall(texts: list[str], threshold: float) -> float:
    found = {(i, j) for i, j, _ in near_duplicates(texts, threshold)}
    sets = [shingles(text) for text in texts]
    wanted = set()
    for i, one in enumerate(sets):
        for j in range(i + 1, len(sets)):
            other = sets[j]
            shared = len(one & other)
            if shared and shared >= threshold * (len(one) + len(other) - shared):
                wanted.add((i, j))
    assert all(similarity(texts[i], texts[j]) >= threshold for i, j in found)
    return len(found & wanted) / max(1, len(wanted))


def main() -> None:
    book = _book(_texts(10_000, 1, near=0))
    rng = random.Random(2)
    fresh = _texts(7_000, 3, near=0)
    operations: list[Operation] = [Add(rng.choice(list(SECTIONS)), text, (f"s{n}",)) for n, text in enumerate(fresh)]
    targets = rng.sample([bullet.id for bullet in book], 3_000)
    operations += [Update(target, f"new form of {target}", ("u",)) for target in targets[:2_000]]
    operations += [Remove(target, ("x",)) for target in targets[2_000:]]
    rng.shuffle(operations)
    delta = delta_of(operations)
    votes = [Vote(f"q{n}", rng.choice(book.bullets).id, VoteKind.HELPFUL) for n in range(3_000)]
    _timed("build a delta of 10,000 operations", None, lambda: delta_of(operations))
    _timed("apply 10,000 operations to 10,000 bullets", 0.3, lambda: apply(book, delta))
    _timed(
        "  with 3,000 votes and a budget that refuses half",
        None,
        lambda: apply(book, delta, votes=votes, budget=440_000),
    )
    _timed("  with eviction", None, lambda: apply(book, delta, votes=votes, budget=440_000, on_full="evict"))
    _timed("  with folding of near duplicates", None, lambda: apply(book, delta, near=0.8), runs=1)

    texts = _texts(20_000, 4)
    large = _book(texts)
    rendered = _timed("render 20,000 bullets as text", 0.2, lambda: to_text(large))
    _timed("parse 20,000 bullets from text", 0.2, lambda: from_text(str(rendered)))
    as_json = _timed("write 20,000 bullets as JSON for the first time", None, lambda: to_json(large), runs=1)
    _timed("read 20,000 bullets from JSON", None, lambda: from_json(str(as_json)))
    for threshold in (0.5, 0.7, 0.8, 0.9):
        bar = 4.0 if threshold == 0.8 else None
        pairs = _timed(f"near duplicates in 20,000 at {threshold}", bar, lambda t=threshold: near_duplicates(texts, t))  # type: ignore[misc]
        print(f"    {len(pairs)} pairs")  # type: ignore[arg-type]
    hard = _templates(20_000, 5)
    _timed("  the same at 0.8 where all lessons follow one pattern", None, lambda: near_duplicates(hard, 0.8))
    _timed("fold duplicates in a book of 20,000", None, lambda: deduplicate(large, 0.8), runs=1)
    _timed("view of 8,000 tokens of 20,000 bullets", None, lambda: view(large, texts[0], 8_000))
    small = _texts(5_000, 6)
    for threshold in (0.5, 0.8):
        print(f"recall against all pairs of 5,000 at {threshold}: {_recall(small, threshold):.4f}")


if __name__ == "__main__":
    main()
