"""`combee why`: where a bullet comes from."""

from __future__ import annotations

import dataclasses
import json

import click

from combee.cli.rundir import find_run
from combee.journal import Journal
from combee.learn.history import Why, read_history

__all__ = ["command"]


@click.command(name="why")
@click.argument("run")
@click.argument("bullet")
@click.option("--version", default="last", show_default=True, help="A label (best, last, stable) or a digest.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def command(run: str, bullet: str, version: str, as_json: bool) -> None:
    """Say where BULLET of RUN comes from: reflections, traces, nodes of the tree, and votes over time."""
    with Journal.open(find_run(run), create=False, read_only=True) as journal:
        digest = journal.resolve(version)
        found = read_history(journal).why(digest, bullet.strip("[]"))
    click.echo(json.dumps(dataclasses.asdict(found), ensure_ascii=False) if as_json else _told(found))


def _told(found: Why) -> str:
    bullet = found.bullet
    lines = [f"[{bullet.id}] {bullet.text}", f"helpful {bullet.helpful}, harmful {bullet.harmful}", "", "history"]
    for touch in found.touches:
        cited = f" (from {', '.join(touch.sources)})" if touch.sources else ""
        text = "" if touch.detail == bullet.text else f": {touch.detail}"
        lines.append(f"  epoch {touch.epoch}, step {touch.step} ({touch.version[:12]}): {touch.what}{text}{cited}")
    lines += ["", f"rests on {len(found.origins)} reflections"]
    for origin in found.origins:
        if origin.sample is None:
            lines.append(f"  {origin.reflection}: not of this run")
            continue
        outcome = {True: "the answer was right", False: "the answer was wrong", None: "not scored"}[origin.passed]
        lines.append(f"  {origin.reflection}: task {origin.sample}, trace {origin.trace}; {outcome}")
        lines += [f"    said: {lesson}" for lesson in origin.lessons]
        lines += [f"    passed: {node}" for node in origin.nodes]
    return "\n".join(lines)
