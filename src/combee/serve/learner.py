"""The child process of a service that learns one generation: `combee.learn` on a file, in a folder it goes on with.

The job comes as a line of JSON on its standard input, the result goes as one to its standard output. It ends when its
input does, so also when the service is killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from combee.errors import CombeeError, LockedError
from combee.serve.books import Book

__all__ = ["LOCKED", "learn_generation"]

LOCKED = 75
"""The exit code where another process still holds the run: a learner of a service that was just killed."""


def learn_generation(job: dict[str, Any]) -> dict[str, Any]:
    """Learn a generation, fold it into the tenant's book, and return the result as plain data.

    Args:
        job: `traces` and `start` (files), `folder` of the run, `settings` (a combee.toml or None), `batch`; the
            service's folder `root`, `tenant`, the number of the `generation`, and `kept_at`, see `Book.fold`.
    """
    from combee.api import learn
    from combee.run.settings import read_settings

    settings = read_settings(Path(job["settings"])) if job["settings"] else read_settings(here=False)
    own = settings.given()
    guard = {**own.get("guard", {}), "tenants": [job["tenant"]]}  # a second wall: its file holds no other's traces
    result = learn(
        traces=job["traces"],
        start=job["start"],
        folder=job["folder"],
        settings={**own, "guard": guard},
        batch=None if "batch" in own.get("learn", {}) else job["batch"],
    )
    folded = Book(Path(job["root"]), job["tenant"]).fold(job["generation"], Path(job["folder"]), job["kept_at"])
    held = [note for note in result.notes if note.startswith("held back")]
    return {
        "reason": result.reason,
        "detail": result.detail,
        "unlearned": list(result.unlearned),
        "alerts": [*folded.alerts, *result.alerts, *held],
        "version": folded.version,
        "receipts": folded.receipts,
        "calls": result.calls,
        "tokens": result.tokens,
        "cost": result.cost,
    }


def _die_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> int:
    """Run the job."""
    job = json.loads(sys.stdin.buffer.readline())
    if hasattr(os, "nice"):
        os.nice(10)  # requests go before learning
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        result = learn_generation(job)
    except LockedError as error:
        print(error, file=sys.stderr)  # noqa: T201  # a process of its own: this is how it speaks
        return LOCKED
    except CombeeError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    print(json.dumps(result), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the thread that watches the input would hold an ordinary end up
