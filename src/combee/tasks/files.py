"""A file or a folder becomes three lists of tasks that have no question in common.

A single file is cut by sizes or shares. A folder's own files are its splits; what would be on two sides stays in test,
then in val.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from combee.errors import DataError, UsageError
from combee.tasks.fields import Item, items_of
from combee.tasks.model import Fields, Fractions, Sizes
from combee.tasks.rows import SUFFIXES, Table, read_table
from combee.tasks.shape import Shaped, rows_of, shape_of, shaped, unique
from combee.tasks.split import counts_of, split
from combee.tasks.text import is_folder

__all__ = ["Parts", "read_parts"]

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
) -> Parts:
    """Read a file or folder; `kind` None means: see what shape the rows have.

    Raises:
        DataError, UsageError: as `combee.tasks.load`.
    """
    folder = is_folder(path)
    files = _files_in(path) if folder else {"all": path}
    notes: list[str] = []
    items: dict[str, tuple[Item, ...]] = {}
    for name, file in files.items():
        table = read_table(file)
        items[name] = items_of(table, fields)
        notes += _encoding_note(table)
    if kind is None:
        shapes = {shape_of(rows) for rows in items.values()}
        kind = shapes.pop() if len(shapes) == 1 else "rows"
        if kind != "rows":
            notes.append(f"the rows have the shape of {kind} and are read as such")
    lists: dict[str, list[Shaped]] = {}
    for name, rows in items.items():
        kept, told = unique(shaped(rows, kind, files[name], options=options), files[name].name)
        lists[name] = kept
        notes += told
    if folder:
        lists = _with_own_ids(_apart(lists, notes))
        lists = _sized(lists, sizes, seed, notes)
    else:
        counts = counts_of(len(lists["all"]), fractions, sizes)
        lists = _cut(lists["all"], counts, seed, notes)
    return Parts(kind, {name: lists.get(name, []) for name in _SPLITS}, tuple(notes))


def _encoding_note(table: Table) -> list[str]:
    return [] if table.encoding == "utf-8" else [f"{table.path.name}: read as {table.encoding}"]


def _files_in(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    try:
        names = sorted(folder.iterdir())
    except PermissionError:
        raise DataError("no permission to read the folder", path=folder) from None
    for file in names:
        split_name = _FILES.get(file.stem.lower())
        if split_name is None or file.suffix.lower() not in SUFFIXES or file.is_dir():
            continue
        if split_name in found:
            raise UsageError(
                f"{folder}: {found[split_name].name} and {file.name} are both the {split_name} split",
                hint="Keep one of them, or name one file instead of the folder.",
            )
        found[split_name] = file
    if not found:
        listed = ", ".join(file.name for file in names[:6]) or "nothing"
        raise DataError(
            f"no train or test file in this folder; it holds {listed}{' and more' if len(names) > 6 else ''}",
            path=folder,
            hint=f"Name them train, val and test with one of {', '.join(SUFFIXES)}; or name one file.",
        )
    return found


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
