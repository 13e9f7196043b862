"""`combee runs`: what was run here and how it ended. `combee report`: one HTML file about a run, finished or not.

`combee compare`: runs, or files of `combee eval --json`, side by side.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import cast

import click

from combee.errors import CombeeError, UsageError
from combee.files import place_for, write_whole
from combee.kernel.journal import JSON, Journal
from combee.report import write_report
from combee.report.side_by_side import (
    HEADS,
    Side,
    flipped,
    only,
    paired,
    read_side,
    side_to_json,
    sides_page,
    table_cells,
)
from combee.run.folders import RUNS, all_runs, changed_at, find_run
from combee.run.rows import ScoredRow, rows_to_json
from combee.run.words import counted, typed
from combee.terminal.options import PathType, print_json


@click.command(name="runs")
@click.argument("root", type=PathType(), default=RUNS)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def runs_command(root: Path, as_json: bool) -> None:
    """List the runs below ROOT (default: runs/) with the time of their last change; the latest stands last."""
    if root != RUNS and not root.is_dir():
        raise UsageError(f"{root} is no folder.", hint="Give the folder that holds the folders of the runs.")
    rows = [describe(folder) for folder in all_runs(root)]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo(f"No runs yet. Start one with: {typed('learn')}")
    else:
        width = max(len(str(row["run"])) for row in rows)
        for row in rows:
            score = row["validation"]
            shown = f"{score:.3f}" if isinstance(score, float) else "-"
            size = f"{row['bullets']!s:>5} {'bullet ' if row['bullets'] == 1 else 'bullets'}"
            click.echo(f"{row['changed']}  {row['run']:<{width}}  {row['reason']:<12} {size}  validation {shown}")


def describe(folder: Path) -> dict[str, JSON]:
    """Return a run's name, end, size and last validation; a damaged run says what is wrong in `reason`."""
    row: dict[str, JSON] = {"run": folder.name, "reason": "unfinished", "bullets": 0, "validation": None}
    row["changed"] = time.strftime("%Y-%m-%d %H:%M", time.localtime(changed_at(folder)))
    try:
        with Journal.open(folder, create=False, read_only=True) as journal:
            ends = [cast("dict[str, JSON]", event.data) for event in journal.events("RunFinished")]
            scores = [cast("dict[str, int]", event.data) for event in journal.events("Validated")]
            steps = [cast("dict[str, JSON]", event.data) for event in journal.events("StepFinished")]
            if ends:
                row |= {"reason": ends[-1]["reason"], "bullets": ends[-1]["bullets"]}
            elif steps:
                row["bullets"] = steps[-1]["bullets"]
            if scores and scores[-1]["total"]:
                row["validation"] = scores[-1]["hits"] / scores[-1]["total"]
    except CombeeError as error:
        return row | {"reason": error.message}
    except (KeyError, TypeError):  # one damaged run must not hide the others
        return row | {"reason": "damaged: its events cannot be read"}
    return row


@click.command(name="report")
@click.argument("run", required=False)
@click.option("--out", type=PathType(), help="File to write. [report.html in the run's folder]")
@click.option("--json", "as_json", is_flag=True, help="Print the path as JSON.")
def report_command(run: str | None, out: Path | None, as_json: bool) -> None:
    """Write the report of RUN (default: the latest), also while it goes on. It opens without any network."""
    written = write_report(find_run(run), out)
    click.echo(json.dumps({"written": str(written)}, ensure_ascii=False) if as_json else written)


@click.command(name="compare")
@click.argument("sides", nargs=-1, required=True)
@click.option("--out", type=PathType(), help="Also write an HTML page with plots.")
@click.option("--rows", type=click.IntRange(0), default=10, show_default=True, help="Flipped rows to show.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def compare_command(sides: tuple[str, ...], out: Path | None, rows: int, as_json: bool) -> None:
    """Compare SIDES (runs, or files of `combee eval --json`) row by row; the others are measured against the first.

    Of a run these are the validation rows of its best version, or else its training rows before learning. Runs that
    learned from traces have none: their lessons are compared.
    """
    if len(sides) < 2:
        raise UsageError("There is nothing to compare with.", hint=f"Write: {typed('compare', *sides, 'ANOTHER')}")
    found = [read_side(name) for name in sides]
    odd = flipped(found)
    if out is not None:
        write_whole(place_for(out), sides_page(found))
    if as_json:
        flips = [{"task": group[0].task, "rows": rows_to_json(group)} for group in odd]
        print_json({"sides": [side_to_json(side, found[0]) for side in found], "flipped": flips})
        return
    cells = [HEADS, *table_cells(found)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
    for row in cells:
        aligned = (text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))
        click.echo("  ".join((row[0].ljust(widths[0]), *aligned)).rstrip())
    if not any(side.rows for side in found):
        _print_lessons(found, rows)
    else:
        _print_flips(found, odd, rows)
    if out is not None:
        click.echo(f"page: {out}")


def _print_lessons(sides: list[Side], most: int) -> None:
    """Print what only one of two playbooks says, each side against the first."""
    for side in sides[1:]:
        both = len(set(side.texts) & set(sides[0].texts))
        click.echo(f"{counted(both, 'lesson')} in both {sides[0].name} and {side.name}")
        for name, texts in zip((sides[0].name, side.name), only(side, sides[0]), strict=True):
            click.echo(f"{counted(len(texts), 'lesson')} only in {name}{':' if texts and most else ''}")
            for text in texts[:most]:
                click.echo(f"  {text}")


def _print_flips(found: list[Side], odd: list[tuple[ScoredRow, ...]], rows: int) -> None:
    if paired(found[0], found[-1]) is None:
        click.echo("They have no row in common.")
    click.echo(f"{counted(len(odd), 'row')} flipped{':' if odd and rows else '.'}")
    for group in odd[:rows]:
        marks = " ".join("right" if one.passed else "wrong" for one in group)
        click.echo(f"  {marks}  {group[0].task}: {' '.join(group[0].question.split())[-100:]}")
