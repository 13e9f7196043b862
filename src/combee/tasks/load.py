"""One door to task sets: the embedded `tags`, `finer` and `formula` in a data folder, or any file or folder.

Whatever was left out, moved or re-read on the way is counted in `TaskSet.notes`; nothing is dropped in silence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from combee.errors import DataError, UsageError, did_you_mean
from combee.kernel.learn.roles import Scorer
from combee.tasks.embedded import tag_set
from combee.tasks.files import Parts, check_fractions, check_sizes, read_parts
from combee.tasks.model import Fields, Fractions, Sizes, TaskSet
from combee.tasks.published import published_files
from combee.tasks.rows import is_folder
from combee.tasks.scorers import scorer as scorer_of
from combee.tasks.shape import SCORERS, rows_of, tags_offered

DATA_VARIABLE = "COMBEE_DATA"
"""Environment variable: the folder that holds finer/ and formula/."""

NAMES = ("finer", "formula", "tags")
"""Task sets that have a name; everything else is a path."""

_ABOUT: Mapping[str, str] = {
    "finer": (
        "FiNER-139 as prepared by FinLoRA and ACE (CC BY-SA 4.0). The train file is the validation file of the ACE "
        "repository (499 rows): the 1,000-row train file of the paper could not be had, so scores are not comparable "
        "with the paper's. The test file is a part (220 of 441 rows) of the ACE test file."
    ),
    "formula": "50 financial formulas from FinLoRA (MIT). As in ACE the definition is dropped from the question.",
}
_AS_PUBLISHED: Mapping[str, str] = {
    "finer": "FiNER-139 as prepared by FinLoRA and ACE (CC BY-SA 4.0), from the files of the ACE repository.",
    "formula": _ABOUT["formula"],
}


def load(
    spec: str | Path,
    *,
    data_dir: Path | str | None = None,
    sizes: Sizes | None = None,
    fractions: Fractions = (0.6, 0.2, 0.2),
    seed: int = 0,
    fields: Fields | None = None,
    scorer: Scorer | str | None = None,
    questions_per_row: int = 1,
    options: bool | None = None,
    encoding: str | None = None,
) -> TaskSet:
    """Load a task set.

    Args:
        spec: `tags`, `finer`, `formula`, a file (.jsonl, .ndjson, .json, .csv, .tsv), or a folder of such files named
            train, val and test. A name wins over a file called the same: write ./tags for the file.
        data_dir: folder that holds finer/ and formula/, or the files of the ACE repository under their own names; by
            default the environment variable COMBEE_DATA.
        sizes: rows of (train, val, test). None: `tags` makes 500, 100, 300; a file is cut by `fractions`; a folder
            gives all of its files, and a split without a file is cut from train only when a size asks for it.
        fractions: shares of a single file.
        seed: of shuffles, samples and generated rows.
        fields: column names, where they cannot be found by themselves.
        scorer: a scorer or its spec (`combee.tasks.scorer`); by default the one that belongs to the kind.
        questions_per_row: questions in one row of `tags`.
        options: show the list of tags (`tags`, FiNER) or the definition (Formula) in every question. None: the list
            is shown and the definition is not, as in ACE.
        encoding: of the files, such as gbk; None: UTF-8, or what a file's mark says.

    Raises:
        DataError: a file is missing, unreadable or malformed, or a row is (line and column named).
        UsageError: unknown name, suffix or encoding, ambiguous columns, or sizes that cannot be met.
    """
    wanted: Sizes = sizes or (None, None, None)
    check_sizes(wanted)
    check_fractions(fractions)
    judge = scorer_of(scorer) if isinstance(scorer, str) else scorer
    if spec == "tags":
        if fields not in (None, Fields()):
            raise UsageError("`tags` has no columns", hint="Leave out --question, --answer and --id.")
        made = tag_set(wanted, seed=seed, questions_per_row=questions_per_row, options=options is not False)
        return replace(made, scorer=judge) if judge else made
    name = str(spec) if spec in _ABOUT else None
    path = _folder_of(name, data_dir) if name else _path_of(spec)
    parts = read_parts(
        path,
        kind=name,
        fields=fields or Fields(),
        options=options,
        sizes=wanted,
        fractions=fractions,
        seed=seed,
        encoding=encoding,
    )
    return _task_set(name, path, parts, judge)


def _task_set(name: str | None, path: Path, parts: Parts, judge: Scorer | None) -> TaskSet:
    rows = [one for part in parts.splits.values() for one in part]
    train, val, test = (tuple(one.task for one in parts.splits[split]) for split in ("train", "val", "test"))
    return TaskSet(
        name=name or (path.stem if path.is_file() else path.resolve().name),
        kind=parts.kind,
        train=train,
        val=val,
        test=test,
        scorer=judge or scorer_of(SCORERS[parts.kind]),
        choices=tags_offered(rows),
        about=(_AS_PUBLISHED if published_files(path, name) else _ABOUT)[name]
        if name
        else f"{rows_of(len(rows))} of {path.name}: {len(train)} train, {len(val)} val, {len(test)} test",
        notes=parts.notes,
    )


def _folder_of(name: str, data_dir: Path | str | None) -> Path:
    root = data_dir or os.environ.get(DATA_VARIABLE)
    if not root:
        raise UsageError(
            f"task set {name!r} is not part of Combee: its folder must be named",
            hint=f"Give --data-dir, or set {DATA_VARIABLE}, to the folder that holds {name}/train.jsonl.",
        )
    path = Path(root).expanduser() / name
    if not is_folder(path):
        if published_files(path.parent, name):
            return path.parent
        hint = f"{root} must hold {name}/ with its train and test files, or ACE's own files as they are."
        raise DataError("no such folder", path=path, hint=hint)
    return path


def _path_of(spec: str | Path) -> Path:
    try:
        path = Path(spec).expanduser()
    except RuntimeError as error:  # no such user as in ~name
        raise DataError(str(error), path=spec) from None
    bare = isinstance(spec, str) and path.name == spec and not path.suffix
    if bare and not is_folder(path) and not path.exists():
        raise UsageError(f"no task set or file is called {spec!r}", hint=did_you_mean(str(spec), NAMES))
    return path
