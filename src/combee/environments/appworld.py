"""AppWorld (arXiv 2407.18901) over HTTP: a model acts by code blocks (ReAct), the world's own tests give the verdict.

AppWorld's package needs an older pydantic, so its server (`appworld serve environment`) runs in an environment of its
own. One server holds one world: as many tasks are done at once as servers are named. Each reply of the model is kept by
itself; after a kill its code is run again in a fresh world, and only the replies that are missing are bought.
"""

from __future__ import annotations

import asyncio
import json
import re
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from combee.environments.acting import TARGET, ReadingReflector, Verdicts, acting, folder_of
from combee.errors import CallError, CallErrorKind, UsageError
from combee.export import scored_text
from combee.files import write_whole
from combee.kernel.journal import JSON, Scope, hash_json
from combee.kernel.learn import Evaluation, Rollout, Task
from combee.kernel.playbook import Playbook, digest
from combee.model import Message, Models, Request
from combee.model.operations import find_ids
from combee.redaction import Outcome, Redactor, Step, ToolCall, Trace, to_jsonl, trace_id
from combee.run.environments import Looked
from combee.run.settings import Settings
from combee.run.settings_tables import EnvironmentTable
from combee.run.spec import Agent
from combee.tasks import TaskSet
from combee.traces.mining import safe

if TYPE_CHECKING:
    import aiohttp

__all__ = ["AppWorld", "AppWorldAgent"]

_ROUTES = ("/initialize", "/execute", "/task_completed", "/evaluate", "/close")
_FILES = {"train": ("train",), "val": ("dev", "val"), "test": ("test_normal", "test")}
_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_SHOWN = 12_000  # characters of one output
_NO_CODE = "There was no block of code in your message. Write exactly one, between ```python and ```."
_DATA = "Where the server runs: `appworld install`, then `appworld download data`; start it in that folder."
_SECONDS = 300.0  # of one request; the world itself ends a block after 100


class AppWorld:
    """Tasks of AppWorld; `tasks.source` is a file of task ids, or the folder `data/datasets` of AppWorld itself."""

    keys = frozenset({"kind", "url", "turns", "dollars", "minutes"})

    def tasks(self, spec: Settings, *, whole: bool) -> TaskSet:
        """Return the tasks, with the instructions that a server gives.

        Raises:
            UsageError: There are no ids, no server answers, or it has no data.
        """
        parts = _ids(spec, whole=whole)
        url = _urls(spec.environment)[0]
        made = {name: tuple(Task(one, _instruction(url, one), TARGET) for one in ids) for name, ids in parts.items()}
        about = ", ".join(f"{len(one)} {name}" for name, one in made.items() if one)
        train, val, test = (made[name] for name in _FILES)
        return TaskSet("appworld", "appworld", train, val, test, Verdicts(), about=f"AppWorld tasks: {about}")

    def agent(self, spec: Settings, agent: Agent) -> Agent:
        """Return the agent that acts in AppWorld. Raises `UsageError` where no model or no server is named."""
        if agent.models is None:
            hint = "Give --model NAME: the generator's model acts, the reflector's and the curator's learn."
            raise UsageError("In AppWorld a model acts, and none is named.", hint=hint)
        _urls(spec.environment)
        made, models = acting(spec.over({"tasks": {"shown": "runs"}}), agent)
        return replace(made, name="appworld", generator=AppWorldAgent(spec, models, made.reflector))

    def summary(self, tasks: Sequence[Task], found: Evaluation) -> list[str]:
        """Return task and scenario goal completion in per cent, over all tasks and by difficulty."""
        verdicts = {task.id: found.rollouts[task.id].answer for task in tasks if task.id in found.scores}
        lines = [_completion("all tasks", verdicts)]
        for level in (1, 2, 3):
            some = {name: said for name, said in verdicts.items() if f"difficulty {level}" in said}
            lines += [_completion(f"difficulty {level}", some)] if some else []
        return lines if verdicts else []

    def look(self, spec: Settings) -> list[Looked]:
        """Look at each server: does it answer, as AppWorld's, and has it data?"""
        return [one for url in _urls(spec.environment) for one in _look(url)]


def _urls(table: EnvironmentTable) -> list[str]:
    if not table.url:
        hint = 'Start `appworld serve environment --port 9000` and set environment.url = ["http://localhost:9000"].'
        raise UsageError("No AppWorld server is named.", hint=hint)
    return [url.rstrip("/") for url in table.url]


def _ids(spec: Settings, *, whole: bool) -> dict[str, list[str]]:
    """Return the ids of each split. A single file is all train, or all test where it is scored whole."""
    table = spec.tasks
    source = Path(table.source or "data/datasets")
    if source.is_dir():
        found = {name: _lines(source, names) for name, names in _FILES.items()}
    elif source.is_file():
        found = {name: [] for name in _FILES} | {"test" if whole else "train": _read_ids(source)}
    else:
        hint = "Name AppWorld's folder data/datasets as source, or a file of task ids."
        raise UsageError(f"AppWorld's task ids cannot be read: {source} is not there.", hint=hint)
    sizes = dict(zip(_FILES, (table.train, table.val, table.test), strict=True))
    cut = {name: ids[: sizes[name]] for name, ids in found.items()}
    if not any(cut.values()):
        raise UsageError(f"{source} holds no task ids.", hint="A file has one id a line, such as 82e2fac_1.")
    return cut


def _lines(folder: Path, names: Sequence[str]) -> list[str]:
    return next((_read_ids(folder / f"{name}.txt") for name in names if (folder / f"{name}.txt").is_file()), [])


def _read_ids(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(dict.fromkeys(line.split("@")[0].strip() for line in lines if line.strip()))


def _get(url: str) -> Any:
    """Return what a server answers. Raises `OSError`, of which `HTTPError` is one, and `ValueError`."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no http address")
    with urllib.request.urlopen(url, timeout=60) as reply:  # noqa: S310 - the scheme was looked at
        return json.load(reply)


def _instruction(url: str, task: str) -> str:
    try:
        return str(_get(f"{url}/tasks/{task}")["output"]["instruction"])
    except urllib.error.HTTPError as error:
        said = f"The AppWorld server at {url} answers {error.code} for task {task}: it has no data, or not this task."
        raise UsageError(said, hint=f"{_DATA} `combee doctor --appworld {url}` says what is missing.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = f"Start it: `appworld serve environment`. `combee doctor --appworld {url}` looks closer."
        raise UsageError(f"No AppWorld server answers at {url}: {error}", hint=hint) from error


def _look(url: str) -> list[Looked]:
    try:
        paths = _get(f"{url}/openapi.json")["paths"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        fix = "In a Python environment of its own: pip install appworld, then `appworld serve environment`."
        return [Looked("appworld", ok=False, found=f"no server answers at {url}: {error}", fix=fix)]
    missing = [route for route in _ROUTES if route not in paths]
    if missing:
        fix = "It is another server: `appworld serve environment`, not `serve apis`."
        return [Looked("appworld", ok=False, found=f"{url} has no {', '.join(missing)}", fix=fix)]
    found = [Looked("appworld", ok=True, found=f"a server answers at {url}, with all that is needed")]
    try:
        apps = _get(f"{url}/api_docs")
        return [*found, Looked("data", ok=True, found=f"{len(apps)} apps")]
    except (OSError, ValueError, TypeError) as error:
        return [*found, Looked("data", ok=False, found=f"the server cannot read its data ({error})", fix=_DATA)]


def _completion(what: str, verdicts: Mapping[str, str]) -> str:
    scenarios: dict[str, list[bool]] = defaultdict(list)
    for task, said in verdicts.items():
        scenarios[task.rpartition("_")[0]].append(said.startswith("1"))
    passed = [one for all_of in scenarios.values() for one in all_of]
    tasks = 100 * sum(passed) / max(1, len(passed))
    groups = 100 * sum(map(all, scenarios.values())) / max(1, len(scenarios))
    return (
        f"{what} ({len(passed)} in {len(scenarios)} scenarios): TGC {tasks:.1f}, SGC {groups:.1f}, "
        f"mean {(tasks + groups) / 2:.1f}"
    )


class AppWorldAgent:
    """Does a task by code blocks until it is completed or its turns are used up (ReAct, arXiv 2210.03629)."""

    def __init__(self, spec: Settings, models: Models, reflector: object) -> None:
        self.fingerprint = f"appworld {spec.environment.turns}"
        self._models, self._model = models, models.by_role["generator"]
        self._options = models.settings["generator"].options(spec.learn_config().seed)
        self._turns, self._urls = spec.environment.turns, _urls(spec.environment)
        self._redactor: Redactor | None = cast("ReadingReflector", reflector).redactor
        self._session: aiohttp.ClientSession | None = None
        self._free: asyncio.Queue[str] | None = None

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Return the verdict of the world's tests, and where the record of the trial is kept.

        Raises:
            CallError: The model, or the world, did not answer.
        """
        async with self._world(task.id) as world:
            steps = await self._act(task, playbook, scope, world)
            judged = await world("evaluate", suppress_errors=True)
        tests = {str(one["requirement"]): True for one in judged.get("passes", ())}
        tests |= {str(one["requirement"]): False for one in judged.get("failures", ())}
        success, level = bool(judged["success"]), judged.get("difficulty")
        outcome = Outcome(success=success, score=float(success), tests=tests)
        meta = {"task_id": task.id, "difficulty": str(level)}
        name = trace_id(task.question, steps, outcome, scope.address)
        record = Trace(name, task.question, tuple(steps), outcome, task.labels, meta)
        text = "\n".join(step.text for step in steps if step.role == "assistant")
        verdict = f"{int(success)} ({sum(tests.values())} of {len(tests)} tests, difficulty {level})"
        return Rollout(task.id, verdict, find_ids(text, playbook).known, self._kept(record, playbook, scope))

    def _kept(self, record: Trace, playbook: Playbook, scope: Scope) -> str:
        """Write the record, without secrets, and return its place below the folder of the run."""
        folder = folder_of(self._models)
        name = f"{record.meta['task_id']}-{hash_json([scope.address, digest(playbook)])[:12]}.jsonl"
        (folder / "trials").mkdir(parents=True, exist_ok=True)
        write_whole(folder / "trials" / name, "".join(to_jsonl([safe(record, self._redactor)[0]])))
        return f"trials/{name}"

    async def _act(self, task: Task, playbook: Playbook, scope: Scope, world: _Calling) -> list[Step]:
        messages = [Message("system", _opening(playbook)), Message("user", f"The task:\n\n{task.question}")]
        steps = [Step(0, "user", task.question)]
        for turn in range(self._turns):
            try:
                said = await self._say(messages, scope, f"{task.id}/{turn}")
            except CallError as error:
                if error.kind is CallErrorKind.CONTEXT_TOO_LONG:  # the agent filled its window: that is its work
                    break
                raise
            found = _BLOCK.search(said)
            code = found[1] if found else ""
            output = str(await world("execute", code=code)) if code.strip() else _NO_CODE
            call = ToolCall(f"turn-{turn}", "python", code)
            steps.append(Step(len(steps), "assistant", _BLOCK.sub("", said).strip(), (call,)))
            failed = output.startswith("Execution failed") or not code.strip()
            steps.append(Step(len(steps), "tool", _cut(output), answers=call.id, is_error=failed))
            if code.strip() and await world("task_completed"):
                break
            messages += [Message("assistant", said), Message("user", f"Output:\n```\n{_cut(output)}\n```")]
        return steps

    async def _say(self, messages: Sequence[Message], scope: Scope, item: str) -> str:
        """Return the model's next message; one that was paid for is not bought again."""

        async def work() -> JSON:
            request = Request(
                tuple(messages),
                max_tokens=self._options.max_tokens,
                temperature=self._options.temperature,
                seed=self._options.seed,
                role="generator",
                item=item,
                accept_cut=True,
            )
            return (await self._model.complete(request)).text

        inputs: JSON = [[message.role, message.content] for message in messages]
        return str(await scope.once("turn", item, hash_json(inputs), work))

    @asynccontextmanager
    async def _world(self, task: str) -> AsyncGenerator[_Calling]:
        """Yield what calls the world of a task, on a server that is free."""
        import aiohttp

        if self._session is None or self._free is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS))
            self._free = asyncio.Queue()
            for one in self._urls:
                self._free.put_nowait(one)
        free, session = self._free, self._session
        url = await free.get()
        try:
            world = _Calling(session, url, task)
            await world("initialize", experiment_name="combee")
            yield world
            with suppress(CallError):  # the next task has a world of its own
                await world("close")
        finally:
            free.put_nowait(url)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = self._free = None


class _Calling:
    """Calls one world."""

    def __init__(self, session: aiohttp.ClientSession, url: str, task: str) -> None:
        self._session, self._url, self._task = session, url, task

    async def __call__(self, route: str, **more: JSON) -> Any:
        """Return the output of a route. Raises `CallError` where the server did not give one."""
        import aiohttp

        try:
            async with self._session.post(f"{self._url}/{route}", json={"task_id": self._task, **more}) as reply:
                if reply.status != 200:
                    said = f"{reply.status} {(await reply.text())[:200]}"
                    raise CallError(f"AppWorld's /{route} for {self._task}: {said}", kind=CallErrorKind.AGENT)
                return (await reply.json())["output"]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            said = f"AppWorld at {self._url} gave no answer to /{route}: {str(error) or type(error).__name__}"
            raise CallError(said, kind=CallErrorKind.AGENT) from error


def _opening(playbook: Playbook) -> str:
    text = resources.files("combee.environments").joinpath("appworld.md").read_text(encoding="utf-8")
    return f"{text}\n{scored_text(playbook) if len(playbook) else '(no lessons yet)'}"


def _cut(output: str) -> str:
    """Return an output that is not too long, with both of its ends."""
    if len(output) <= _SHOWN:
        return output
    half = _SHOWN // 2
    return f"{output[:half]}\n[... {len(output) - 2 * half:,} characters left out ...]\n{output[-half:]}"
