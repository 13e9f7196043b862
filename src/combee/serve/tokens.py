"""Make, list and revoke the tokens of a service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from combee.errors import UsageError
from combee.serve.access import DEFAULT_TENANT, SCOPES, create_token, list_tokens, revoke_token
from combee.serve.store import DATABASE, ServiceStore
from combee.terminal.options import PathType, print_json

__all__ = ["command"]


@click.group(name="token")
def command() -> None:
    """Make, list and revoke the tokens of a service."""


@contextmanager
def _store(folder: Path, *, make: bool = False) -> Iterator[ServiceStore]:
    if not make and not (folder / DATABASE).exists():
        raise UsageError(f"There is no service in {folder}.", hint="`combee token create` makes one.")
    store = ServiceStore(folder)
    try:
        yield store
    finally:
        store.close()


@command.command(name="create")
@click.argument("folder", type=PathType())
@click.argument("name")
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Whose traces and lessons it reaches.")
@click.option(
    "--scope", "scopes", multiple=True, help=f"One of {', '.join(SCOPES)}; may be given several times. [ingest, read]"
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def create_command(folder: Path, name: str, tenant: str, scopes: tuple[str, ...], *, as_json: bool) -> None:
    """Make a token NAME for the service in FOLDER and print it; it is shown this once."""
    with _store(folder, make=True) as store:
        token = create_token(store, name, tenant, scopes or ("ingest", "read"))
    if as_json:
        print_json({"name": name, "tenant": tenant, "token": token})
    else:
        click.echo(token)


@command.command(name="list")
@click.argument("folder", type=PathType())
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def list_command(folder: Path, *, as_json: bool) -> None:
    """List the tokens of the service in FOLDER by name, tenant and scopes."""
    with _store(folder) as store:
        tokens = store.submit(list_tokens).result()
    if as_json:
        print_json({"tokens": tokens})
        return
    for each in tokens:
        made = time.strftime("%Y-%m-%d", time.localtime(float(str(each["created"]))))
        scopes = each["scopes"]
        shown = ", ".join(map(str, scopes)) if isinstance(scopes, list) else ""
        click.echo(f"{each['name']!s:<24} {each['tenant']!s:<20} {shown:<22} {made}")


@command.command(name="revoke")
@click.argument("folder", type=PathType())
@click.argument("name")
def revoke_command(folder: Path, name: str) -> None:
    """Revoke the token NAME; it stops working within two seconds."""
    with _store(folder) as store:
        revoke_token(store, name)
    click.echo(f"revoked {name}")
