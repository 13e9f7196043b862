"""What `combee swarm learn` tells in the end: each round, each control, who is full, and where the playbook lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from combee.cli.swarm_world import shown
from combee.kernel.learn import Evaluation, LearnResult
from combee.kernel.playbook import tokens
from combee.run.words import typed

__all__ = ["Control", "Told", "print_told"]


@dataclass(frozen=True, slots=True)
class Control:
    """The last book on test tasks, shown in one way; `errors` are tasks that no model could be had for."""

    way: str
    hits: int
    total: int
    errors: int
    tokens: float
    full: int


@dataclass(frozen=True, slots=True)
class Told:
    """What a learning run gave and what its controls gave; `full` are the agents that take no more questions."""

    folder: Path
    result: LearnResult
    start: Evaluation | None
    controls: tuple[Control, ...]
    full: tuple[str, ...]
    reused: int
    bought: int


def print_told(told: Told, *, as_json: bool) -> None:
    """Say what each round and each control gave."""
    rows = list(_rounds(told))
    if as_json:
        data: dict[str, Any] = {
            "run": str(told.folder),
            "reason": told.result.reason.value,
            "start": _score(told.start),
            "rounds": rows,
            "bullets": len(told.result.last),
            "tokens": tokens(told.result.last),
            "calls": {"bought": told.bought, "reused": told.reused},
            "controls": [asdict(one) for one in told.controls],
            "full": list(told.full),
        }
        click.echo(json.dumps(data, ensure_ascii=False))
        return
    click.echo(f"{told.result.reason.value}: {told.result.detail}")
    click.echo("round  training  held out  bullets  tokens")
    if told.start is not None:
        click.echo(f"{'-':>5}  {'':>8}  {_share(_score(told.start)):>8}")
    for row in rows:
        click.echo(
            f"{row['round']:>5}  {_share(row['training']):>8}  {_share(row['held_out']):>8}"
            f"  {row['bullets']:>7}  {row['tokens']:>6}"
        )
    click.echo("training: before learning from the round; held out: after it, in a copy of the world")
    if told.controls:
        click.echo("\ntest tasks, last playbook      right  tokens a question")
    for one in told.controls:
        note = f"  {one.full} of its agents were full" if one.full else ""
        click.echo(f"{one.way:<42} {one.hits}/{one.total}  {one.tokens:>8,.0f}{note}")
    if told.full:
        click.echo(f"full       {', '.join(told.full)}: their windows hold no more; larger ones, or fewer view_tokens")
    click.echo(f"work       {told.bought} results made, {told.reused} taken from the journal")
    click.echo(f"playbook   {shown(told.folder / 'playbook.md')}")
    if told.result.last:
        click.echo(f"next       {typed('show', shown(told.folder))}")


def _rounds(told: Told) -> Iterator[dict[str, Any]]:
    held = {one.step: one for one in told.result.validations}
    for step in told.result.steps:
        seen = held.get(step.step + 1)
        yield {
            "round": step.epoch + 1,
            "step": step.step,
            "training": [step.hits, step.total],
            "held_out": [seen.hits, seen.total] if seen is not None else None,
            "bullets": step.bullets,
            "tokens": step.tokens,
        }


def _score(found: Evaluation | None) -> list[int] | None:
    return None if found is None else [found.hits, found.total]


def _share(score: list[int] | None) -> str:
    return f"{score[0] / score[1]:.3f}" if score and score[1] else "-"
