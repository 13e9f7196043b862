"""The data files of the paper's tasks as the ACE repository publishes them, and what lies of them in a data folder.

A folder that holds them under their own names is a data folder as it is. Each is known by the hash that git gives it
there (github.com/ace-agent/ace, finance/data): a file that was changed, or cut by a download, is told from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from combee.files import read_regular

__all__ = ["PUBLISHED", "PublishedFile", "SplitFile", "look", "published_files"]


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of the ACE repository: its name there, its rows, and git's hash of its bytes."""

    name: str
    rows: int
    blob: str


PUBLISHED: Mapping[str, Mapping[str, PublishedFile]] = {
    "finer": {
        "train": PublishedFile(
            "finer_train_batched_1000_samples.jsonl", 1000, "d28a2daa45bdcd1336d3848083bde953ee55cc87"
        ),
        "val": PublishedFile("finer_val_batched_500_samples.jsonl", 500, "0cefef0eb7221fa8621b60c1442bcf7f8110519a"),
        "test": PublishedFile("finer_test_subset_006_seed42.jsonl", 441, "463adb0831f2f0ed825cb61ae022afc584d980c2"),
    },
    "formula": {
        "train": PublishedFile("formula_train_subset_500.jsonl", 500, "3b58ec1cb68d3a20144642bf5fb013ce000602d3"),
        "val": PublishedFile("formula_val_subset_300.jsonl", 300, "a3b8d1939a6ab2b21382bdedf8c2816468ee0a13"),
        "test": PublishedFile("formula_test.jsonl", 200, "253fdd4e867dff9aa19eb69554f6b5913511ad20"),
    },
}
"""By task set and split."""


def published_files(folder: Path, name: str) -> dict[str, Path]:
    """Return the files of a task set that lie in a folder under the names of the ACE repository, by split."""
    places = {split: folder / file.name for split, file in PUBLISHED.get(name, {}).items()}
    return {split: place for split, place in places.items() if place.is_file()}


@dataclass(frozen=True, slots=True)
class SplitFile:
    """What stands for one split of a task set. `path` is None where nothing does.

    `as_published`: it has the bytes of ACE's file, which `expected` describes.
    """

    tasks: str
    split: str
    expected: PublishedFile
    path: Path | None = None
    rows: int = 0
    as_published: bool = False


def look(root: Path) -> Sequence[SplitFile]:
    """Say of each split of FiNER and Formula what a data folder holds: ACE's own files, or NAME/SPLIT.jsonl.

    Raises:
        CombeeError: A file that is there cannot be read.
    """
    found = []
    for name, files in PUBLISHED.items():
        # As the loader chooses: a folder of the task set's own goes first, and in it ACE's names.
        folder = root / name if (root / name).is_dir() else root
        for split, file in files.items():
            plain = folder / f"{split}.jsonl" if folder != root else None
            own = published_files(folder, name)
            place = own.get(split) if own else plain if plain is not None and plain.is_file() else None
            if place is None:
                found.append(SplitFile(name, split, file))
                continue
            data = read_regular(place)
            rows = sum(1 for line in data.splitlines() if line.strip())
            found.append(SplitFile(name, split, file, place, rows, _blob(data) == file.blob))
    return found


def _blob(data: bytes) -> str:
    """Return the name that git gives to these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
