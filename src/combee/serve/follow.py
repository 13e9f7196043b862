"""Follow the sessions of agents on this machine and send each to a service once it is quiet."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import aiohttp
import click

from combee.errors import RunError, UsageError
from combee.files import write_whole
from combee.run.words import counted
from combee.terminal.options import NumberType, PathType

__all__ = ["Following", "command"]

TOKEN = "COMBEE_TOKEN"  # noqa: S105  # the name of a variable
_LARGEST = 32 << 20
_SUFFIXES = frozenset({".jsonl", ".json"})


@click.command(name="follow")
@click.argument("folder", type=PathType())
@click.option("--to", "url", required=True, help="Address of the service, like http://localhost:8765.")
@click.option(
    "--rest", type=NumberType(0), default=20.0, show_default=True, help="Seconds a session is quiet at its end."
)
@click.option("--once", is_flag=True, help="Send the sessions that are there now, and end.")
@click.option(
    "--all", "everything", is_flag=True, help="Also send the sessions that were there before; else only new ones."
)
def command(folder: Path, url: str, rest: float, *, once: bool, everything: bool) -> None:
    """Send the sessions in FOLDER (~/.claude/projects, ~/.codex/sessions) to a service, each when it has ended.

    The token is read from COMBEE_TOKEN. What was sent is remembered in FOLDER/.combee-sent.json. A session that goes on
    later is sent again, whole.
    """
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.", hint="Name the folder in which an agent keeps its sessions.")
    following = Following(folder, url.rstrip("/"), rest)
    if not following.sent and not everything and not once:
        following.pass_over()
        if before := len(following.sent):
            click.echo(f"{counted(before, 'session')} from before: left out; --all sends them too", err=True)
    try:
        asyncio.run(following.run(once=once))
    except KeyboardInterrupt:
        click.echo("stopped")


@dataclass
class Following:
    """A folder that is followed. `sent` holds by file the digest of what was sent last."""

    folder: Path
    url: str
    rest: float
    sent: dict[str, str] = field(default_factory=dict)
    _seen: dict[str, tuple[float, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self._memory.is_file():
            self.sent = dict(json.loads(self._memory.read_text(encoding="utf-8")))

    @property
    def _memory(self) -> Path:
        return self.folder / ".combee-sent.json"

    def pass_over(self) -> None:
        """Mark the sessions that are there as sent."""
        self.sent = {str(path.relative_to(self.folder)): _digest(path) for path in self._files()}
        self._remember()

    async def run(self, *, once: bool) -> None:
        """Send sessions as they become quiet, until stopped.

        Raises:
            UsageError: The service refuses the token.
            RunError: With `once`, it could not be reached.
        """
        token = os.environ.get(TOKEN)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = aiohttp.ClientTimeout(total=120)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
            while True:
                for path in list(self._resting(0.0 if once else self.rest)):
                    try:
                        await self._send(session, path)
                    except (aiohttp.ClientError, TimeoutError) as error:
                        if once:
                            raise RunError(f"{self.url} cannot be reached: {error}") from error
                        break  # tried again in the next round
                if once:
                    return
                await asyncio.sleep(1)

    def _files(self) -> Iterator[Path]:
        for path in sorted(self.folder.rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file() and not path.is_symlink() and path != self._memory:
                yield path

    def _resting(self, rest: float) -> Iterator[Path]:
        """Yield the files that changed since they were sent and are quiet now."""
        for path in self._files():
            name = str(path.relative_to(self.folder))
            state = path.stat()
            mark = (state.st_mtime, state.st_size)
            if time.time() - state.st_mtime >= rest and self._seen.get(name) != mark and state.st_size <= _LARGEST:
                self._seen[name] = mark
                if self.sent.get(name) != _digest(path):
                    yield path

    async def _send(self, session: aiohttp.ClientSession, path: Path) -> None:
        name = str(path.relative_to(self.folder))
        data = await asyncio.to_thread(path.read_bytes)
        async with session.post(f"{self.url}/v1/runs?id={quote(name)}", data=data) as answer:
            reply = await answer.json(content_type=None)
            if answer.status in {401, 403}:
                raise UsageError(
                    f"The service refuses the token: {reply['error']}",
                    hint=f"Set {TOKEN} to a token with the scope ingest.",
                )
            if answer.status in {429, 503}:
                self._seen.pop(name, None)
                await asyncio.sleep(min(60.0, float(answer.headers.get("Retry-After", "5"))))
                return
            ok = answer.status == 202
            click.echo(
                f"{name}: {len(reply['accepted'])} sent, {reply['new']} new" if ok else f"{name}: {reply['error']}"
            )
        self.sent[name] = hashlib.sha256(data).hexdigest()
        self._remember()

    def _remember(self) -> None:
        write_whole(self._memory, json.dumps(self.sent))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
