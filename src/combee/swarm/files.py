"""What lies around a swarm's file: the worlds beside it, whose they are, and the documents that it names.

A file whose text names no world has one of its own, called like the file, so two files never share one by accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from combee.errors import CombeeError, StorageError, UsageError, did_you_mean
from combee.kernel.journal import JOURNAL_NAME, clean_text
from combee.swarm.knowledge import is_secret
from combee.swarm.repository import Repository
from combee.swarm.world import World

if TYPE_CHECKING:
    from combee.swarm.config import SwarmFile

__all__ = ["FILE", "check_places", "documents", "no_database", "own_world", "run_by", "worlds_in"]

FILE = "file"
"""The fact about a world that says which file ran it last."""

_FORMER = "swarm.sqlite"  # the world of every file that named none, once
_SQLITE = b"SQLite format 3\0"


def own_world(file: Path) -> Path:
    """Return where the world of a file lies that names none: office.sqlite of office.toml.

    One that an older version made for this file, swarm.sqlite, is gone on with.
    """
    own, former = file.with_name(f"{file.name.removesuffix('.toml')}.sqlite"), file.with_name(_FORMER)
    return former if not own.exists() and run_by(former) == file.name else own


def run_by(world: Path) -> str | None:
    """Return the name of the file that ran a world last; None where no file did, or no world is."""
    try:
        with World.open(world, read_only=True) as opened:
            file = opened.meta(FILE)
    except CombeeError:
        return None
    return Path(file).name if file else None


def worlds_in(folder: Path) -> list[Path]:
    """Return the worlds in a folder, by name."""

    def is_world(path: Path) -> bool:
        try:
            World.open(path, read_only=True).close()
        except StorageError:  # one that is damaged is said to be, when it is looked at
            return not no_database(path) or path.with_name(f"{path.name}.lock").is_dir()
        except CombeeError:
            return False
        return True

    return [path for path in sorted(folder.glob("*.sqlite")) if path.is_file() and is_world(path)]


def check_places(described: SwarmFile) -> None:
    """Look at what the description says is on the disk, before anything is made there.

    Raises:
        UsageError: A world, a document or something to read is not what, or not where, it must be.
    """
    world = described.world
    if world.is_dir() or no_database(world):
        hint = 'It is damaged, or something else. Put back a copy, or name a file of its own: world = "swarm.sqlite".'
        raise UsageError(f"{world} cannot be a world", hint=hint)
    other = run_by(world)
    if described.settings.world is None and other not in {None, described.file.name}:
        raise UsageError(
            f"{world} is the world of {other}",
            hint=f'Write world = "NAME.sqlite" into {described.file.name} for one of its own, or world = "{world.name}"'
            " to go on in that one.",
        )
    files = dict(_files(described))
    repository = described.settings.repository
    for agent in described.settings.agents:
        for path in agent.reads:
            if not _can_be_read(described, path, files):
                where = "[documents]" if repository is None else "the repository"
                raise UsageError(
                    f"{agent.name} reads {path!r}, which is not in {where}", hint=did_you_mean(path, files)
                )


def no_database(path: Path) -> bool:
    """Return whether a file holds something that SQLite did not write; an empty one may become a world."""
    return path.is_file() and _head(path) not in {b"", _SQLITE}


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_SQLITE))


def _can_be_read(described: SwarmFile, path: str, files: Mapping[str, Path]) -> bool:
    if described.settings.repository is not None:
        return Repository.at(described.folder / described.settings.repository).read(path) is not None
    if path in files or not described.world.exists():
        return path in files
    with World.open(described.world, read_only=True) as world:  # what an agent wrote can be read too
        return world.one("SELECT 1 FROM artefacts WHERE path = ?", path) is not None


def documents(described: SwarmFile) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each document, as the world keeps it, so that the same text is one version.

    Raises:
        UsageError: The folder or one of the files cannot be read.
    """
    for path, file in _files(described):
        try:
            yield path, clean_text(file.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}", hint="Check who may read it.") from error


def _files(described: SwarmFile) -> list[tuple[str, Path]]:
    """Return the documents of the file by the path that agents know them by; what swarms keep there is none."""
    table = described.settings.documents
    if table is None:
        return []
    folder, pattern = described.folder / table.folder, table.glob
    if not folder.is_dir():
        hint = f"Make it: mkdir -p {quote(str(folder))}"
        raise UsageError(f"the folder of [documents] is not there: {folder}", hint=hint)
    try:
        if ".." in Path(pattern).parts:
            raise ValueError("it leads out of the folder")
        found = [file for file in sorted(folder.glob(pattern)) if file.is_file() and not _is_hidden(file, folder)]
        kept = _kept_by_swarms(found, folder) | {described.world, described.learned}
        files = [file for file in found if kept.isdisjoint((file, *file.parents))]
        return [(file.relative_to(folder).as_posix(), file) for file in files]
    except (ValueError, IndexError, NotImplementedError) as error:
        hint = 'Give a pattern inside the folder, like "**/*.md".'
        raise UsageError(f"[documents]: glob = {pattern!r}: {error}", hint=hint) from error
    except OSError as error:
        what = error.filename or folder
        raise UsageError(f"{what} cannot be read: {error.strerror}", hint="Check who may read it.") from error


def _is_hidden(file: Path, folder: Path) -> bool:
    """Return whether a file keeps secrets, or is a link to one that does or that lies elsewhere."""
    root, real = folder.resolve(), file.resolve()
    inside = real.is_relative_to(root) and not is_secret(real.relative_to(root).as_posix())
    return is_secret(file.relative_to(folder).as_posix()) or not inside


def _kept_by_swarms(files: list[Path], folder: Path) -> set[Path]:
    """Return databases with what SQLite and their locks lay beside them, and folders of learning runs."""
    bases = {file for file in files if _head(file) == _SQLITE}
    beside = {Path(f"{base}{end}") for base in bases for end in ("", "-wal", "-shm", "-journal", ".lock")}
    inside = {parent for file in files for parent in file.parents if folder in parent.parents}
    return beside | {parent for parent in inside if (parent / JOURNAL_NAME).is_file()}
