"""`combee swarm watch`: a world while agents work in it, in the terminal or on a page; it changes nothing."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import click

from combee.errors import UsageError
from combee.report.html import join
from combee.report.live import HEAD, page_server
from combee.swarm.opening import the_world, world_options
from combee.swarm.watching import head_of, look, page_of, screen_of
from combee.swarm.world import World
from combee.terminal.options import NumberType

__all__ = ["watch_command"]


@click.command("watch", short_help="Watch the agents of a world at work.")
@world_options
@click.option("--web", is_flag=True, help="Serve a page on this machine instead of the terminal.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="any", help="Where, with --web.")
@click.option("--every", type=NumberType(0.2), default=1.0, show_default=True, help="Seconds between two looks.")
def watch_command(world: Path | None, web: bool, port: int, every: float) -> None:
    """Watch a world: who is there and how full, who asks whom, issues, leases, messages and cost; Ctrl-C ends it.

    Where the output is no terminal, it is shown once.
    """
    place = the_world(world)
    if port and not web:
        raise UsageError("--port is for the page", hint="Add --web.")
    with World.open(place, read_only=True) as opened:
        opened.check()
    if web:
        with page_server(partial(_shown, place), port) as server:
            click.echo(f"http://127.0.0.1:{server.server_address[1]}  Ctrl-C ends it", err=True)
            server.serve_forever()
    else:
        _in_terminal(place, every)


def _shown(place: Path, head: bool) -> tuple[str, bool]:
    with World.open(place, read_only=True) as world:
        sight = look(world)
    return join(head_of(sight)) if head else page_of(sight, live=HEAD), False


def _in_terminal(place: Path, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with World.open(place, read_only=True) as world:
        if not console.is_terminal:
            console.print(screen_of(look(world)))
            return
        with Live(screen_of(look(world)), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(screen_of(look(world), most=max(3, console.height // 4)), refresh=True)
