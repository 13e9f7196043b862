"""`harbor run` as a program: one job for each minibatch, its trials read as they end, none of them run twice.

A trial that ended with a valid reward is on disk, and is found there after a kill. A job that outlived its Combee is
waited for, not repeated. Harbor itself is never imported: it needs another Python, and packages of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from combee.errors import CallError, CallErrorKind, RunError, UsageError
from combee.export import export
from combee.files import write_whole
from combee.kernel.journal import hash_json
from combee.kernel.playbook import Playbook, digest
from combee.model import Usage
from combee.run.settings_tables import EnvironmentTable
from combee.traces.readers import read

__all__ = ["PROGRAM", "HarborTrial", "Jobs", "read_trial"]

PROGRAM = "harbor"
"""How Harbor is started where the settings do not say."""

_GATHER = 0.05  # seconds without a further task, after which those that came are one job
_LOOK = 0.25  # seconds between two looks at a job's folder
_STOP = 30.0  # seconds in which a stopped job may take its containers away
_BROKEN_OFF = frozenset({"CancelledError", "KeyboardInterrupt"})
_SHOWN = 5  # last lines of a log


@dataclass(frozen=True, slots=True)
class HarborTrial:
    """A trial that ended. `reward` is None where nothing valid was judged, for the reason `trouble`.

    `broken_off`: by Ctrl-C or a kill, so that nobody took it in.
    """

    folder: Path
    reward: float | None
    trouble: str
    broken_off: bool
    usage: Usage | None
    cost: float | None
    seconds: float


def read_trial(folder: Path) -> HarborTrial | None:
    """Read a trial's folder; None: it has not ended."""
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there yet, or half written
        return None
    if not isinstance(result, dict) or not result.get("finished_at"):
        return None
    trace = next(read(folder, "harbor").once(), None)
    outcome = None if trace is None else trace.outcome
    said = result.get("exception_info") or {}
    trouble = f"{said.get('exception_type')}: {said.get('exception_message')}" if said else "it has no reward"
    steps = [step.get("agent_result") or {} for step in result.get("step_results") or []]
    usage, cost = _taken([result["agent_result"]] if result.get("agent_result") else steps)
    reward = None if outcome is None or outcome.claimed else outcome.score
    broken_off = said.get("exception_type") in _BROKEN_OFF
    return HarborTrial(folder, reward, trouble[:300], broken_off, usage, cost, _seconds(result))


def _taken(parts: Sequence[dict[str, Any]]) -> tuple[Usage | None, float | None]:
    def total(name: str) -> Any:
        known = [part[name] for part in parts if part.get(name) is not None]
        return sum(known) if known else None

    asked, replied = total("n_input_tokens"), total("n_output_tokens")
    usage = None if asked is None and replied is None else Usage(asked or 0, replied or 0, total("n_cache_tokens") or 0)
    return usage, total("cost_usd")


def _seconds(result: dict[str, Any]) -> float:
    with contextlib.suppress(KeyError, TypeError, ValueError):
        begun, ended = (datetime.fromisoformat(result[name]) for name in ("started_at", "finished_at"))
        return (ended - begun).total_seconds()
    return 0.0


@dataclass
class _Minibatch:
    """Tasks that wait for one job: their folders, each with whoever waits for its trial."""

    book: Playbook
    waiting: dict[str, list[asyncio.Future[HarborTrial]]] = field(default_factory=dict)


class Jobs:
    """Does trials in a folder; what is asked for at once with one playbook is one `harbor run`.

    Args:
        table: How Harbor is run.
        folder: Where jobs are kept.
    """

    def __init__(self, table: EnvironmentTable, folder: Path) -> None:
        self._table = table
        self._folder = folder.resolve()
        self._gathering: dict[str, _Minibatch] = {}
        self._working: set[asyncio.Task[None]] = set()

    def key_of(self, book: Playbook, place: str) -> str:
        """Return what the jobs of one playbook at one place of a run are called; other settings are other jobs."""
        table = self._table
        return hash_json([place, digest(book), table.agent, table.model, list(table.options), table.book])[:12]

    def found(self, key: str, task: str) -> HarborTrial | None:
        """Return the trial of a task that an earlier process ended."""
        return next((trial for name in self._names(key) for trial in self._ended(name, {task}).values()), None)

    def lost(self, key: str, task: str, trial: HarborTrial) -> bool:
        """Whether another trial of the task was broken off: it may have been paid for."""
        left = (folder for name in self._names(key) for _, folder in self._begun(name, {task}))
        others = (read_trial(folder) for folder in left if folder != trial.folder)
        return any(other is None or other.broken_off for other in others)

    async def run(self, task: str, book: Playbook, key: str) -> HarborTrial:
        """Return the trial of a task (its folder); it may have ended without a valid reward.

        Raises:
            CallError: Harbor left no result, or one that was broken off.
            RunError: Harbor did not begin; the message ends with its own words.
        """
        batch = self._gathering.get(key)
        if batch is None:
            batch = self._gathering[key] = _Minibatch(book)
            job = asyncio.create_task(self._job(key, batch))
            self._working.add(job)
            job.add_done_callback(self._working.discard)
        future: asyncio.Future[HarborTrial] = asyncio.get_running_loop().create_future()
        batch.waiting.setdefault(task, []).append(future)
        return await future

    async def aclose(self) -> None:
        """Stop the jobs under way, and wait until Harbor has taken its containers away."""
        for job in list(self._working):
            job.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)

    async def _job(self, key: str, batch: _Minibatch) -> None:
        seen = -1
        while len(batch.waiting) != seen:
            seen = len(batch.waiting)
            await asyncio.sleep(_GATHER)
        del self._gathering[key]
        try:
            for name in self._names(key):  # a job that outlived the process that began it
                while self._is_alive(name):
                    self._deliver(name, batch)
                    await asyncio.sleep(_LOOK)
                self._deliver(name, batch)
            if batch.waiting:
                await self._started(f"{key}-{len(self._names(key)) + 1}", batch)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it, whatever it is
            self._fail(batch, error)

    async def _started(self, name: str, batch: _Minibatch) -> None:
        """Start Harbor and follow it to its end; it ends with this process's work."""
        words = self._command(name, batch)
        log = self._folder / f"{name}.log"
        try:
            with log.open("wb") as file:
                process = await asyncio.create_subprocess_exec(
                    *words, stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
                )
        except OSError as error:
            hint = "Install it in a Python 3.12 of its own (`uv tool install harbor`), or set environment.program."
            raise UsageError(f"{words[0]} cannot be started: {error.strerror or error}.", hint=hint) from error
        self._path(name, ".pid").write_text(str(process.pid), encoding="utf-8")
        ended = asyncio.ensure_future(process.wait())
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=_LOOK)
                self._deliver(name, batch)
        finally:
            if not ended.done():
                await _stop(process, at_work=bool(batch.waiting))
            self._path(name, ".pid").unlink(missing_ok=True)
        self._give_up(name, batch, await ended, log)

    def _command(self, name: str, batch: _Minibatch) -> list[str]:
        table = self._table
        self._folder.mkdir(parents=True, exist_ok=True)
        tasks = {"tasks": [{"path": path} for path in batch.waiting]}
        config = write_whole(self._path(name, ".tasks.json"), json.dumps(tasks, indent=1))
        words = [
            *shlex.split(table.program or PROGRAM),
            "run",
            "-c",
            str(config),
            "-o",
            str(self._folder),
            "--job-name",
            name,
        ]
        words += ["-n", str(table.in_flight), "-y", "-q"]
        words += ["-a", table.agent] if table.agent else []
        words += ["-m", table.model] if table.model else []
        return [*words, *self._shown(name, batch.book), *table.options]

    def _shown(self, name: str, book: Playbook) -> list[str]:
        """Write the playbook as the agent gets it, and return the option that names it; nothing of an empty one."""
        if not len(book):
            return []
        skill = self._table.book == "skill"
        place = self._path(name, ".book")
        files = export(book, "skill" if skill else "prompt", description="Lessons learned from earlier runs.")
        for file in files:
            (place / file.path).parent.mkdir(parents=True, exist_ok=True)
            write_whole(place / file.path, file.text)
        return ["--skill", str(place)] if skill else ["--extra-instruction-path", str(place / files[0].path)]

    def _path(self, name: str, suffix: str) -> Path:
        return self._folder / f"{name}{suffix}"

    def _names(self, key: str) -> list[str]:
        names = [path.name.removesuffix(".tasks.json") for path in self._folder.glob(f"{key}-*.tasks.json")]
        return sorted(names, key=lambda name: int(name.rpartition("-")[2]))

    def _ended(self, name: str, tasks: set[str]) -> dict[str, HarborTrial]:
        """Return the trials of a job with a valid reward, by task."""
        return {task: trial for task, trial in self._trials(name, tasks) if trial.reward is not None}

    def _trials(self, name: str, tasks: set[str]) -> Iterator[tuple[str, HarborTrial]]:
        """Yield those trials of a job that ended, each with its task."""
        for task, folder in self._begun(name, tasks):
            if (trial := read_trial(folder)) is not None:
                yield task, trial

    def _begun(self, name: str, tasks: set[str]) -> Iterator[tuple[str, Path]]:
        """Yield the folders of a job's trials, each with its task."""
        for config in sorted((self._folder / name).glob("*/config.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                task = str(json.loads(config.read_text(encoding="utf-8"))["task"]["path"])
                if task in tasks:
                    yield task, config.parent

    def _deliver(self, name: str, batch: _Minibatch) -> None:
        for task, trial in self._ended(name, set(batch.waiting)).items():
            for future in batch.waiting.pop(task):
                if not future.done():
                    future.set_result(trial)

    def _give_up(self, name: str, batch: _Minibatch, code: int, log: Path) -> None:
        """Say of each task that has no trial why; where Harbor did not even begin one, that ends the run."""
        self._deliver(name, batch)
        trials = dict(self._trials(name, set(batch.waiting)))
        words = " / ".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-_SHOWN:])
        if code and not any((self._folder / name).glob("*/config.json")):
            said = f"`harbor run` ended with {code} before the first trial: {words}"
            self._fail(batch, RunError(said, hint=f"The whole of it: {log}"))
        for task, futures in batch.waiting.items():
            trial = trials.get(task)
            error = CallError(
                f"the trial of {Path(task).name} left no result: {trial.trouble if trial else words}",
                kind=CallErrorKind.AGENT,
            )
            for future in (one for one in futures if not one.done()):
                if trial is None or trial.broken_off:
                    future.set_exception(error)
                else:
                    future.set_result(trial)

    def _fail(self, batch: _Minibatch, error: Exception) -> None:
        for future in (one for futures in batch.waiting.values() for one in futures):
            if not future.done():
                future.set_exception(error)

    def _is_alive(self, name: str) -> bool:
        """Whether the job's program still runs. Its number may be another program's by now."""
        try:
            pid = int(self._path(name, ".pid").read_text(encoding="utf-8"))
            os.kill(pid, 0)
            line = Path(f"/proc/{pid}/cmdline")
            return not Path("/proc/self").exists() or name.encode() in line.read_bytes()
        except (OSError, ValueError):
            return False


async def _stop(process: asyncio.subprocess.Process, *, at_work: bool) -> None:
    """Wait for Harbor to end; while it is at work, ask for that as Ctrl-C does. What it leaves is ended with it."""
    with contextlib.suppress(ProcessLookupError):
        if at_work:
            process.send_signal(signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _STOP)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
