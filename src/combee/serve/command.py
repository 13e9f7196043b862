"""Serve lessons to agents and learn from what they do: traces in, tested versions out."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import click

from combee.errors import UsageError, how_to_install
from combee.serve.access import is_loopback
from combee.serve.settings import read_serve_settings
from combee.serve.store import ServiceStore
from combee.terminal.options import NumberType, PathType, listening

__all__ = ["command"]


@click.command(name="serve")
@click.argument("folder", type=PathType())
@click.option("--port", type=int, help="0: one that is free. [8765]")
@click.option("--host", help="Address to bind to; other than loopback only with tokens. [127.0.0.1]")
@click.option("--share", type=NumberType(0, 0.5), help="Share of units that try a new version. [0.2]")
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON, and the log as JSON lines.")
def command(folder: Path, as_json: bool, **options: Any) -> None:
    """Serve FOLDER over HTTP: runs and OpenTelemetry in, lessons out. FOLDER is made if it does not exist.

    Settings are in FOLDER/serve.toml, those of learning in FOLDER/combee.toml.
    """
    try:
        import opentelemetry.proto  # noqa: F401
        import prometheus_client  # noqa: F401  # a missing package is reported now, not at the first request
        import uvicorn

        from combee.serve.app import make_app
    except ImportError as error:
        raise UsageError(
            f"The service needs a package that is not installed: {error.name}.", hint=how_to_install("serve")
        ) from error
    settings = read_serve_settings(folder, **options)
    _refuse_open_bind(folder, settings.host)
    from combee.serve.running import Running, log_to

    log_to(sys.stderr, as_json=as_json)
    running = Running(folder, settings)
    app = make_app(running.service, running.start, running.stop)
    bound = listening(settings.host, settings.port, "Choose another port with --port; 0 takes a free one.")
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, server_header=False))
    host, port = bound.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    asyncio.run(_serve(server, bound, f'{{"url": "{url}"}}' if as_json else f"serving {url}"))


def _refuse_open_bind(folder: Path, host: str) -> None:
    """Raise `UsageError` where others could reach a service that asks nobody for a token."""
    if is_loopback(host):
        return
    store = ServiceStore(folder)
    try:
        tokens = store.submit(lambda db: db.execute("SELECT count(*) FROM tokens").fetchone()[0]).result()
    finally:
        store.close()
    if not tokens:
        hint = f"Make one with `combee token create {folder} NAME`, and put TLS in front of the service."
        raise UsageError(f"{host} is open to other machines, and there is no token yet.", hint=hint)


async def _serve(server: Any, bound: socket.socket, ready: str) -> None:
    """Serve until it is told to end (SIGTERM, Ctrl-C); requests that are under way are answered, and the exit is 0."""
    loop = asyncio.get_running_loop()
    server.capture_signals = nullcontext  # uvicorn's own would end the process by the signal once more
    for which in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(which, server.handle_exit, which, None)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started and not task.done():  # noqa: ASYNC110  # uvicorn has no event for it
        await asyncio.sleep(0.02)
    if server.started:
        click.echo(ready)
    await task
