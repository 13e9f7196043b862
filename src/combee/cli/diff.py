"""`combee diff`: what one playbook has that the other has not."""

from __future__ import annotations

import json

import click

from combee.kernel.playbook import BulletChange, diff
from combee.run.folders import open_book
from combee.run.words import counted

__all__ = ["command"]


@click.command(name="diff")
@click.argument("old")
@click.argument("new")
@click.option("--json", "as_json", is_flag=True, help="Print the difference as JSON.")
def command(old: str, new: str, as_json: bool) -> None:
    """Compare two playbooks; each is a run, RUN@VERSION, or a file.

    Changed is what says something else: text or section. Bullets with other votes, and those with other sources or
    steps only (a text file keeps none), are counted apart.
    """
    before, before_name = open_book(old)
    after, after_name = open_book(new)
    found = diff(before, after)
    kinds: dict[str, list[BulletChange]] = {"changed": [], "votes": [], "sources": []}
    for change in found.changed:
        kinds[_kind(change)].append(change)
    changed, voted, unseen = kinds["changed"], kinds["votes"], [change.after.id for change in kinds["sources"]]
    if as_json:
        data = {
            "added": {bullet.id: bullet.text for bullet in found.added},
            "removed": {bullet.id: bullet.text for bullet in found.removed},
            "changed": {change.after.id: list(_said(change)) for change in changed},
            "votes_only": {
                change.after.id: {
                    "helpful": [change.before.helpful, change.after.helpful],
                    "harmful": [change.before.harmful, change.after.harmful],
                }
                for change in voted
            },
            "sources_only": unseen,
        }
        click.echo(json.dumps(data, ensure_ascii=False))
        return
    click.echo(
        f"--- {before_name}: {counted(len(before), 'bullet')}\n+++ {after_name}: {counted(len(after), 'bullet')}"
    )
    for bullet in found.removed:
        click.echo(f"- [{bullet.id}] {bullet.text}")
    for change in changed:
        click.echo(f"~ [{change.after.id}] {' → '.join(_said(change))}")
    for bullet in found.added:
        click.echo(f"+ [{bullet.id}] {bullet.text}")
    if voted:
        click.echo(f"votes only: {', '.join(f'[{one.after.id}] ' + ' → '.join(_votes(one)) for one in voted)}")
    if unseen:
        click.echo(f"sources or steps only: {counted(len(unseen), 'bullet')}")
    if not found:
        click.echo("no difference")


def _kind(change: BulletChange) -> str:
    """Return what differs that weighs most: what the bullet says, how it was voted on, or where it is from."""
    if not {"text", "section"}.isdisjoint(change.fields):
        return "changed"
    return "sources" if {"helpful", "harmful"}.isdisjoint(change.fields) else "votes"


def _said(change: BulletChange) -> tuple[str, str]:
    """Return both texts, with their sections where those differ."""
    both = (change.before, change.after)
    old, new = (f"({one.section}) {one.text}" if "section" in change.fields else one.text for one in both)
    return old, new


def _votes(change: BulletChange) -> tuple[str, str]:
    """Return the votes before and after, like +2 -1."""
    old, new = (f"+{one.helpful} -{one.harmful}" for one in (change.before, change.after))
    return old, new
