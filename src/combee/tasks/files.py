"""A file or a folder becomes three lists of tasks that have no question in common.

A single file is cut by sizes or shares. A folder's own files are its splits; what would be on two sides stays in test,
then in val.

Which column is the question and which the answer: named by the caller, or found by its usual name. A name is taken only
when it is the single one of its kind: a file with both `answer` and `label` is asked about, not guessed at. Then rows
become items.

Train, validation and test from one list, so that no question is on two sides: seeded, by shares or by counts. Rows that
share a key (FiNER rows: a sentence) stay together. Equal rows, sizes and seed give equal splits.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from combee.errors import DataError, UsageError
from combee.tasks.model import Fields, Fractions, Sizes
from combee.tasks.published import published_files
from combee.tasks.rows import SUFFIXES, Table, is_folder, normal_form, read_table, suffix_of
from combee.tasks.shape import (
    Item,
    Shaped,
    items_of,
    rows_of,
    shape_of,
    shaped,
    unique,
)

_SPLITS = ("train", "val", "test")
_FILES: Mapping[str, str] = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}


@dataclass(frozen=True, slots=True)
class Parts:
    """What was read: the splits by name, the shape of the rows, and notes of what was left out or moved."""

    kind: str
    splits: Mapping[str, list[Shaped]]
    notes: tuple[str, ...]


def read_parts(
    path: Path,
    *,
    kind: str | None,
    fields: Fields,
    options: bool | None,
    sizes: Sizes,
    fractions: Fractions,
    seed: int,
    encoding: str | None = None,
) -> Parts:
    """Read a file or folder; `kind` None means: see what shape the rows have.

    Raises:
        DataError, UsageError: as `combee.tasks.load`.
    """
    folder = is_folder(path)
    files = (published_files(path, kind or "") or _files_in(path)) if folder else {"all": path}
    notes: list[str] = []
    items: dict[str, tuple[Item, ...]] = {}
    for name, file in files.items():
        table = read_table(file, encoding)
        items[name] = items_of(table, fields)
        notes += _encoding_note(table)
    if kind is None:
        shapes = {shape_of(rows) for rows in items.values()}
        kind = shapes.pop() if len(shapes) == 1 else "rows"
        if kind != "rows":
            notes.append(f"the rows have the shape of {kind} and are read as such")
    lists: dict[str, list[Shaped]] = {}
    if kind == "rows":
        notes += _spelling_note(item.target for rows in items.values() for item in rows)
    for name, rows in items.items():
        kept, duplicates = unique(shaped(rows, kind, files[name], options=options), files[name].name)
        lists[name] = kept
        notes += duplicates
    if folder:
        lists = _with_own_ids(_apart(lists, notes))
        lists = _sized(lists, sizes, seed, notes)
    else:
        counts = counts_of(len(lists["all"]), fractions, sizes)
        lists = _cut(lists["all"], counts, seed, notes)
    return Parts(kind, {name: lists.get(name, []) for name in _SPLITS}, tuple(notes))


def _encoding_note(table: Table) -> list[str]:
    return [] if table.encoding == "utf-8" else [f"{table.path.name}: read as {table.encoding}"]


def _spelling_note(targets: Iterable[str]) -> list[str]:
    """Say which answers of a file differ only in what the comparison does not look at."""
    spelled: dict[str, Counter[str]] = {}
    for target in targets:
        spelled.setdefault(normal_form(target), Counter())[target] += 1
    several = [counts for counts in spelled.values() if len(counts) > 1]
    if not several:
        return []
    shown = ", ".join(repr(spelling) for spelling, _ in several[0].most_common(3))
    count = f"{len(several)} answers are" if len(several) > 1 else "one answer is"
    return [f"{count} spelled in several ways (like {shown}), which count as the same"]


def _files_in(folder: Path) -> dict[str, Path]:
    by_split: dict[str, Path] = {}
    try:
        names = sorted(folder.iterdir())
    except PermissionError:
        raise DataError("no permission to read the folder", path=folder) from None
    for file in names:
        split_name = _FILES.get(file.name.lower().partition(".")[0])
        if split_name is None or suffix_of(file) not in SUFFIXES or file.is_dir():
            continue
        if split_name in by_split:
            raise UsageError(
                f"{folder}: {by_split[split_name].name} and {file.name} are both the {split_name} split",
                hint="Keep one of them, or name one file instead of the folder.",
            )
        by_split[split_name] = file
    if not by_split:
        listed = ", ".join(file.name for file in names[:6]) or "nothing"
        raise DataError(
            f"no train or test file in this folder; it holds {listed}{' and more' if len(names) > 6 else ''}",
            path=folder,
            hint=f"Name them train, val and test with one of {', '.join(SUFFIXES)}; or name one file. "
            "Recorded runs of agents are read with `combee learn --from FOLDER`.",
        )
    return by_split


def _apart(lists: dict[str, list[Shaped]], notes: list[str]) -> dict[str, list[Shaped]]:
    """Take out of train what val or test asks, and out of val what test asks."""
    taken: dict[str, str] = {}
    kept: dict[str, list[Shaped]] = {}
    for name in ("test", "val", "train"):
        if name not in lists:
            continue
        clashes = [next((taken[key] for key in one.keys if key in taken), None) for one in lists[name]]
        kept[name] = [one for one, clash in zip(lists[name], clashes, strict=True) if clash is None]
        for other, count in Counter(clash for clash in clashes if clash).items():
            notes.append(f"{name}: {rows_of(count)} left out, with a question or sentence that is in {other}")
        if lists[name] and not kept[name]:
            raise DataError(f"every row of {name} is in another split too", hint="Give splits that differ.")
        taken.update((key, name) for one in kept[name] for key in one.keys)
    return kept


def _with_own_ids(lists: dict[str, list[Shaped]]) -> dict[str, list[Shaped]]:
    """Put the name of the split before every id when an id is in two files."""
    counts = Counter(one.task.id for rows in lists.values() for one in rows)
    if all(count == 1 for count in counts.values()):
        return lists
    return {
        name: [replace(one, task=replace(one.task, id=f"{name}/{one.task.id}")) for one in rows]
        for name, rows in lists.items()
    }


def _sized(lists: dict[str, list[Shaped]], sizes: Sizes, seed: int, notes: list[str]) -> dict[str, list[Shaped]]:
    """Sample files down to their sizes, and cut a split without a file out of train where a size asks for it."""
    result: dict[str, list[Shaped]] = {}
    wanted = dict(zip(_SPLITS, sizes, strict=True))
    cut = {name: size for name, size in wanted.items() if name != "train" and name not in lists and size}
    for name in ("val", "test"):
        if name in lists:
            result[name] = _sample(lists[name], wanted[name], seed, name)
    train = lists.get("train", [])
    if not cut:
        result["train"] = _sample(train, wanted["train"], seed, "train")
        return result
    left = len(train) - sum(cut.values())
    size = left if wanted["train"] is None else wanted["train"]
    if left < 0 or size > left:
        raise UsageError(
            f"{max(size, 0) + sum(cut.values())} rows are asked for, the train file has {len(train)} different ones",
            hint=f"There is no file for {' and '.join(cut)}, so it is cut from train.",
        )
    parts = _cut(train, (size, cut.get("val", 0), cut.get("test", 0)), seed, notes)
    notes.append(f"{' and '.join(cut)} cut from the train file")
    return result | {"train": parts["train"]} | {name: parts[name] for name in cut}


def _sample(rows: list[Shaped], size: int | None, seed: int, name: str) -> list[Shaped]:
    if size is None or size == len(rows):
        return rows
    if size > len(rows):
        raise UsageError(
            f"{size} rows are asked for, the {name} file has {len(rows)} different ones", hint="Ask for fewer."
        )
    return [rows[place] for place in sorted(random.Random(f"{seed}/{name}").sample(range(len(rows)), size))]


def _cut(rows: Sequence[Shaped], counts: tuple[int, int, int], seed: int, notes: list[str]) -> dict[str, list[Shaped]]:
    parts = split(rows, [one.keys for one in rows], counts, seed)
    missing = sum(counts) - sum(map(len, parts))
    if missing:
        notes.append(f"{rows_of(missing)} left out: they share sentences and would have been on two sides")
    empty = [name for name, count in zip(_SPLITS, counts, strict=True) if not count]
    if empty and len(rows) < 3:
        notes.append(f"{rows_of(len(rows))}: nothing is left for {' and '.join(empty)}")
    return dict(zip(_SPLITS, parts, strict=True))


T = TypeVar("T")
_NAMES = ("train", "val", "test")


def check_sizes(sizes: Sizes) -> None:
    """Refuse negative sizes and a set of nothing.

    Raises:
        UsageError: names the size.
    """
    for name, size in zip(_NAMES, sizes, strict=True):
        if size is not None and size < 0:
            raise UsageError(f"{name} size {size} is negative", hint="Give 0 or more.")
    if all(size == 0 for size in sizes):
        raise UsageError("all three sizes are 0", hint="Ask for at least one row.")


def check_fractions(fractions: Fractions) -> None:
    """Refuse shares that are negative, not finite, or all 0.

    Raises:
        UsageError: names the share.
    """
    for name, share in zip(_NAMES, fractions, strict=True):
        if not math.isfinite(share) or share < 0:
            raise UsageError(f"{name} share {share} is not a number of 0 or more", hint="Shares such as 0.6 0.2 0.2.")
    if not sum(fractions) > 0:
        raise UsageError("all three shares are 0", hint="Shares such as 0.6 0.2 0.2.")


def counts_of(n: int, fractions: Fractions, sizes: Sizes) -> tuple[int, int, int]:
    """Return how many of n rows go to each split: sizes where given, the shares of the rest elsewhere.

    Every split with a share gets at least one row while there are rows: train first, then test, then val.

    Raises:
        UsageError: the sizes ask for more than n.
    """
    asked = sum(size or 0 for size in sizes)
    if asked > n:
        raise UsageError(f"{asked} rows are asked for, there are {n} different ones", hint="Ask for fewer.")
    counts = [size or 0 for size in sizes]
    free = [place for place in (0, 2, 1) if sizes[place] is None and fractions[place] > 0]
    left = n - asked
    if left <= len(free):
        for place in free[:left]:
            counts[place] = 1
    elif free:
        total = sum(fractions[place] for place in free)
        exact = {place: left * fractions[place] / total for place in free}
        for place in free:
            counts[place] = max(1, math.floor(exact[place] + 1e-9))
        _settle(counts, free, exact, left)
    return counts[0], counts[1], counts[2]


def _settle(counts: list[int], free: Sequence[int], exact: Mapping[int, float], left: int) -> None:
    """Give out what rounding left over, largest remainder first, or take back from the largest split."""
    spare = left - sum(counts[place] for place in free)
    for place in sorted(free, key=lambda place: counts[place] - exact[place])[: max(spare, 0)]:
        counts[place] += 1
    for _ in range(-spare):
        counts[max(free, key=lambda place: counts[place])] -= 1


def split(
    items: Sequence[T], keys: Sequence[Iterable[Hashable]], counts: tuple[int, int, int], seed: int
) -> tuple[list[T], list[T], list[T]]:
    """Shuffle and cut; items that share a key go to the same split, or are left out where they fit none.

    Args:
        items: the rows, each question once.
        keys: for each item, what it must not share with another split.
        counts: rows for (train, val, test); a split is smaller only where groups do not fit.
        seed: of the shuffle.
    """
    groups = _groups(keys)
    random.Random(seed).shuffle(groups)
    # Large groups first: single rows then fill what is left, so that the counts are met whenever they can be.
    groups.sort(key=lambda group: -len(group))
    single = next((place for place, group in enumerate(groups) if len(group) == 1), len(groups))
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    free = list(counts)
    for group in groups[:single]:
        side = max((0, 1, 2), key=lambda side: (free[side], -side))
        if free[side] >= len(group):
            parts[side].extend(group)
            free[side] -= len(group)
    rest = (group[0] for group in groups[single:])
    for part, count in zip(parts, free, strict=True):
        part.extend(itertools.islice(rest, count))
        part.sort()
        random.Random(f"{seed}/order").shuffle(part)
    return [items[i] for i in parts[0]], [items[i] for i in parts[1]], [items[i] for i in parts[2]]


def _groups(keys: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Return the indices of items joined by shared keys, in order of their first item."""
    parent = list(range(len(keys)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    first: dict[Hashable, int] = {}
    for place, own in enumerate(keys):
        for key in own:
            other = first.setdefault(key, place)
            if other != place:
                a, b = root(other), root(place)
                parent[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for place in range(len(keys)):
        groups.setdefault(root(place), []).append(place)
    return list(groups.values())
