"""The law of scale: the kernel's loop over planted reflections, one process a size, and what it takes.

Each reflection plants a fact that no other has. There is no rollout and no model: what is measured is what Combee itself
takes, journal and all. A second process then opens the finished run, and a third replays all of it.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from combee.errors import RunError, StorageError
from combee.files import write_whole
from combee.kernel.journal import JSON, Journal, Scope
from combee.kernel.learn import (
    LearnConfig,
    LearnResult,
    Sampled,
    forget_snapshot,
    learn,
    reflection_from_json,
    reflection_to_json,
)
from combee.kernel.playbook import Playbook, digest
from combee.lexical import LexicalCurator
from combee.run.calibrate import planted

__all__ = ["ScaleResult", "measure"]


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """What one size came to.

    Attributes:
        size: Reflections.
        kept: Share of the planted facts that stand in an operation which cites them.
        bullets: Of the last book.
        reads: Reflections read by leaf calls, for each reflection.
        calls: Calls that aggregate.
        chain: Calls of a step that wait for each other, at most.
        cpu: Microseconds of CPU for each reflection, the journal's thread included.
        seconds: Wall of the whole run.
        memory: Megabytes, at most.
        disk: Megabytes of the run's folder.
        opened: Seconds until the finished run is open again, by its snapshot.
        replayed: Seconds until it is, replayed from its first step.
    """

    size: int
    kept: float
    bullets: int
    reads: float
    calls: int
    chain: int
    cpu: float
    seconds: float
    memory: float
    disk: float
    opened: float = 0.0
    replayed: float = 0.0


@dataclass(frozen=True, slots=True)
class _Planted:
    """One thing to learn from; `number` says what."""

    id: str
    number: int
    labels: Mapping[str, str] = field(default_factory=dict)


async def _reflect(sample: _Planted, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
    """Plant the fact, and keep it as a paid reflection is kept."""

    async def work() -> JSON:
        return reflection_to_json(planted(sample.number))

    kept = await scope.once("reflect", sample.id, {"number": sample.number}, work, attempt=attempt)
    return Sampled(reflection_from_json(kept, sample.labels))


def _learned(folder: Path, size: int, config: LearnConfig, forget: float | None) -> tuple[LearnResult, float]:
    """Run or go on; return the result and the seconds from opening the journal on."""
    samples = [_Planted(f"r{number:07d}", number) for number in range(size)]
    begun = time.perf_counter()
    with Journal.open(folder) as journal:
        curator = LexicalCurator(forget=forget, seed=config.seed)
        result = asyncio.run(learn(samples, _reflect, curator, config=config, journal=journal))
    return result, time.perf_counter() - begun


def _child(folder: Path, how: str, size: int, settings: Mapping[str, Any], forget: float | None) -> dict[str, Any]:
    config = LearnConfig.from_json(settings)
    if how == "replay":
        with Journal.open(folder, create=False) as journal:
            forget_snapshot(journal)
    result, seconds = _learned(folder, size, config, forget)
    if how != "run":
        return {"seconds": seconds, "book": digest(result.last)}
    steps = result.steps
    found = ScaleResult(
        size=size,
        kept=1 - sum(step.uncovered for step in steps) / max(1, sum(step.reflections for step in steps)),
        bullets=len(result.last),
        reads=sum(step.reads for step in steps) / size,
        calls=sum(step.calls for step in steps),
        chain=max(step.depth for step in steps),
        cpu=time.process_time() / size * 1e6,
        seconds=seconds,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        disk=sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
    )
    return {**asdict(found), "book": digest(result.last)}


def measure(folder: Path, size: int, settings: Mapping[str, JSON], forget: float | None) -> ScaleResult:
    """Run one size in `folder` and open it again twice, each in a process of its own; done already, only read it.

    Raises:
        RunError: A process failed, or the book of a replay is another one.
        StorageError: What was measured before cannot be read.
    """
    kept = folder / "scale.json"
    if kept.exists():
        try:
            return ScaleResult(**json.loads(kept.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise StorageError(f"{kept} cannot be read: {error}", hint="Take the folder away.") from error
    folder.mkdir(parents=True, exist_ok=True)
    whole, opened, replayed = (_in_a_process(folder, how, size, settings, forget) for how in ("run", "open", "replay"))
    if len({one.pop("book") for one in (whole, opened, replayed)}) > 1:
        raise RunError(f"{folder}: opened again, the run came to another book.", hint="This is a fault: report it.")
    found = replace(ScaleResult(**whole), opened=opened["seconds"], replayed=replayed["seconds"])
    write_whole(kept, json.dumps(asdict(found)))
    return found


def _in_a_process(folder: Path, how: str, size: int, settings: Mapping[str, JSON], forget: float | None) -> Any:
    command = [
        sys.executable,
        "-m",
        __name__,
        str(folder),
        how,
        str(size),
        json.dumps(dict(settings)),
        json.dumps(forget),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(f"{folder}: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    return json.loads(done.stdout)


def _main(arguments: Sequence[str]) -> None:
    folder, how, size, settings, forget = arguments
    found = _child(Path(folder), how, int(size), json.loads(settings), cast("float | None", json.loads(forget)))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
