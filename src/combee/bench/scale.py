"""The law of scale: the kernel's loop over planted reflections, one process a size, and what it takes.

Each reflection plants a fact that no other has. There is no rollout and no model: what is measured is what Combee
itself takes, journal and all. A second process then opens the finished run, a third replays all of it.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from combee.bench.cells import BenchRun, CellResult
from combee.bench.definition import Cell
from combee.errors import RunError
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
from combee.kernel.runner import run_sync
from combee.lexical import LexicalCurator
from combee.run.calibrate import planted

__all__ = ["ScaleRun"]


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
    curator = LexicalCurator(forget=forget, seed=config.seed)
    begun = time.perf_counter()
    with Journal.open(folder) as journal:
        result = run_sync(learn(samples, _reflect, curator, config=config, journal=journal))
    return result, time.perf_counter() - begun


def _child(folder: Path, how: str, size: int, settings: Mapping[str, Any], forget: float | None) -> dict[str, Any]:
    if how == "replay":
        with Journal.open(folder, create=False) as journal:
            forget_snapshot(journal)
    result, seconds = _learned(folder, size, LearnConfig.from_json(settings), forget)
    steps = result.steps
    return {
        "book": digest(result.last),
        "bullets": len(result.last),
        "seconds": seconds,
        "cpu": time.process_time() / size * 1e6,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "disk": sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        "kept": 1 - sum(step.uncovered for step in steps) / max(1, sum(step.reflections for step in steps)),
        "reads": sum(step.reads for step in steps) / size,
        "calls": sum(step.calls for step in steps),
        "chain": max(step.depth for step in steps),
    }


class ScaleRun(BenchRun):
    """A bench whose cells are sizes. A cell that is done is never run again; one that was stopped goes on."""

    def load(self) -> None:
        """Load what is done already."""
        self.place = {cell: self.folder / "cells" / cell.folder(f"planted {cell.at}") for cell in self.cells}
        for cell, place in self.place.items():
            if (place / "cell.json").is_file():
                self.done[cell] = CellResult.read(place / "cell.json")

    def _run(self, cell: Cell) -> str | None:
        """Run a size, and open it again twice, each in a process of its own."""
        place = self.place[cell]
        place.mkdir(parents=True, exist_ok=True)
        whole, opened, replayed = (_in_a_process(place, how, cell) for how in ("run", "open", "replay"))
        if len({one["book"] for one in (whole, opened, replayed)}) > 1:
            raise RunError(f"{place}: opened again, the run came to another book.", hint="This is a fault: report it.")
        measured = {name: whole[name] for name in ("kept", "reads", "cpu", "memory", "disk")}
        measured |= {"opened": opened["seconds"], "replayed": replayed["seconds"]}
        calls, chain, seconds = whole["calls"], whole["chain"], whole["seconds"]
        result = CellResult((), whole["bullets"], 0, calls, chain, seconds, None, None, measured=measured)
        write_whole(place / "cell.json", json.dumps(dataclasses.asdict(result)))
        self.done[cell] = result
        return None


def _in_a_process(place: Path, how: str, cell: Cell) -> dict[str, Any]:
    settings = json.dumps(cell.spec.learn_config().to_json())
    arguments = [str(place), how, str(cell.at), settings, json.dumps(cell.spec.agent.forget)]
    command = [sys.executable, "-m", "combee.bench.scale", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter, arguments as a list
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise RunError(f"{place}: {said[-1]}", hint="The same command goes on.")
    return cast("dict[str, Any]", json.loads(done.stdout))


def _main(arguments: Sequence[str]) -> None:
    folder, how, size, settings, forget = arguments
    found = _child(Path(folder), how, int(size), json.loads(settings), json.loads(forget))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
