"""A function of the user's as the agent: `(question, playbook) -> answer`, plain or async, in whatever framework.

It replaces the generator; a model, or the embedded agent where answers are labels, reflects on what it did.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, cast

from combee.errors import CallError, CallErrorKind, CombeeError, UsageError
from combee.kernel.journal import Scope
from combee.kernel.learn import Rollout, Task
from combee.kernel.playbook import Playbook

Answer = str | tuple[str, Iterable[str]]
"""The answer, or the answer and the ids of the bullets that were used: those get votes."""


class AgentFunction(Protocol):
    r"""A function of yours as the agent: `(question, playbook) -> answer`, plain or async.

    A plain one is called from several threads at once, as many as the setting `concurrency` says; an async one in the
    event loop of the run. What it raises is a failure outside the task: the task is tried again, never scored as wrong.

    Example:
        >>> def agent(question, playbook):
        ...     prompt = f"{playbook}\n\n{question}"  # `str(playbook)` is what a prompt takes
        ...     return "the answer", [bullet.id for bullet in playbook][:1]  # or the answer alone
    """

    def __call__(self, question: str, playbook: Playbook, /) -> Answer | Awaitable[Answer]:
        """Return the answer as text; or with the ids of the bullets that were used, which get votes for it."""
        ...


def name_of(function: Callable[..., object]) -> str:
    """Return `module:function`, by which a later process can import it where it is a module's own."""
    qualified = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', type(function).__module__)}:{qualified}"


class FunctionAgent:
    """Calls the function for each task: an async one in the loop, a plain one in a thread of its own.

    Args:
        name: What tells it from others in the journal of a run.
        function: The function.
        at_once: Threads at most.

    Raises:
        UsageError: The function does not take a question and a playbook.
    """

    def __init__(self, name: str, function: AgentFunction, at_once: int) -> None:
        _check_arguments(name, function)
        self.fingerprint = name
        self._function = function
        self._at_once = at_once
        self._threads: ThreadPoolExecutor | None = None

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Return its answer.

        Raises:
            CallError: It raised something: the task is tried again, never scored and never reflected upon.
            UsageError: It returned no text, or raised a `UsageError` itself.
        """
        try:
            value = await self._called(task.question, playbook)
        except CombeeError:
            raise
        except Exception as error:  # the function is the user's: whatever comes out of it
            said = f"{self.fingerprint} raised {type(error).__name__}: {error} ({_where(error)})"
            raise CallError(said, kind=CallErrorKind.AGENT) from error
        answer, used = cast("tuple[object, Iterable[str]]", value if isinstance(value, tuple) else (value, ()))
        if not isinstance(answer, str):
            raise UsageError(
                f"{self.fingerprint} returned {type(answer).__name__} for task {task.id}.",
                hint="Return the answer as text, or (text, ids of the bullets that were used).",
            )
        return Rollout(task.id, answer, tuple(map(str, used)))

    async def _called(self, question: str, playbook: Playbook) -> object:
        if inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(type(self._function).__call__):
            return await cast("Awaitable[object]", self._function(question, playbook))
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._at_once, thread_name_prefix="combee-agent")
        call = contextvars.copy_context().run
        value = await asyncio.get_running_loop().run_in_executor(
            self._threads, call, self._function, question, playbook
        )
        return await value if inspect.isawaitable(value) else value

    def close(self) -> None:
        """Let the threads end; they are made anew when they are needed."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None


def _where(error: Exception) -> str:
    """Return the file and line where something was raised: the last of the user's own, not of a library below it."""
    frames = traceback.extract_tb(error.__traceback__)
    below = {"site-packages", "asyncio", "concurrent"}
    own = [frame for frame in frames if below.isdisjoint(Path(frame.filename).parts)]
    frame = (own or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


def _check_arguments(name: str, function: Callable[..., object]) -> None:
    """Refuse at once what could not be called: else each task would be tried again and again."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some callables of compiled modules do not tell
        return
    try:
        signature.bind("", Playbook())
    except TypeError as error:
        raise UsageError(
            f"{name}{signature} cannot be called with a question and a playbook: {error}.",
            hint="Give a function (question, playbook) -> answer.",
        ) from None
