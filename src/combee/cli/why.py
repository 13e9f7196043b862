"""`combee why`: where a bullet comes from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import click

from combee.cli.rundir import find_run
from combee.cli.words import counted
from combee.journal import Journal
from combee.learn.history import Origin, Why, read_history
from combee.learn.intake import reflection_name

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
        texts = _texts(journal, {origin.reflection for origin in found.origins})
    if as_json:
        data = dataclasses.asdict(found)
        for origin in data["origins"]:
            origin["text"] = texts.get(origin["reflection"])
        click.echo(json.dumps(data, ensure_ascii=False))
    else:
        click.echo(_told(found, texts))


def _texts(journal: Journal, names: set[str]) -> dict[str, str]:
    """Return what these reflections say in full; a recorded run's names the steps that show a lesson."""
    texts: dict[str, str] = {}
    for address, value in journal.results("reflect"):
        name = reflection_name(address.item, address.place.epoch)
        if name in names and isinstance(value, dict):
            texts[name] = str(value.get("text", ""))
    return texts


def _said(lesson: str, origin: Origin, text: str) -> str:
    """Return a lesson with the steps that show it, where its reflection names them."""
    _, found, rest = text.partition(f"{lesson} (trace {origin.trace}, step ")
    return f"    said: {lesson}" + (f" (step {rest.partition(')')[0]})" if found else "")


def _told(found: Why, texts: Mapping[str, str]) -> str:
    bullet = found.bullet
    lines = [f"[{bullet.id}] {bullet.text}", f"helpful {bullet.helpful}, harmful {bullet.harmful}", "", "history"]
    for touch in found.touches:
        cited = f" (from {', '.join(touch.sources)})" if touch.sources else ""
        text = "" if touch.detail == bullet.text else f": {touch.detail}"
        lines.append(f"  epoch {touch.epoch}, step {touch.step} ({touch.version[:12]}): {touch.what}{text}{cited}")
    lines += ["", f"rests on {counted(len(found.origins), 'reflection')}"]
    for origin in found.origins:
        if origin.sample is None:
            lines.append(f"  {origin.reflection}: not of this run")
            continue
        outcome = {True: "the answer was right", False: "the answer was wrong", None: "not scored"}[origin.passed]
        lines.append(f"  {origin.reflection}: task {origin.sample}, trace {origin.trace}; {outcome}")
        lines += [_said(lesson, origin, texts.get(origin.reflection, "")) for lesson in origin.lessons]
        lines += [f"    passed: {node}" for node in origin.nodes]
    return "\n".join(lines)
