"""The versions of a run's playbook: list them, show or compare two, and move the labels on them."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import cast

import click

from combee.errors import UsageError, did_you_mean
from combee.kernel.journal import JSON, Journal
from combee.kernel.playbook import BookDiff, BulletChange, Playbook, diff, to_json, to_text
from combee.run.folders import find_run, open_book
from combee.run.words import counted, typed
from combee.terminal.options import print_json

RESERVED = frozenset({"best", "last"})
"""Labels that the loop moves; a person moves the others."""


@click.command(name="versions")
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def versions_command(run: str | None, as_json: bool) -> None:
    """List the versions of RUN (default: the latest), oldest first."""
    folder = find_run(run)
    with Journal.open(folder, create=False, read_only=True) as journal:
        rows = _rows(journal)
    if not rows:
        raise UsageError(f"{folder} has no version yet.", hint=f"Go on with `{typed('resume', folder)}`.")
    if as_json:
        print_json(rows)
        return
    for row in rows:
        labels = ", ".join(cast("list[str]", row["labels"]))
        size = "" if row["bullets"] is None else counted(cast("int", row["bullets"]), "bullet")
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(cast("float", row["time"])))
        where = "start" if row["parent"] is None else f"epoch {row['epoch']}, step {row['step']}"
        click.echo(
            f"{str(row['version'])[:12]}  {when}  {where:<18} {size:>12}  {row['verdict'] or '':<14} {labels}".rstrip()
        )


def _rows(journal: Journal) -> list[dict[str, JSON]]:
    labels: dict[str, list[str]] = {}
    for label, digest in journal.labels().items():
        labels.setdefault(digest, []).append(label)
    steps = [cast("dict[str, JSON]", event.data) for event in journal.events("StepFinished")]
    bullets = {str(step["version"]): step["bullets"] for step in steps}
    shown: list[dict[str, JSON]] = []
    for row in journal.versions():
        data = row.data if isinstance(row.data, dict) else {}
        shown.append(
            {
                "version": row.digest,
                "parent": row.parent,
                "epoch": row.epoch,
                "step": row.step,
                "bullets": bullets.get(row.digest),
                "verdict": "forgot traces" if "forgot" in data else data.get("verdict"),
                "labels": cast("JSON", labels.get(row.digest, [])),
                "time": row.time,
            }
        )
    return shown


@click.command(name="show")
@click.argument("what", required=False)
@click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest.")
@click.option("--web", is_flag=True, help="Serve the run's report on 127.0.0.1 while it goes on; Ctrl-C ends it.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="For --web. [any that is free]")
@click.option("--json", "as_json", is_flag=True, help="The lossless JSON form.")
def show_command(what: str | None, version: str, *, web: bool, port: int, as_json: bool) -> None:
    """Show the playbook of WHAT: a run (default: the latest), RUN@VERSION, or a playbook file."""
    if web:
        _serve(what, port)
        return
    book, _ = open_book(what, version)
    click.echo(to_json(book) if as_json else to_text(book).rstrip("\n"))


def _serve(what: str | None, port: int) -> None:
    from combee.report.live import live_server  # slow to load

    folder = find_run(what)
    with live_server(folder, port) as server:
        click.echo(f"{folder}: http://127.0.0.1:{server.server_address[1]}/  (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            server.serve_forever()


@click.command(name="diff")
@click.argument("old")
@click.argument("new")
@click.option("--json", "as_json", is_flag=True, help="Print the difference as JSON.")
def diff_command(old: str, new: str, as_json: bool) -> None:
    """Compare two playbooks; each is a run, RUN@VERSION, or a file.

    Bullets of two runs are matched by what they say. Changed is what has another text or section. Bullets with other
    votes, and those with other sources or steps only (a text file keeps none), are counted apart.
    """
    before, before_name = open_book(old)
    after, after_name = open_book(new)
    is_one_run = before_name.rpartition("@")[0] == after_name.rpartition("@")[0] != ""
    found = diff(before, after) if is_one_run else _compared(before, after)
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
        print_json(data)
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


def _compared(before: Playbook, after: Playbook) -> BookDiff:
    """Compare two books by what their bullets say, unless most ids mean the same in both: runs give ids by counting."""
    found = diff(before, after)
    common = sum(bullet.id in before for bullet in after)
    if 2 * sum("text" in change.fields for change in found.changed) <= common:
        return found
    old, new = ({bullet.text for bullet in book} for book in (before, after))
    added, removed = ([bullet for bullet in after if bullet.text not in old], [b for b in before if b.text not in new])
    return BookDiff(tuple(added), tuple(removed))


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


@click.command(name="promote")
@click.argument("run")
@click.argument("version")
@click.option("--to", "label", default="stable", show_default=True, help="stable, canary, or a label of your own.")
@click.option("--note", default="", help="Why; kept in the history of the label.")
@click.option("--json", "as_json", is_flag=True, help="Print the move as JSON.")
def promote_command(run: str, version: str, label: str, note: str, as_json: bool) -> None:
    """Put a label of RUN on VERSION (another label, or the first digits of a digest). `combee rollback` undoes it."""
    if label in RESERVED:
        raise UsageError(f"The label {label!r} is moved by the run itself.", hint="Choose stable or canary.")
    folder = find_run(run)
    with Journal.open(folder, create=False) as journal:
        try:
            digest = journal.resolve(version)
        except UsageError as error:
            if version in {"stable", "canary"}:  # the label where the version belongs
                hint = f"Write: {typed('promote', run, 'VERSION', '--to', version)}"
                raise UsageError(error.message, hint=hint) from None
            raise
        before = journal.labels().get(label)
        journal.label(label, digest, note=note)
    if as_json:
        print_json({"run": str(folder), "label": label, "version": digest, "before": before})
    elif before == digest:
        click.echo(f"{label} is on {digest[:12]} already.")
    else:
        click.echo(f"{label}: {before[:12] if before else 'nowhere'} → {digest[:12]}")


@click.command(name="rollback")
@click.argument("run")
@click.argument("label", default="stable")
@click.option("--note", default="", help="Why; kept in the history of the label.")
@click.option("--json", "as_json", is_flag=True, help="Print the move as JSON.")
def rollback_command(run: str, label: str, note: str, as_json: bool) -> None:
    """Put LABEL (default: stable) of RUN back on the version it was on before."""
    if label in RESERVED:
        raise UsageError(f"The label {label!r} is moved by the run itself.", hint="Roll back stable or canary.")
    folder = find_run(run)
    with Journal.open(folder, create=False) as journal:
        labels = journal.labels()
        if label not in labels:
            hint = did_you_mean(label, labels) if labels else "No version has a label yet."
            if label in {"stable", "canary"}:
                hint = f"There is nothing to go back from until `{typed('promote', folder, 'last', '--to', label)}`."
            raise UsageError(f"{folder} has no label {label!r}.", hint=hint)
        before, digest = labels[label], journal.rollback(label, note=note)
    if as_json:
        print_json({"run": str(folder), "label": label, "version": digest, "before": before})
    else:
        click.echo(f"{label}: {before[:12]} → {digest[:12]}")
