"""`combee swarm mcp` and `token`: a world for agents that speak the Model Context Protocol, over stdio or HTTP."""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from combee.errors import LockedError, StorageError, UsageError, how_to_install
from combee.files import real_path
from combee.kernel.journal.lock import RunLock
from combee.mcp import LessonStore
from combee.run.folders import find_run
from combee.run.words import typed
from combee.swarm.config import SwarmFile, read_swarm_file
from combee.swarm.files import FILE
from combee.swarm.guests import Guest, admit, join_world, where_reports_go
from combee.swarm.opening import shown
from combee.swarm.repository import Repository
from combee.swarm.state import SwarmState
from combee.swarm.world import World, folder_of
from combee.terminal.options import NumberType, PathType

__all__ = ["mcp_command", "token_command"]

_REPOSITORY = "repository"  # the fact about a world that says where guests merge
_TOKEN = "token/"  # noqa: S105 - of a key, no token
_HOLD = "Minutes from its last sign of life until what it holds is free. [2; over HTTP 15]"


@click.command("mcp", short_help="Let a coding agent join a world, over the Model Context Protocol.")
@click.argument("world", type=PathType())
@click.option("--as", "name", help="The agent's name here; over HTTP its token says it.")
@click.option("--role", default="peer", show_default=True, help="What it is here.")
@click.option("--repository", type=PathType(), help="The git repository that all work in. [what the world's file says]")
@click.option("--playbook", help="A run or a playbook, for lessons. [what the world's file says]")
@click.option("--max-tokens", type=click.IntRange(50), default=2000, show_default=True, help="Tokens of lessons.")
@click.option("--hold", type=NumberType(0.01, 1440), help=_HOLD)
@click.option("--http", "at", metavar="HOST:PORT", help="Serve all that have a token, instead of one over stdio.")
def mcp_command(  # noqa: PLR0917 - click passes options by name
    world: Path,
    name: str | None,
    role: str,
    repository: Path | None,
    playbook: str | None,
    max_tokens: int,
    hold: float | None,
    at: str | None,
) -> None:
    """Let an agent from outside (Claude Code, Codex, ...) live in WORLD.

    WORLD is a world, the file that describes one, or a new one. The agent has mail, issues, leases of paths, notes,
    documents and lessons there, and merges into the shared repository.
    """
    if (name is None) == (at is None):
        raise UsageError("say who joins, or where to serve", hint="--as NAME for one over stdio, or --http HOST:PORT.")
    try:
        from combee.swarm import guest_server
    except ImportError as error:
        raise UsageError(
            f"The MCP server needs a package that is not installed: {error.name}.", hint=how_to_install("mcp")
        ) from error
    address = None if at is None else guest_server.listening_at(at)
    if repository is not None:
        Repository.at(repository)  # before a world is made
    described = read_swarm_file(world) if world.suffix == ".toml" else None
    place = described.world if described is not None else world
    with World.open(place) as opened:
        opened.check()
        described = described or _file_of(opened)
        state = SwarmState(opened, {}, repository=_repository(opened, described, repository))
        store = _store(opened, described, playbook)
        opened.flush()

        def join(who: str) -> Guest:
            minutes = hold or (2 if at is None else 15)
            return join_world(state, who, role=role, hold=60 * minutes, store=store, max_tokens=max_tokens)

        if name is not None:
            with _only_one(place, name):
                guest_server.serve_stdio(join(name))
        elif address is not None:
            click.echo(f"{shown(place)} is served at http://{_where(address)}/mcp; Ctrl-C ends it", err=True)
            guest_server.serve_http(address, join, lambda token: _name_of(opened, token), partial(_lock, place))


def _where(at: socket.socket) -> str:
    host, port = at.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _file_of(world: World) -> SwarmFile | None:
    file = world.meta(FILE)
    return read_swarm_file(Path(file)) if file is not None and Path(file).is_file() else None


def _repository(world: World, described: SwarmFile | None, given: Path | None) -> Repository | None:
    """Return the shared repository; one that was given is kept, so that all who join work in the same."""
    if given is None and described is not None and described.settings.repository is not None:
        return Repository.at(described.folder / described.settings.repository)
    known = world.meta(_REPOSITORY)
    place = str(given.resolve()) if given is not None else known
    if place is None:
        return None
    if known is not None and known != place:
        raise UsageError(f"all who joined {shown(world.path)} work in {known}", hint="Leave --repository out.")
    repository = Repository.at(Path(place))
    world.set_meta(_REPOSITORY, place)
    return repository


def _store(world: World, described: SwarmFile | None, given: str | None) -> LessonStore:
    """Return where lessons come from and reports go; without a playbook the source is the world itself."""
    source = world.path
    if given is not None:
        source = real_path(Path(given)) if Path(given).is_file() else real_path(find_run(given))
    elif described is not None and described.playbook is not None:
        source = described.playbook
    store = LessonStore(source, reports=where_reports_go(world.path.resolve()))
    if source != world.path:
        store.playbook()  # what is wrong with it is said before a client waits
    return store


@contextmanager
def _only_one(world: Path, name: str) -> Iterator[None]:
    """Hold a guest's name for this process; what a killed one held is free.

    Raises:
        LockedError: Another process is that guest.
    """
    lock = _lock(world, name)
    try:
        yield
    finally:
        lock.release()


def _lock(world: Path, name: str) -> RunLock:
    folder = folder_of(world) / f"guest-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return RunLock(folder)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from error
    except LockedError as error:
        raise LockedError(f"another process is {name} in this world", hint="Join under another name.") from error


# Tokens


def _digest(token: str) -> str:
    return _TOKEN + hashlib.sha256(token.encode()).hexdigest()


def _name_of(world: World, token: str) -> str | None:
    """Return whose token it is, None where it is nobody's."""
    return world.meta(_digest(token))


@click.command("token", short_help="Make a token with which an agent joins a world over HTTP.")
@click.argument("world", type=PathType())
@click.argument("name")
@click.option("--revoke", is_flag=True, help="Take back all tokens of NAME instead.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def token_command(world: Path, name: str, revoke: bool, as_json: bool) -> None:
    """Make a token for the agent NAME in WORLD and print it; it is shown this once, and kept as a hash."""
    place = read_swarm_file(world).world if world.suffix == ".toml" else world
    token = secrets.token_urlsafe(24)
    with World.open(place, create=not revoke) as opened, opened.step():
        if revoke:
            sql = "DELETE FROM meta WHERE key >= 'token/' AND key < 'token0' AND value = ?"
            gone = opened.run(sql, name).rowcount
            if not gone:
                raise UsageError(f"{name} has no token in {shown(place)}", hint="Look at the name.")
        else:
            SwarmState(opened, {})  # the person is there first, so that no guest can be called so
            admit(opened, name, "peer")
            opened.set_meta(_digest(token), name)
    if revoke:
        click.echo(json.dumps({"revoked": gone}) if as_json else f"{gone} tokens of {name} are no longer valid")
        return
    more = typed("swarm", "mcp", shown(place), "--http", "127.0.0.1:8765")
    click.echo(json.dumps({"name": name, "token": token}) if as_json else token)
    if not as_json:
        click.echo(f"Serve the world: `{more}`.", err=True)
