"""A trial of a team: the user's own program at work in a copy of a repository, judged by state, history and tests.

A trial is a folder. What an earlier process began there is waited for and judged, not run again: the program notes its
own end. What was broken off by a kill of all is left as it is, and another folder begun.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from combee.errors import RunError, UsageError
from combee.files import write_whole
from combee.model import Usage
from combee.redaction import Trace, to_jsonl
from combee.run.git import git, inherited
from combee.team.history import read_history
from combee.team.hooks import install_shim, install_trailer
from combee.team.joined import team_trace
from combee.team.score import WEIGHTS, Roles, TeamScore, roles_of, score_run
from combee.team.state import TeamState, json_object, read_state
from combee.team.testing import check_by, check_commit

__all__ = ["RECORD", "TeamProgram", "TeamTrial", "TeamTrials", "words_of"]

RECORD = "record.jsonl"
"""The file of a trial with its joined trace, without secrets."""

_LOOK = 0.1  # seconds between two looks at a program
_STOPPED = "stopped"
_SHOWN = 500  # characters of what a program printed last
_NEVER_BEGAN = frozenset({"126", "127"})  # exit codes of a shell whose program cannot be started
# The program is started by a shell that notes when it began and how it ended, also when nobody waits for it any more.
_NOTED = 'echo $$ > "$0/pid"; "$@"; echo $? > "$0/exit"'


@dataclass(frozen=True, slots=True)
class TeamProgram:
    """How a team is run and judged.

    Attributes:
        command: The program, in words of a shell; {rules}, {task}, {repository} and {state} are paths.
        test: The tests that judge it; None: pytest.
        junit: A JUnit file that they write.
        testers: Members that test; empty: by their names.
        minutes: After so many it is stopped, and judged as it stands.
    """

    command: str
    test: str | None = None
    junit: str | None = None
    testers: tuple[str, ...] = ()
    minutes: float = 10.0


@dataclass(frozen=True, slots=True)
class TeamTrial:
    """A trial that ended; `trouble` says why it could not be judged. Cost in US dollars, None where nobody said."""

    folder: Path
    trouble: str
    total: float
    verdict: str
    usage: Usage | None
    cost: float | None
    seconds: float


class TeamTrials:
    """The trials of a run.

    Args:
        folder: Where they are kept.
        program: How a team is run and judged.
        safe: Returns a record as it may be stored, without secrets.
    """

    def __init__(self, folder: Path, program: TeamProgram, safe: Callable[[Trace], Trace]) -> None:
        self._folder, self._program, self._safe = folder, program, safe

    def found(self, name: str) -> TeamTrial | None:
        """Return the trial of that name that was judged."""
        trials = (_result(folder) for folder in self._begun(name))
        return next((trial for trial in trials if trial is not None and not trial.trouble), None)

    def broken_off(self, name: str) -> int:
        """Return how many trials of that name a kill ended: they may have been paid for."""
        left = (folder for folder in self._begun(name) if _result(folder) is None)
        return sum(not _ended(folder) and not _alive(folder) for folder in left)

    async def run(self, task: Path, rules: str, name: str) -> TeamTrial:
        """Return the trial of that name; it may have ended in trouble.

        Args:
            task: The folder with `repository`, `task.md` and, for tests that nobody is shown, `hidden`.
            rules: What the team is given to read.
            name: A name for file systems, the same for the same trial.

        Raises:
            UsageError: The program cannot be started.
            RunError: The tests cannot be run; the next process judges the trial without running it again.
        """
        left = [one for one in self._begun(name) if _result(one) is None and (_ended(one) or _alive(one))]
        left = [one for one in left if _ended(one) not in _NEVER_BEGAN]  # the run ended beside it: it may be mended now
        folder, process = (left[-1], None) if left else await self._start(task, rules, name)
        if not _ended(folder):
            await self._wait(folder, process)
        return await asyncio.to_thread(self._judge, folder, task)

    def _begun(self, name: str) -> list[Path]:
        found = [path for path in self._folder.glob(f"{name}-*") if (path / "pid").exists()]
        return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))

    async def _start(self, task: Path, rules: str, name: str) -> tuple[Path, asyncio.subprocess.Process]:
        folder = self._folder / f"{name}-{len(self._begun(name)) + 1}"
        await asyncio.to_thread(_lay, folder, task, rules)
        words = words_of(self._program.command, folder)
        with (folder / "log.txt").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                "sh", "-c", _NOTED, str(folder), *words,
                cwd=folder / "repository", env=_environment(folder), start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        return folder, process

    async def _wait(self, folder: Path, process: asyncio.subprocess.Process | None) -> None:
        """Wait for the end of a program, ours or one that outlived its process; whatever it left at work ends too."""
        began = time.time() if process is not None else (folder / "pid").stat().st_mtime
        ended = None if process is None else asyncio.ensure_future(process.wait())
        group = None if process is None else process.pid
        try:
            while _alive(folder) if ended is None else not ended.done():
                if time.time() - began > 60 * self._program.minutes:
                    write_whole(folder / "exit", _STOPPED)
                    break
                await (asyncio.sleep(_LOOK) if ended is None else asyncio.wait([ended], timeout=_LOOK))
        finally:
            with suppress(OSError, ValueError):
                os.killpg(group or int((folder / "pid").read_text(encoding="utf-8")), signal.SIGKILL)
            if ended is not None:
                await ended

    def _judge(self, folder: Path, task: Path) -> TeamTrial:
        """Judge a trial that ended, and write its record and then its result."""
        code = _ended(folder)
        if code in _NEVER_BEGAN:
            said = _said(folder)
            shutil.rmtree(folder)
            raise UsageError(f"The team's program cannot be started: {said}", hint="Look at environment.program.")
        trouble = "" if code in {"0", _STOPPED} else f"the program ended with {code or 'a kill'}: {_said(folder)}"
        total, verdict = 0.0, ""
        usage, cost = _taken(folder)
        if not trouble:
            try:
                score, record = self._scored(folder, task)
            except UsageError as error:
                trouble = error.message
            else:
                total = score.total
                verdict = _verdict(score, cost, record, code == _STOPPED)
                write_whole(folder / RECORD, "".join(to_jsonl([record])))
        ended = (folder / "exit" if code else folder / "log.txt").stat().st_mtime
        seconds = max(0.0, ended - (folder / "pid").stat().st_mtime)
        found = TeamTrial(folder, trouble, total, verdict, usage, cost, seconds)
        rows = {"trouble": trouble, "total": total, "verdict": verdict, "cost": cost, "seconds": round(seconds, 3)}
        used = None if usage is None else [usage.prompt, usage.completion, usage.cached]
        write_whole(folder / "result.json", json.dumps({**rows, "usage": used}, ensure_ascii=False))
        return found

    def _scored(self, folder: Path, task: Path) -> tuple[TeamScore, Trace]:
        """Return the score and the record. Raises `UsageError` where the team left no state that can be read."""
        names = sorted(path.parent.name for path in (folder / "state").glob("teams/*/config.json"))
        if len(names) != 1:
            left = f"state of {len(names)} teams" if names else "no state of a team"
            raise UsageError(f"the program left {left} in CLAWTEAM_DATA_DIR: {_said(folder)}")
        state, repository = read_state(folder / "state", names[0]), folder / "repository"
        if not (repository / ".git").exists():  # git would read the one that the run lies in
            raise UsageError(f"it left no repository: {_said(folder)}")
        start = json.loads((folder / "start.json").read_text(encoding="utf-8"))
        try:
            history = read_history(repository, names[0], state.lead, base=start["base"], since=start["commit"])
        except RunError as error:
            raise UsageError(f"the history cannot be read: {error.message}") from error
        program, hidden = self._program, task / "hidden"
        beside = hidden if hidden.is_dir() else None
        if program.test is None:
            outcomes = check_commit(repository, start["base"], beside=beside)
        else:
            outcomes = check_by(repository, start["base"], program.test, program.junit, beside=beside)
        tests = {name: not error for name, error in outcomes.items()}
        score = score_run(state, history, tests, roles=_roles(state, program.testers))
        trace = team_trace(state, history, score, tests, name=task.name)
        return score, self._safe(trace)


def _lay(folder: Path, task: Path, rules: str) -> None:
    """Lay out what a trial begins with: a copy of the repository as committed, with what is installed in it."""
    shutil.rmtree(folder, ignore_errors=True)  # of a process that ended before the program began
    (folder / "state").mkdir(parents=True)
    source, copy = (task / "repository").resolve(), folder / "repository"
    git(folder, "clone", "-q", str(source), str(copy))
    git(copy, "remote", "remove", "origin")  # nothing that a team pushes comes back to the tasks
    base = git(copy, "rev-parse", "--abbrev-ref", "HEAD").strip()
    if base == "HEAD":
        base = "main"
        git(copy, "checkout", "-q", "-b", base)
    listed = git(source, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    for name in filter(None, listed.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            shutil.copytree(source / name, copy / name, symlinks=True)
        else:
            shutil.copy2(source / name, copy / name, follow_symlinks=False)
    install_trailer(copy)
    start = {"base": base, "commit": git(copy, "rev-parse", "HEAD").strip()}
    write_whole(folder / "start.json", json.dumps(start))
    shutil.copyfile(task / "task.md", folder / "task.md")
    write_whole(folder / "rules.md", rules)
    if (real := shutil.which("clawteam")) is not None:
        install_shim(folder / "bin", Path(real), folder / "state")


def words_of(command: str, folder: Path) -> list[str]:
    """Return the words of a team's program; a file of this folder is named whole, for it starts in another.

    Raises:
        UsageError: It cannot be cut into words, or there are none.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"environment.program cannot be read: {error}", hint="Close its quotes.") from error
    if not words:
        raise UsageError("environment.program names no program.")
    places = {"rules": "rules.md", "task": "task.md", "repository": "repository", "state": "state"}
    for at, word in enumerate(words):
        if (at or "/" in word) and Path(word).is_file():
            words[at] = str(Path(word).absolute())
        for name, place in places.items():
            words[at] = words[at].replace(f"{{{name}}}", str(folder / place))
    return words


def _environment(folder: Path) -> dict[str, str]:
    found = inherited() | {"CLAWTEAM_DATA_DIR": str(folder / "state")}
    found |= {f"COMBEE_{name.upper()}": str(folder / f"{name}.md") for name in ("rules", "task")}
    found["GIT_CEILING_DIRECTORIES"] = str(folder)  # a team that loses its repository finds no other above it
    found["COMBEE_COST"] = str(folder / "cost.jsonl")
    if (folder / "bin").is_dir():
        found["PATH"] = f"{folder / 'bin'}{os.pathsep}{found.get('PATH', '')}"
    return found


def _ended(folder: Path) -> str:
    """Return how a program ended: its exit code, or that it was stopped; empty where it did not."""
    try:
        return (folder / "exit").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _alive(folder: Path) -> bool:
    """Whether the program of a trial is at work. Its number may be another program's by now."""
    try:
        pid = int((folder / "pid").read_text(encoding="utf-8"))
        os.kill(pid, 0)
        line = Path(f"/proc/{pid}/cmdline")
        return not Path("/proc/self").exists() or str(folder).encode() in line.read_bytes()
    except (OSError, ValueError):
        return False


def _result(folder: Path) -> TeamTrial | None:
    try:
        row: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        usage = None if row["usage"] is None else Usage(*row["usage"])
        return TeamTrial(folder, row["trouble"], row["total"], row["verdict"], usage, row["cost"], row["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _said(folder: Path) -> str:
    return (folder / "log.txt").read_text(encoding="utf-8", errors="replace").strip()[-_SHOWN:]


def _verdict(score: TeamScore, cost: float | None, record: Trace, stopped: bool) -> str:
    parts = [f"{part} {getattr(score, part):.2f}" for part in WEIGHTS]
    parts += [] if cost is None else [f"${cost:.4f}"]
    parts += ["stopped"] if stopped else []
    reasons = record.outcome.detail if record.outcome is not None else ""
    return f"{score.total:.2f} ({', '.join(parts)}){': ' if reasons else ''}{reasons[:_SHOWN]}"


def _roles(state: TeamState, testers: tuple[str, ...]) -> Roles:
    workers = tuple(name for name in state.members if name != state.lead)
    if not workers:  # a lead that works alone
        return Roles(())
    if not testers:
        return roles_of(state)
    return Roles(tuple(name for name in workers if name not in testers), testers)


def _taken(folder: Path) -> tuple[Usage | None, float | None]:
    """Return what the program says that it took, in a line of JSON for each part, such as `claude -p` prints."""
    dollars: list[float] = []
    tokens: list[tuple[int, int, int]] = []
    for row in _rows(folder / "cost.jsonl"):
        dollars += [cost for key in ("dollars", "total_cost_usd") if (cost := _number(row.get(key))) is not None]
        used = row.get("usage", row)
        if isinstance(used, dict) and "input_tokens" in used:
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
            read, cached, written, replied = (int(_number(used.get(name)) or 0) for name in names)
            tokens.append((read + cached + written, replied, cached))
    read, replied, cached = (sum(one[at] for one in tokens) for at in range(3))
    usage = Usage(read, replied, cached) if tokens else None
    return usage, sum(dollars) if dollars else None


def _rows(path: Path) -> Iterator[dict[str, object]]:
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if (row := json_object(line)) is not None:
                yield row


def _number(value: object) -> float | None:
    fine = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    return float(value) if fine else None  # type: ignore[arg-type]
