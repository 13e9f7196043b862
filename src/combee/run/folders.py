"""Where runs lie: a folder a run, below `runs/` unless told otherwise; found again by name, path, or as the latest."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from combee.errors import CombeeError, DataError, StorageError, UsageError, did_you_mean
from combee.kernel.journal import Journal
from combee.kernel.journal.purchases import PURCHASES_NAME, left_open
from combee.kernel.playbook import Playbook, from_json, load
from combee.run.words import typed

RUNS = Path("runs")
JOURNAL = "journal.sqlite"
_LONGEST_NAME = 200


def new_run(name: str | None, out: Path | None, prefix: str) -> Path:
    """Return the folder of a new run; it is made when the journal is opened. Raises `UsageError` if it is taken.

    What a run that never got a result left there is taken away.
    """
    if out is not None:
        folder = out
    else:
        if name is not None:
            _check_name(name)
        stem = name or f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}"
        folder = RUNS / stem
        if name is None:
            number = 2
            while folder.exists():
                folder = RUNS / f"{stem}-{number}"
                number += 1
    try:
        taken = has_run(folder)
        is_file = folder.exists() and not folder.is_dir()
    except (OSError, ValueError) as error:  # no permission, too long, a NUL character
        raise _unusable(folder, error) from error
    if taken:
        raise UsageError(
            f"There is a run in {folder} already.",
            hint=f"Go on with `{typed('resume', folder)}`, or choose another name.",
        )
    if is_file:
        raise UsageError(f"{folder} is a file.", hint="Choose another folder.")
    if (folder / JOURNAL).exists():
        _clear(folder)
    return folder


def _check_name(name: str) -> None:
    """A run must lie right below `runs/`: elsewhere no other command would find it by its name."""
    too_long = len(name.encode("utf-8", "replace")) > _LONGEST_NAME
    if too_long or not name.strip() or name in {".", ".."} or any(sign in name for sign in "/\\@\0\n\r\t"):
        raise UsageError(
            f"{name[:80]!r} cannot be the name of a run.",
            hint=f"It is one folder below runs/, up to {_LONGEST_NAME} bytes, no / or @; elsewhere: --out FOLDER.",
        )


def has_run(folder: Path) -> bool:
    """Say whether a run lies there that holds anything of worth."""
    return (folder / JOURNAL).exists() and _begun(folder)


def _begun(folder: Path) -> bool:
    """Say whether the journal holds anything of worth: one without a result and a paid call must not block its name.

    A run of a command that failed before it got an answer, of a wrong URL say, is such a one.
    """
    try:
        with Journal.open(folder, create=False, read_only=True) as journal:
            if journal.meta("spec") is None:
                return any(True for _ in journal.events()) or bool(journal.versions())
            return has_results(journal)
    except CombeeError:
        return True


def has_results(journal: Journal) -> bool:
    """Say whether a run holds a result, or a call that was or may have been paid for: also one under way at a kill."""
    if journal.count_results() or left_open(journal.path.parent / PURCHASES_NAME):
        return True
    if len(journal.versions()) > 1:  # what is learned from votes alone has no results
        return True
    return any(not isinstance(row, dict) or row.get("paid") != "no" for row in journal.calls())


def _clear(folder: Path) -> None:
    """Take away the journal of a run that holds nothing. Raises `LockedError` where it is at work just now."""
    with Journal.open(folder, create=False):
        pass
    for path in (*folder.glob(f"{JOURNAL}*"), folder / PURCHASES_NAME):
        path.unlink(missing_ok=True)


def _unusable(path: Path, error: OSError | ValueError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return UsageError(f"{str(path)[:200]} cannot be used: {reason}.", hint="Choose another folder or name.")


def _is_file(path: Path) -> bool:
    """Say whether there is such a file; a name that cannot be one (too long, with a NUL) is none."""
    try:
        return path.is_file()
    except PermissionError as error:
        hint = "Change its mode or ask its owner."
        raise StorageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except (OSError, ValueError):
        return False


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def refuse_device(path: Path) -> None:
    """Refuse what is there and neither a file nor a folder, by the name that was typed: a link may lead anywhere."""
    try:
        odd = path.exists() and not path.is_file() and not path.is_dir()
    except (OSError, ValueError):  # whoever reads it says what is wrong
        return
    if odd:
        raise DataError("is a device or a pipe, not a file", path=path, hint="Name a file.")


def check_traces(path: Path) -> None:
    """Refuse what cannot hold traces, by the name that was typed."""
    refuse_device(path)
    if not os.path.lexists(path):
        raise UsageError(f"There is no file or folder {str(path)!r}.", hint="Name a file or a folder of recorded runs.")


def all_runs(root: Path = RUNS) -> list[Path]:
    """Return the folders of all runs below `root`, oldest first."""
    found: list[tuple[float, Path]] = []
    try:
        if not root.is_dir():
            return []
        for folder in sorted(root.iterdir()):
            with suppress(FileNotFoundError, NotADirectoryError):
                found.append((changed_at(folder), folder))
    except OSError as error:
        raise StorageError(
            f"{root} cannot be read: {error.strerror}", hint="Change its mode or ask its owner."
        ) from error
    return [folder for _, folder in sorted(found)]


def changed_at(folder: Path) -> float:
    """Return when a run changed last, in Unix seconds; 0 for a folder closed to us: it is named too, not hidden."""
    try:
        return (folder / JOURNAL).stat().st_ctime
    except PermissionError:
        return 0.0


def find_run(name: str | None) -> Path:
    """Return a run by path or by name below `runs/`; None means the latest one."""
    if name is None:
        runs = all_runs()
        if not runs:
            raise UsageError("There is no run here yet.", hint="Start one with `combee learn`.")
        return runs[-1]
    for folder in (Path(name), RUNS / name):
        if _is_file(folder / JOURNAL):
            return folder
    known = [run.name for run in all_runs()]
    raise UsageError(
        f"There is no run {name!r}.", hint=did_you_mean(name, known) if known else "Start one with `combee learn`."
    )


def open_book(what: str | None, version: str = "best") -> tuple[Playbook, str]:
    """Return a playbook and what to call it: a file, a run (its `version`, best or else last), or RUN@VERSION."""
    if what is not None:
        refuse_device(Path(what))
    if what is not None and _is_file(Path(what)):
        return load(what), what
    if what is not None and "@" in what:
        what, version = what.rsplit("@", 1)
    if what is not None and Path(what).suffix in {".json", ".md", ".txt"} and not _is_dir(Path(what)):
        return load(what), what
    folder = find_run(what or None)
    with Journal.open(folder, create=False, read_only=True) as journal:
        labels = journal.labels()
        if not labels:
            raise StorageError(f"{folder} holds no playbook yet.", hint=f"Go on with `{typed('resume', folder)}`.")
        if version == "best" and "best" not in labels:
            version = "last"
        found = journal.resolve(version)
        return from_json(journal.text(found)), f"{folder}@{version}"
