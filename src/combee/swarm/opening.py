"""The world that a swarm command is about: the one that is named, else the only one here; its file; its one process.

The lock is the world's own (`office.sqlite.lock` beside `office.sqlite`): other worlds in the folder run meanwhile.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from combee.errors import LockedError, UsageError
from combee.kernel.journal.lock import RunLock
from combee.run.words import typed
from combee.swarm import Swarm, World
from combee.swarm.config import SwarmFile, prepare, read_swarm_file
from combee.swarm.files import FILE, check_places, no_database, run_by, worlds_in
from combee.swarm.world import HELD_OUT, NoWorldError, folder_of
from combee.terminal.options import PathType

__all__ = [
    "described_by",
    "how_to_start",
    "looking_at",
    "running",
    "shown",
    "starting",
    "the_world",
    "world_option",
    "world_options",
]

F = TypeVar("F", bound=Callable[..., Any])
world_option = click.option("--world", type=PathType(), help="The world, or the file that describes it. [the only one]")


def world_options(command: F) -> F:
    """Let a command that looks at a world be told which as its argument, or by `--world`."""

    @wraps(command)
    def told(*, file: Path | None, world: Path | None, **options: Any) -> Any:
        if file is not None and world is not None:
            raise UsageError("the world is named twice", hint="Leave --world out.")
        return command(world=world or file, **options)

    return cast("F", click.argument("file", required=False, type=PathType())(world_option(told)))


def shown(path: Path) -> str:
    """Return a path as it can be typed here: below this folder without what leads to it."""
    here, place = Path.cwd(), path.absolute()
    return str(place.relative_to(here) if place.is_relative_to(here) else path)


def the_world(named: Path | None) -> Path:
    """Return the world that was named, else the only one in this folder.

    Raises:
        UsageError: There is none, or more than one.
    """
    if named is not None and named.suffix == ".toml" and no_database(named):
        return Path(shown(read_swarm_file(named).world))
    found = [named] if named is not None else worlds_in(Path())
    if not found:
        raise UsageError("there is no world in this folder", hint=how_to_start())
    if len(found) > 1:
        hint = f"Name one: `{_again(found[0])}`."
        raise UsageError(f"there are several worlds here: {', '.join(map(str, found))}", hint=hint)
    return found[0]


def _again(world: Path) -> str:
    """Return the present command line, with another world than it names."""
    context = click.get_current_context()
    _, *words = context.command_path.split()
    given: list[str] = []
    for one in context.command.params:
        value = context.params[str(one.name)]
        if isinstance(one, click.Argument):
            words += [str(value)] if value is not None else []
        elif one.name != "world" and context.get_parameter_source(str(one.name)) is ParameterSource.COMMANDLINE:
            given += [one.opts[0], *([] if value is True else [str(value)])]
    return typed(*words, *given, "--world", world)


def how_to_start() -> str:
    """Return a hint with the command that starts a world here: of the files that describe one, else of an example."""
    files = [path for path in sorted(Path().glob("*.toml")) if path.is_file() and _description(path)]
    if not files:
        return f"Write an example of a swarm: `{typed('swarm', 'init', 'example')}`."
    commands = [f"`{typed('swarm', 'run', file)}`" for file in files[:3]]
    return f"Start one: {' or '.join(commands)}."


def _description(path: Path) -> SwarmFile | None:
    try:
        return read_swarm_file(path)
    except UsageError:
        return None


@contextmanager
def looking_at(named: Path | None) -> Iterator[World]:
    """Open the world to look at it; see `the_world`."""
    try:
        opened = World.open(the_world(named), read_only=True)
    except NoWorldError as error:
        error.hint = how_to_start()
        raise
    with opened as world:
        world.check()
        yield world


def described_by(world: Path) -> SwarmFile:
    """Return the description of a world: the file that ran it last, or one of its name that was moved with the world.

    Raises:
        UsageError: That file is gone, or describes another world now.
    """
    with looking_at(world) as opened:
        file = opened.meta(FILE)
    if file is None:
        raise UsageError(f"no file has run {world} yet", hint=how_to_start())
    found = [path for path in (Path(file), world.absolute().with_name(Path(file).name)) if path.is_file()]
    for path in found:
        described = read_swarm_file(path)
        if described.world.resolve() == world.resolve():
            return described
    if found:
        other = read_swarm_file(found[0])
        there = Path(shown(other.world))
        hint = f"That one: `{_again(there) if there.exists() else typed('swarm', 'run', shown(other.file))}`."
        raise UsageError(f"{found[0]}, which ran {world} last, describes another world: {other.world}", hint=hint)
    hint = f'Put it back, or write world = "{world.name}" into the file that takes its place, and run that.'
    raise UsageError(f"the file that describes {world} is gone: {file}", hint=hint)


@contextmanager
def starting(described: SwarmFile) -> Iterator[Swarm]:
    """Open or make the world of a description; what is wrong with it is said before anything is made."""
    check_places(described)
    other = run_by(described.world)
    if other not in {None, described.file.name}:
        click.echo(f"note: {shown(described.world)} was run by {other} before; {described.file.name} goes on", err=True)
    with running(described) as swarm:
        yield swarm


@contextmanager
def running(described: SwarmFile) -> Iterator[Swarm]:
    """Open the world of a description for its one running process.

    Raises:
        LockedError: Another process runs it.
        UsageError: The description cannot be used.
    """
    swarm_on = prepare(described)
    lock = _lock(described.world)
    try:
        with World.open(described.world) as world:
            world.check()
            yield swarm_on(world)
    finally:
        lock.release()


def _lock(world: Path) -> RunLock:
    folder = folder_of(world)
    place = folder.with_suffix("")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"no world can be made at {place}: {error.strerror}", hint="Name a place that you may write to."
        ) from error
    try:
        lock = RunLock(folder)
    except LockedError as error:
        hint = f"Wait until it ends, or stop it. Meanwhile: `{typed('swarm', 'status', '--world', shown(world))}`."
        raise LockedError(error.message.replace(str(folder), str(place)), hint=hint) from error
    for left in folder.glob(f"{HELD_OUT}*"):  # copies of the world, of processes that were killed
        shutil.rmtree(left, ignore_errors=True)
    return lock
