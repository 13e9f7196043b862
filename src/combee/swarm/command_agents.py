"""Agents that are programs of the command line: given a prompt, they print an answer (`claude -p`, `codex exec`).

A program that names its session is resumed in it and told only what is new; one that does not is told everything. What
it prints is plain text, one JSON object, or a line of JSON an event; a failure that it states there is one.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from combee.errors import CallError, CallErrorKind
from combee.kernel.journal import hash_json
from combee.model import Budget, Usage
from combee.swarm.agents import Reply, View
from combee.swarm.context import Entry, count
from combee.swarm.endpoint import calls_of, how_to_call, message_of
from combee.swarm.world import World

__all__ = ["Command", "CommandModel", "Printed", "printed"]

PROMPT, SESSION = "{prompt}", "{session}"
_MOST_PRINTED = 8 << 20
_MOST_ARGUMENT = 100_000  # bytes; the system takes no longer word
_MOST_COUNTED = 1 << 40  # tokens or dollars; a program that says more errs
_GRACE = 2.0  # seconds that a program has to end when it is told to, and its output when it has ended
_LOOK = 0.02  # seconds between two looks whether it has ended
_ERRORS = 400  # characters of what a failed program wrote
_OUTAGE = re.compile(r"rate.?limit|usage limit|overloaded|quota|\b(?:429|5\d\d)\b|connection|network", re.IGNORECASE)
"""What a program says where it is not its own fault: the message waits for the next run."""
_SESSION = re.compile(r"[A-Za-z0-9_][\w.:-]{0,199}", re.ASCII)
"""A session becomes a word of a command line, and a model may have written it: no option, and nothing to replace."""
_WATCH = 'read -r _; kill -TERM -"$1"; sleep 2; kill -KILL -"$1"'
"""A shell that ends a program when we are gone, by a kill too: its input, which we hold, ends with us."""


@dataclass(frozen=True, slots=True)
class Command:
    """How a program is called.

    Attributes:
        words: The first call; `{prompt}` stands for the prompt, which else is given on stdin.
        resume: The call that goes on with a session, which `{session}` stands for; empty: each call is told everything.
        folder: Where it works.
        timeout: Seconds until it is killed, with all that it started.
    """

    words: tuple[str, ...]
    resume: tuple[str, ...] = ()
    folder: Path = Path()
    timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program said: its answer, the session, what it took where it says so, and its own word of a failure."""

    text: str
    session: str = ""
    usage: Usage | None = None
    dollars: float | None = None
    error: str = ""


_TEXTS = ("result", "response", "answer", "text", "output", "message", "content")
_SESSIONS = ("session_id", "thread_id", "sessionId", "conversation_id")
_USED = (("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens"))


def printed(output: str) -> Printed:
    """Return what an output says: of JSON what its known fields say, else the text as it stands."""
    events = list(_events(output))
    if not events:
        broken = output.lstrip().startswith('{"')
        return Printed("" if broken else output.strip(), error="it printed broken JSON" if broken else "")
    text, session, error, dollars = "", "", "", None
    usage: Usage | None = None
    for event in events:
        named = next((event[key] for key in _SESSIONS if event.get(key)), session)
        session = named if isinstance(named, str) and _SESSION.fullmatch(named) else session
        if isinstance(event.get("calls"), list):  # tools to use, as they stand
            text = json.dumps(event)
            continue
        item = event.get("item")
        said = item if isinstance(item, dict) else event
        if said.get("type") not in {"reasoning", "user", "system", "command_execution", "tool_use", "tool_result"}:
            text = next((value for key in _TEXTS if isinstance(value := said.get(key), str) and value.strip()), text)
        # A program that found its connection again, and says that it has done its work, has done it.
        error = "" if event.get("type") == "turn.completed" else _error_of(event) or error
        used = event.get("usage")
        if isinstance(used, dict):
            usage = _usage(used) or usage
        cost = _counted(event.get("total_cost_usd", event.get("cost_usd")))
        dollars = dollars if cost is None else float(cost)
    if not (text or session or error or usage) and not any("type" in event for event in events):
        return Printed(output.strip())  # the answer itself is JSON
    return Printed(text.strip(), session, usage, dollars, error)


def _events(output: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of an output that is JSON: one, a list of them, or one a line; nothing where it is not."""
    text = output.strip()
    if text[:1] not in {"{", "["}:
        return
    try:
        whole: Any = json.loads(text)
        found = whole if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError):
        found = []
        for line in text.splitlines():
            with suppress(ValueError, RecursionError):
                found.append(json.loads(line))
    yield from (one for one in found if isinstance(one, dict))


def _error_of(event: Mapping[str, Any]) -> str:
    kind, error = str(event.get("type", "")), event.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    wrong = event.get("is_error") is True or kind in {"error", "turn.failed"} or bool(error)
    if not wrong:
        return ""
    said = error or event.get("message") or event.get("result") or kind
    return str(said)[:_ERRORS]


def _usage(used: Mapping[str, Any]) -> Usage | None:
    for given, made in _USED:
        if _counted(used.get(given)) is not None:
            asked = (given, "cache_read_input_tokens", "cache_creation_input_tokens")
            return Usage(sum(int(_counted(used.get(key)) or 0) for key in asked), int(_counted(used.get(made)) or 0))
    return None


def _counted(value: object) -> float | None:
    """Return a number that may be one of tokens or dollars; None for anything else (below 0, endless, a text)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_COUNTED:
        return None
    return value


@dataclass
class CommandModel:
    """Thinks with a program. `names` says which call belongs to which agent; sessions are kept in the world."""

    world: World
    names: Mapping[str, Command]
    instructions: Mapping[str, str] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    slow: bool = field(default=True, init=False)
    briefed: bool = field(default=True, init=False)

    async def reply(self, view: View) -> Reply:
        """Return what the program prints; an object of tools to use is taken as that.

        Raises:
            CallError: It failed, was killed by its time limit, or printed nothing.
            BudgetError: A limit is used up, and the run ends.
        """
        command = self.names[view.agent.origin]
        shown = [message_of(entry, _names(view.entries)).content for entry in view.entries]
        session, told = self._session(view, shown) if command.resume else ("", 0)
        prompt = "\n\n".join(shown[told:] if session else [self._opening(view), *shown])
        words = command.resume if session else command.words
        expected = Usage(count(prompt), 0, estimated=True)
        held = await self.budget.reserve(expected, 0.0)
        said: Printed | None = None
        try:
            said = await _run(command, [word.replace(SESSION, session) for word in words], prompt)
            if said.error or not said.text:
                raise _failed(words[0], said.error or "it printed no answer")
        except CallError as error:
            if session and error.kind is not CallErrorKind.SERVER:  # it may be gone: the next call begins another
                with self.world.step():
                    self.world.run("DELETE FROM meta WHERE key = ?", _key(view))
            raise
        finally:
            usage, dollars = (said.usage, said.dollars) if said is not None else (None, None)
            self.budget.settle(held, usage or expected, dollars)
        reply = _reply(said)
        self._keep(view, said, [*shown, message_of(Entry("assistant", reply.text, calls=reply.calls), {}).content])
        return reply

    def _opening(self, view: View) -> str:
        text = self.instructions.get(view.agent.role, "") or "You are one of several agents."
        return f"{text}\n\nAnswer in plain text. To use a tool instead: {how_to_call(view.tools)}"

    def _session(self, view: View, shown: Sequence[str]) -> tuple[str, int]:
        """Return the session that an agent goes on with, and how many entries were told there; none after a break."""
        kept = self.world.meta(_key(view))
        session, told, known = json.loads(kept) if kept else ("", 0, "")
        return (session, told) if session and hash_json(list(shown[:told])) == known else ("", 0)

    def _keep(self, view: View, said: Printed, told: list[str]) -> None:
        """Keep the session with what was told in it, and what the program said that it cost."""
        with self.world.step():
            self.world.record("paid", view.agent.origin, dollars=said.dollars)
            if said.session:
                self.world.set_meta(_key(view), json.dumps([said.session, len(told), hash_json(told)]))


def _failed(program: str, why: str) -> CallError:
    """Return the error of a program that failed: what is not its own fault may be tried again."""
    kind = CallErrorKind.SERVER if _OUTAGE.search(why) else CallErrorKind.EMPTY
    return CallError(f"{program}: {why}", kind=kind)


def _names(entries: Sequence[Entry]) -> dict[str, str]:
    return {call.id: call.name for entry in entries for call in entry.calls}


def _key(view: View) -> str:
    return f"session/{view.agent.name}/{view.agent.incarnation}"


def _reply(said: Printed) -> Reply:
    """Return a printed answer; one object `{"text": ..., "calls": [...]}` uses tools."""
    text = said.text.removeprefix("```json").removesuffix("```").strip()
    if text.startswith("{") and '"calls"' in text:
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            if isinstance(value, dict) and isinstance(value.get("calls"), list):
                return Reply(str(value.get("text") or ""), calls_of(value["calls"]), said.usage)
    return Reply(said.text, usage=said.usage)


async def _run(command: Command, words: Sequence[str], prompt: str) -> Printed:
    inline = any(PROMPT in word for word in words)
    if inline and (size := len(prompt.encode("utf-8", "replace"))) > _MOST_ARGUMENT:
        raise CallError(
            f"the prompt of {size:,} bytes is too long for the command line of {words[0]}",
            kind=CallErrorKind.CONTEXT_TOO_LONG,
            hint="Leave {prompt} out of the command: then it is given on stdin.",
        )
    word_of = prompt.replace("\0", "\N{REPLACEMENT CHARACTER}")  # ends a word
    try:
        process = await asyncio.create_subprocess_exec(
            *(word.replace(PROMPT, word_of) for word in words),
            cwd=command.folder,
            stdin=asyncio.subprocess.DEVNULL if inline else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # it is killed with all that it started
        )
    except OSError as error:
        raise CallError(f"{words[0]} cannot be started: {error.strerror}", kind=CallErrorKind.BAD_REQUEST) from error
    try:
        with _watched(process.pid):
            async with asyncio.timeout(command.timeout):
                out, wrong = await _spoken(process, None if inline else prompt.encode("utf-8", "replace"))
    except TimeoutError as error:
        why = f"{words[0]} gave no answer in {command.timeout:g} s and was killed"
        raise CallError(why, kind=CallErrorKind.EMPTY) from error
    finally:
        await _ended(process)
    said = printed(out)
    if process.returncode and not said.error:
        raise _failed(words[0], f"it ended with code {process.returncode}: {(wrong.strip() or out.strip())[-_ERRORS:]}")
    return said


@contextmanager
def _watched(program: int) -> Iterator[None]:
    """See to it that a program ends when we are killed: it would go on with its work, and be paid, beside the next."""
    words = ("/bin/sh", "-c", _WATCH, "sh", str(program))
    nothing = subprocess.DEVNULL
    watch = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True)  # noqa: S603 - our own words
    try:
        yield
    finally:
        watch.kill()
        watch.communicate()


async def _spoken(process: asyncio.subprocess.Process, prompt: bytes | None) -> tuple[str, str]:
    """Return what a program has written when it ends; what it started may hold its output open for longer.

    Raises:
        CallError: It writes more than the most.
    """
    out, wrong = bytearray(), bytearray()
    reading = [asyncio.create_task(_read(process.stdout, out)), asyncio.create_task(_read(process.stderr, wrong))]
    giving = asyncio.create_task(_give(process.stdin, prompt))
    try:
        while not await _is_over(process, _GRACE):
            for task in reading:
                if task.done():
                    task.result()
        await asyncio.wait(reading, timeout=_GRACE)
        for task in reading:
            if task.done():
                task.result()
    finally:
        for task in (*reading, giving):
            task.cancel()
        await asyncio.gather(*reading, giving, return_exceptions=True)
    return out.decode("utf-8", "replace"), wrong.decode("utf-8", "replace")


async def _read(stream: asyncio.StreamReader | None, into: bytearray) -> None:
    while stream is not None and (part := await stream.read(1 << 16)):
        into += part
        if len(into) > _MOST_PRINTED:
            raise CallError(f"it printed more than {_MOST_PRINTED >> 20} MiB", kind=CallErrorKind.LENGTH)


async def _give(stdin: asyncio.StreamWriter | None, prompt: bytes | None) -> None:
    if stdin is not None and prompt is not None:
        with suppress(ConnectionError):  # it answers without reading
            stdin.write(prompt)
            await stdin.drain()
        stdin.close()


async def _is_over(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Return whether a program ends within a time; `wait` would also wait for those that hold its output."""
    until = time.monotonic() + seconds
    while process.returncode is None and time.monotonic() < until:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(_LOOK)
    return process.returncode is not None


async def _ended(process: asyncio.subprocess.Process) -> None:
    """See that nothing of a program is left, nor of what it started: it is told to end, and killed soon after."""
    for which in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):  # none of them is left
            os.killpg(process.pid, which)
        await _is_over(process, _GRACE)
    process._transport.close()  # type: ignore[attr-defined]  # what fled may hold its output for ever
