"""What a service drops after `keep_days`: recorded runs, folders of generations, outcomes and alerts.

Books, versions, labels and receipts stay. So `why` still names the runs of a lesson, without their words, and `forget`
takes their lessons out as before.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
from itertools import islice
from pathlib import Path

from combee.files import whole_file
from combee.serve.books import Book
from combee.serve.store import ServiceStore
from combee.traces.method import KEPT

__all__ = ["drop_old"]

_AT_ONCE = 500  # runs that are looked up together
_NAME = re.compile(rb'\{"combee_trace":\d+,"id":"([^"\\]+)"')


async def drop_old(store: ServiceStore, book: Book, before: float) -> None:
    """Drop what a tenant has from before a time, while no generation of it is open. A kill leaves a file whole."""
    tenant = book.tenant
    await _drop_runs(store, tenant, book.folder / KEPT, before)
    sql = "SELECT id FROM generations WHERE tenant = ? AND state = 'done' AND ended < ?"
    for (number,) in await store.rows(sql, tenant, before):
        await asyncio.to_thread(shutil.rmtree, book.generation(number), ignore_errors=True)
    await store.write(lambda db: _drop_rows(db, tenant, before))


async def _drop_runs(store: ServiceStore, tenant: str, path: Path, before: float) -> None:
    async def old(lines: list[bytes]) -> list[bool]:
        names = [found[1].decode() if (found := _NAME.match(line)) else "" for line in lines]
        sql = "SELECT id FROM traces WHERE tenant = ? AND received < ? AND id IN (SELECT value FROM json_each(?))"
        gone = {str(name) for (name,) in await store.rows(sql, tenant, before, json.dumps(names))}
        return [name in gone for name in names]

    if not await asyncio.to_thread(path.is_file):
        return
    with path.open("rb") as file:
        if not any(await old(list(islice(file, 1)))):  # they stand in the order in which they were learned
            return
        file.seek(0)
        with whole_file(path) as out:
            while lines := await asyncio.to_thread(lambda: list(islice(file, _AT_ONCE))):
                out.writelines(line for line, is_old in zip(lines, await old(lines), strict=True) if not is_old)


def _drop_rows(db: sqlite3.Connection, tenant: str, before: float) -> None:
    db.execute("DELETE FROM alerts WHERE tenant = ? AND at < ?", (tenant, before))
    if db.execute("SELECT 1 FROM trials WHERE tenant = ? AND ended IS NULL", (tenant,)).fetchone() is None:
        db.execute("DELETE FROM outcomes WHERE tenant = ? AND received < ?", (tenant, before))
