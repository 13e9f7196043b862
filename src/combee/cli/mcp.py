"""`combee mcp`: a playbook for agents over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

from pathlib import Path

import click

from combee.errors import UsageError, how_to_install
from combee.export import own_skill
from combee.files import real_path
from combee.kernel.guard import Policy
from combee.mcp import Store
from combee.run.folders import find_run
from combee.terminal.options import Place

__all__ = ["command"]


@click.command(name="mcp")
@click.argument("what", required=False)
@click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest.")
@click.option("--max-tokens", type=click.IntRange(50), default=4000, show_default=True, help="Tokens of one answer.")
@click.option("--tenant", multiple=True, help="Show only lessons of these tenants.")
@click.option("--clearance", help="Show only lessons up to this clearance.")
@click.option("--label", multiple=True, metavar="KEY=VALUE", help="Put on every reported run, like tenant=acme.")
@click.option("--reports", type=Place(), help="Where reports are kept. [the run's reported.jsonl]")
@click.option("--read-only", is_flag=True, help="Offer the playbook alone: no reports, no votes.")
@click.option("--skill", is_flag=True, help="Print the skill file that teaches an agent to use combee, and end.")
def command(  # noqa: PLR0917 - click passes options by name
    what: str | None,
    version: str,
    max_tokens: int,
    tenant: tuple[str, ...],
    clearance: str | None,
    label: tuple[str, ...],
    reports: Path | None,
    read_only: bool,
    skill: bool,
) -> None:
    """Serve the playbook of WHAT (a run, default the latest; or a file): get_playbook, report_trace, vote."""
    if skill:
        click.echo(own_skill(), nl=False)
        return
    source = Path(what) if what is not None and Path(what).is_file() else find_run(what)
    store = Store(
        real_path(source),
        version,
        Policy(tenants=frozenset(tenant) or None, clearance=clearance),
        _labels(label),
        None if reports is None else real_path(reports),
    )
    store.playbook()  # what is wrong is said before a client waits
    try:
        from combee.mcp.server import make_server
    except ImportError as error:
        raise UsageError(
            f"The MCP server needs a package that is not installed: {error.name}.",
            hint=how_to_install("mcp"),
        ) from error
    make_server(store, max_tokens=max_tokens, reports=not read_only and store.reports is not None).run("stdio")


def _labels(pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip() or not text.strip():
            raise UsageError(f"--label {pair!r} is no label.", hint="Write KEY=VALUE, like tenant=acme.")
        found[key.strip()] = text.strip()
    return found
