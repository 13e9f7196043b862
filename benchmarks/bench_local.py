"""How much of what one call reads `local/smollm2` writes down: m planted facts, one curator call each, a few repeats.

The weights run in this process, so no key and no network is needed. It proves the path (prompt, slots, schema, parsing,
coverage, ledger), not the learning: the model has 135 million parameters. Takes minutes, on a busy machine many.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

from combee.ace import AceCurator
from combee.errors import CallError, UsageError
from combee.kernel.aggregate.method import covered_keys
from combee.kernel.journal import MemoryScope
from combee.kernel.playbook import Playbook, distinct_terms
from combee.model import CallOptions, LocalModel
from combee.run.calibrate import planted

SIZES = (1, 2, 4, 8, 16)
REPEATS = 3
MOST = 256  # tokens of a reply: two operations fit, so that no more than 2 of m facts can be kept


@dataclass(frozen=True, slots=True)
class Call:
    """One call: facts kept (verified), operations written, facts of which a code stands anywhere in them; seconds."""

    kept: int
    operations: int
    named: int
    seconds: float
    failed: str = ""


async def one(curator: AceCurator, size: int, start: int) -> Call:
    items = [planted(number) for number in range(start, start + size)]
    method = curator.method(Playbook(), MemoryScope())
    began = time.perf_counter()
    try:
        delta = await method.leaf(items, f"m{size}/{start}")
    except CallError as error:
        return Call(0, 0, 0, time.perf_counter() - began, str(error.kind))
    took = time.perf_counter() - began
    kept = covered_keys(method, [method.key(item) for item in items], items, delta)
    said = frozenset().union(*(distinct_terms(getattr(one, "text", "")) for one in delta))
    named = sum(bool(distinct_terms(item.lessons[0]) & said) for item in items)
    return Call(len(kept), len(delta), named, took)


def told(size: int, calls: list[Call]) -> str:
    kept = [call.kept / size for call in calls]
    spread = statistics.stdev(kept)
    good = [call for call in calls if not call.failed]
    return (
        f"{size:>4}{statistics.mean(kept):>9.2f} ± {spread:.2f}{sum(c.named for c in calls) / size / len(calls):>14.2f}"
        f"{statistics.mean(c.operations for c in calls):>13.1f}{len(good):>10} of {len(calls)}"
        f"{statistics.mean(c.seconds for c in calls):>9.0f}"
    )


async def measure() -> None:
    async with LocalModel() as model:
        curator = AceCurator(model, options=CallOptions(max_tokens=MOST))
        print(f"{'m':>4}{'kept ± spread':>16}{'a code named':>14}{'operations':>13}{'in form':>15}{'seconds':>9}")
        start = 0
        for size in SIZES:
            jobs = []
            for _ in range(REPEATS):
                jobs.append(one(curator, size, start))
                start += size
            print(told(size, list(await asyncio.gather(*jobs))), flush=True)
        total = model.engine.ledger.total
        print(f"{total.calls} calls, {total.prompt:,} tokens read ({total.cached:,} from the cache), ", end="")
        print(f"{total.completion:,} written")


def main() -> None:
    try:
        asyncio.run(measure())
    except UsageError as error:
        print(f"{error.message}. {error.hint or ''}")


if __name__ == "__main__":
    main()
