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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
_MOST_ARGUMENT = 100_000  # characters; the system takes no longer word
_GRACE = 2.0  # seconds that a program has to end when it is told to
_ERRORS = 400  # characters of what a failed program wrote
_OUTAGE = re.compile(r"rate.?limit|usage limit|overloaded|quota|\b(?:429|5\d\d)\b|connection|network", re.IGNORECASE)
"""What a program says where it is not its own fault: the message waits for the next run."""


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
        session = next((str(event[key]) for key in _SESSIONS if event.get(key)), session)
        if isinstance(event.get("calls"), list):  # tools to use, as they stand
            text = json.dumps(event)
            continue
        item = event.get("item")
        said = item if isinstance(item, dict) else event
        if said.get("type") not in {"reasoning", "user", "system", "command_execution", "tool_use", "tool_result"}:
            text = next((value for key in _TEXTS if isinstance(value := said.get(key), str) and value.strip()), text)
        error = _error_of(event) or error
        used = event.get("usage")
        if isinstance(used, dict):
            usage = _usage(used) or usage
        cost = event.get("total_cost_usd", event.get("cost_usd"))
        dollars = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else dollars
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
        if isinstance(used.get(given), int):
            cached = sum(int(used.get(key) or 0) for key in ("cache_read_input_tokens", "cache_creation_input_tokens"))
            return Usage(int(used[given]) + cached, int(used.get(made) or 0))
    return None


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
        finally:
            usage, dollars = (said.usage, said.dollars) if said is not None else (None, None)
            self.budget.settle(held, usage or expected, dollars)
        if said.error or not said.text:
            kind = CallErrorKind.SERVER if _OUTAGE.search(said.error) else CallErrorKind.EMPTY
            raise CallError(f"{command.words[0]}: {said.error or 'it printed no answer'}", kind=kind)
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
    if inline and len(prompt) > _MOST_ARGUMENT:
        raise CallError(
            f"the prompt of {len(prompt):,} characters is too long for the command line of {words[0]}",
            kind=CallErrorKind.CONTEXT_TOO_LONG,
            hint="Leave {prompt} out of the command: then it is given on stdin.",
        )
    try:
        process = await asyncio.create_subprocess_exec(
            *(word.replace(PROMPT, prompt) for word in words),
            cwd=command.folder,
            stdin=asyncio.subprocess.DEVNULL if inline else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # it is killed with all that it started
        )
    except OSError as error:
        raise CallError(f"{words[0]} cannot be started: {error.strerror}", kind=CallErrorKind.BAD_REQUEST) from error
    try:
        async with asyncio.timeout(command.timeout):
            out, wrong = await _spoken(process, None if inline else prompt.encode("utf-8", "replace"))
    except TimeoutError as error:
        why = f"{words[0]} gave no answer in {command.timeout:g} s and was killed"
        raise CallError(why, kind=CallErrorKind.EMPTY) from error
    finally:
        await _ended(process)
    said = printed(out)
    if process.returncode and not said.error:
        last = (wrong.strip() or out.strip())[-_ERRORS:]
        raise CallError(f"{words[0]} ended with code {process.returncode}: {last}", kind=CallErrorKind.EMPTY)
    return said


async def _spoken(process: asyncio.subprocess.Process, prompt: bytes | None) -> tuple[str, str]:
    """Return what a program writes to its end; more than the most is cut off, and the program killed."""

    async def read(stream: asyncio.StreamReader | None) -> bytes:
        parts: list[bytes] = []
        while stream is not None and (part := await stream.read(1 << 16)):
            parts.append(part)
            if sum(map(len, parts)) > _MOST_PRINTED:
                raise CallError(f"it printed more than {_MOST_PRINTED >> 20} MiB", kind=CallErrorKind.LENGTH)
        return b"".join(parts)

    async def give() -> None:
        if process.stdin is not None and prompt is not None:
            with suppress(ConnectionError):  # it answers without reading
                process.stdin.write(prompt)
                await process.stdin.drain()
            process.stdin.close()

    out, wrong, _ = await asyncio.gather(read(process.stdout), read(process.stderr), give())
    await process.wait()
    return out.decode("utf-8", "replace"), wrong.decode("utf-8", "replace")


async def _ended(process: asyncio.subprocess.Process) -> None:
    """See that nothing of a program is left: it is told to end, and killed soon after."""
    for which in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, which)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE)
