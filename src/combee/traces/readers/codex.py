"""Codex: rollouts (JSON lines `{timestamp, type, payload}`, and the older form of bare items), `codex exec --json`.

What user and agent say is recorded twice (`event_msg` and `response_item`); it is read once, as the item where there
is one. Turns that were rolled back are left out, and so is what a fork copied from a session that was read. A command
that went on in the background (`write_stdin`, a cell and its `wait`) ends where its last output stands.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from combee.redaction import ToolCall, Trace
from combee.traces.readers.draft import TraceDraft, claim
from combee.traces.readers.messages import Piece, call_of, content_text, pieces, role_of
from combee.traces.readers.source import Source
from combee.traces.readers.values import compact, flag, number, objects, rows, table, text, when

_KINDS = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_ITEMS = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "local_shell_call", "custom_tool_call",
     "custom_tool_call_output", "web_search_call"}
)  # fmt: skip
_SPOKEN = {"user_message": "user", "agent_message": "assistant"}
_CONTEXT = ("<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md instructions",
            "<turn_aborted>", "<skill")  # fmt: skip
_TROUBLE = {"error": "message", "stream_error": "message", "turn_aborted": "reason"}
_ROLLED_BACK = "event:thread_rolled_back"
_GOES_ON = re.compile(
    r"(?:\A|\n)(?:Script running with cell ID|Process running with session ID|Command running in session)"
    r"[ :]+([\w-]{1,64})"
)
_HEAD = re.compile(
    r"\A(?:Chunk ID: \S+\n|Script (?:completed|failed)\n|Script running with cell ID \S+\n|"
    r"Process (?:exited with code -?\d+|running with session ID \S+)\n|Wall time:? [\d.]+ seconds\n|"
    r"Original token count: \d+\n|Total output lines: \d+\n)+Output:\n?"
)
_EXITED = re.compile(r"^Process exited with code (-?\d+)$", re.MULTILINE)
_CODE = re.compile(r"\"exit_code\"\s*:\s*(-?\d+)")
_NESTED = re.compile(
    r"\bexec_command\(\s*\{[^{}]*?\bcmd\s*:\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)"
)
_BY_SHELL = re.compile(r"(?:/\S*/)?(?:ba|z|da)?sh -l?c\b")
_CONTINUE = frozenset({"write_stdin", "wait"})


@dataclass(slots=True)
class _Event:
    line: int
    time: str | None
    kind: str
    payload: dict[str, object]


@dataclass(slots=True)
class _Running:
    """Commands that went on after their first output: by session or cell, the call that started them."""

    started: dict[str, str] = field(default_factory=dict)
    polls: dict[str, str] = field(default_factory=dict)
    """Id of a call that only asks for more output, and the call that it belongs to."""


class CodexReader:
    """Reads one session a file."""

    name = "codex"
    fields = ("timestamp", "type", "payload")

    def sniff(self, source: Source) -> float:
        """Look for typed payloads, or for the head line of the older form."""
        records = [table(value) for value in source.first]
        if any(text(value.get("type")) in _KINDS and isinstance(value.get("payload"), dict) for value in records):
            return 1.0
        head = records[0] if records else {}
        old = "id" in head and "timestamp" in head and ("instructions" in head or "git" in head)
        return 0.9 if old and any(text(value.get("type")) in _ITEMS for value in records[1:]) else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the session."""
        events = _without_copies(source, _without_void_turns(list(_events(source))))
        start = _own_start(events)
        spoken = Counter(_said(event) for event in events if event.kind == "message")
        draft, running = TraceDraft(source), _Running()
        thought = any(event.kind == "reasoning" for event in events)
        task: str | None = None
        for event in events:
            if event.kind == "session_meta":
                _identify(draft, event.payload)
            elif event.kind == "turn_context":
                draft.meta.setdefault("model", text(event.payload.get("model")))
            if number(event.payload.get("ordinal")) is not None and (number(event.payload["ordinal"]) or 0) < start:
                continue
            for piece in _pieces(event, spoken, thought):
                if not _joined(draft, piece, running):
                    draft.add(piece, timestamp=event.time, line=event.line)
                if task is None and piece.role == "user":
                    task = piece.text
        yield from draft.trace(task=task)


def _events(source: Source) -> Iterator[_Event]:
    for line, value in source.records():
        record = table(value)
        kind = text(record.get("type"))
        payload = record.get("payload")
        time = when(record.get("timestamp"))
        if isinstance(payload, dict):
            inner = text(payload.get("type"))
            named = kind if kind in {"session_meta", "turn_context", "compacted"} else inner
            event = _Event(line, time, named if kind != "event_msg" else f"event:{inner}", payload)
            if record.get("ordinal") is not None:
                event.payload = {**payload, "ordinal": record["ordinal"]}
            yield event
        elif kind in _ITEMS:
            yield _Event(line, time, kind, record)
        elif "instructions" in record or "git" in record:
            yield _Event(line, time, "session_meta", record)
        elif "record_type" not in record:
            source.skip(f"not a line of a rollout (type {kind or 'missing'})"[:120], line)


def _is_turn(event: _Event) -> bool:
    """Whether an event begins a turn: the user speaks, as an item or as the event beside it."""
    if event.kind == "event:user_message":
        return True
    role, said = _said(event) if event.kind == "message" else ("", "")
    return role == "user" and bool(said) and not said.lstrip().startswith(_CONTEXT)


def _without_void_turns(events: list[_Event]) -> list[_Event]:
    """Return the events without the turns that a rollback took back: each from its user's message on."""
    kept: list[_Event] = []
    turns: list[int] = []  # where in `kept` each turn begins
    for event in events:
        if event.kind == _ROLLED_BACK:
            gone = min(int(number(event.payload.get("num_turns")) or 0), len(turns))
            if gone:
                kept = [*kept[: turns[-gone]], *(each for each in kept[turns[-gone] :] if each.kind == "turn_context")]
                del turns[-gone:]
        elif _is_turn(event):
            # the item and the event of one message stand side by side
            twin = bool(turns) and all(
                each.kind in {"turn_context", "event:token_count"} for each in kept[turns[-1] + 1 :]
            )
            if not (twin and kept[turns[-1]].kind != event.kind):
                turns.append(len(kept))
            kept.append(event)
        else:
            kept.append(event)
    return kept


def _without_copies(source: Source, events: list[_Event]) -> list[_Event]:
    """Return the events without those that another session, of which this one is a fork, has had already."""
    session = next((text(event.payload.get("id")) for event in events if event.kind == "session_meta"), "")
    last = -1
    for at, event in enumerate(events):
        name = text(event.payload.get("call_id")) if event.kind in {"function_call", "custom_tool_call"} else ""
        if name and not source.report.is_new(session or source.name, f"codex {name}"):
            last = at
    if last < 0:
        return events
    source.note("what a fork copied from another session is read once")
    copied = {text(event.payload.get("call_id")) for event in events[: last + 1]} - {""}
    rest = [event for event in events[last + 1 :] if text(event.payload.get("call_id")) not in copied]
    return [event for event in events[: last + 1] if event.kind in {"session_meta", "turn_context"}] + rest


def _own_start(events: list[_Event]) -> float:
    """Return the ordinal at which a sub-agent's own history starts; before it stands a copy of its parent's."""
    for event in events:
        if event.kind == "session_meta":
            return number(event.payload.get("subagent_history_start_ordinal")) or 0.0
    return 0.0


def _identify(draft: TraceDraft, payload: dict[str, object]) -> None:
    spawn = table(table(table(payload.get("source")).get("subagent")).get("thread_spawn"))
    found = {
        "agent": "codex",
        "session": text(payload.get("id")),
        "version": text(payload.get("cli_version")),
        "parent": text(spawn.get("parent_thread_id")),
    }
    for key, value in found.items():
        draft.meta.setdefault(key, value)


def _said(event: _Event) -> tuple[str, str]:
    return role_of(event.payload.get("role")), content_text(event.payload.get("content")).strip()


def _pieces(event: _Event, spoken: Counter[tuple[str, str]], thought: bool) -> list[Piece]:
    payload, kind = event.payload, event.kind
    if kind.startswith("event:"):
        return _from_event(kind.removeprefix("event:"), payload, spoken, thought)
    if kind == "message":
        found = pieces(payload)
        for piece in found:
            if piece.role == "user" and piece.text.lstrip().startswith(_CONTEXT):
                piece.role = "system"
        return found
    if kind == "reasoning":
        thinking = content_text(payload.get("summary")).strip()
        return [Piece("assistant", f"[thinking] {thinking}")] if thinking else []
    if kind in {"function_call", "custom_tool_call"}:
        return [Piece("assistant", calls=(_call(payload),))]
    if kind == "local_shell_call":
        action = table(payload.get("action"))
        call = ToolCall(
            text(payload.get("call_id")) or text(payload.get("id")), "shell", compact(action.get("command"))
        )
        return [Piece("assistant", calls=(call,))]
    if kind == "web_search_call":
        call = ToolCall(text(payload.get("id")), "web_search", compact(payload.get("action")))
        return [Piece("assistant", calls=(call,))]
    if kind in {"function_call_output", "custom_tool_call_output"}:
        said, failed = _output(payload.get("output"))
        return [Piece("tool", said, answers=text(payload.get("call_id")) or None, is_error=failed)]
    if kind == "compacted":
        return [Piece("system", f"[compacted] {text(payload.get('message'))}")]
    return []


def _call(payload: dict[str, object]) -> ToolCall:
    """Return a call; a cell whose code runs exactly one command is that command."""
    call = call_of(payload)
    nested = _NESTED.findall(call.arguments) if call.name.rpartition(".")[2] == "exec" else []
    if len(nested) != 1 or call.arguments.count("tools.") > 1:
        return call
    quote, inner = nested[0][0], nested[0][1:-1]
    try:
        command = json.loads(nested[0]) if quote == '"' else inner.replace(f"\\{quote}", quote)
    except ValueError:
        return call
    return ToolCall(call.id, "exec_command", compact({"cmd": command}))


def _from_event(kind: str, payload: dict[str, object], spoken: Counter[tuple[str, str]], thought: bool) -> list[Piece]:
    if kind in _SPOKEN:
        key = (_SPOKEN[kind], text(payload.get("message")).strip())
        if spoken[key] > 0:
            spoken[key] -= 1
            return []
        return [Piece(role_of(key[0]), key[1])]
    if kind == "agent_reasoning" and not thought:
        return [Piece("assistant", f"[thinking] {text(payload.get('text'))}")]
    if kind in _TROUBLE:
        return [Piece("system", f"[{kind.replace('_', ' ')}] {text(payload.get(_TROUBLE[kind]))}")]
    return []


def _joined(draft: TraceDraft, piece: Piece, running: _Running) -> bool:
    """Add what a command printed later to the result of the call that started it; return whether that was it."""
    for call in piece.calls:
        if call.name.rpartition(".")[2] in _CONTINUE:
            given = table(_loaded(call.arguments))
            name = text(given.get("session_id")) or text(given.get("cell_id"))
            if name in running.started and not text(given.get("chars")).strip():
                running.polls[call.id] = running.started[name]
                return True
    if piece.answers is None:
        return False
    goes_on = _GOES_ON.search(piece.text[:400])
    first = running.polls.get(piece.answers)
    if first is None:
        if goes_on:
            running.started[goes_on[1]] = piece.answers
        piece.text = _body(piece.text)
        return False
    at = next((at for at, step in enumerate(draft.steps) if step.answers == first), None)
    if at is None:
        return False
    step = draft.steps[at]
    draft.steps[at] = replace(step, text=step.text + _body(piece.text), is_error=None if goes_on else piece.is_error)
    return True


def _body(said: str) -> str:
    """Return what was printed, without the lines that Codex puts before it; they stay where nothing was."""
    head = _HEAD.match(said)
    code = None if head is None else _EXITED.search(head[0])
    if head is None:
        return said
    return said[head.end() :] + (f"\nProcess exited with code {code[1]}" if code else "")


def _loaded(value: object) -> object:
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _output(value: object) -> tuple[str, bool | None]:
    """Return an output's text and whether it failed; it is a text, an object, a list, or an object written as text."""
    parsed = table(_loaded(value))
    if isinstance(parsed.get("output"), str):
        value = parsed
    record = table(value)
    if not record:
        said = value if isinstance(value, str) else content_text(rows(value))
        return _of_cell(said)
    code = number(table(record.get("metadata")).get("exit_code", record.get("exit_code")))
    worked = flag(record.get("success"))
    failed = code != 0 if code is not None else (None if worked is None else not worked)
    body = record.get("output", record.get("content", record.get("body")))
    return content_text(body if body is not None else record), failed


def _of_cell(said: str) -> tuple[str, bool | None]:
    """Return the output of a command or cell, with its exit code where its head or its one object states it."""
    head = said[:600]
    code = _EXITED.search(head) or (_CODE.search(said[:4000]) if head.startswith("Script ") else None)
    if code is not None:
        inner = table(_loaded(_body(said).strip()))
        return (text(inner.get("output")) if isinstance(inner.get("output"), str) else said), code[1] != "0"
    return said, True if head.startswith("Script failed") else None


class CodexStreamReader:
    """Reads what `codex exec --json` prints: events of a thread, each item when it is completed."""

    name = "codex_exec"
    fields = ("type", "item", "thread_id")

    def sniff(self, source: Source) -> float:
        """Look for the start of a thread, or for items with a type of their own."""
        best = 0.0
        for value in source.first:
            record = table(value)
            kind = text(record.get("type"))
            if kind == "thread.started" and "thread_id" in record:
                return 1.0
            if kind in {"item.completed", "item.started", "item.updated"} and "type" in table(record.get("item")):
                best = 0.9
            elif isinstance(record.get("msg"), dict) and "id" in record and "type" in table(record["msg"]):
                best = max(best, 0.7)
        return best

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the run."""
        draft = TraceDraft(source)
        draft.meta["agent"] = "codex"
        ended, pending = None, dict[str, tuple[int, dict[str, object]]]()
        for line, value in source.records():
            record = table(value)
            kind, item = text(record.get("type")), table(record.get("item"))
            if kind == "thread.started":
                draft.meta["session"] = text(record.get("thread_id"))
            elif kind in {"item.started", "item.updated"}:
                pending[text(item.get("id"))] = (line, item)
            elif kind == "item.completed":
                pending.pop(text(item.get("id")), None)
                draft.pieces(_item_pieces(item), line=line)
            elif kind == "turn.failed":
                ended = claim(False, text(table(record.get("error")).get("message")))
            elif kind == "error":
                draft.add(Piece("system", f"[error] {text(record.get('message'))}"), line=line)
            elif "msg" in record:
                draft.pieces(_older_pieces(table(record["msg"])), line=line)
            elif not kind.startswith(("turn.", "thread.")):
                source.skip("not an event of codex exec", line)
        for line, item in pending.values():
            draft.pieces(_item_pieces(item), line=line)
        yield from draft.trace(outcome=ended)


def _item_pieces(item: dict[str, object]) -> list[Piece]:
    kind, name = text(item.get("type")), text(item.get("id"))
    if kind in {"agent_message", "assistant_message", "user_message"}:
        return [Piece("user" if kind == "user_message" else "assistant", text(item.get("text")))]
    if kind == "reasoning":
        return [Piece("assistant", f"[thinking] {text(item.get('text'))}")]
    if kind == "error":
        return [Piece("system", f"[error] {text(item.get('message'))}")]
    status = text(item.get("status"))
    failed = True if status in {"failed", "declined"} else (None if status == "in_progress" else False)
    if kind == "command_execution":
        code = number(item.get("exit_code"))
        call = ToolCall(name, "shell", _without_shell(text(item.get("command"))))
        said = text(item.get("aggregated_output"))
        return [Piece("assistant", calls=(call,)), _ended(name, said, failed if code is None else code != 0)]
    if kind == "file_change":
        changes = [f"{text(each.get('kind'))} {text(each.get('path'))}" for each in objects(item.get("changes"))]
        call = ToolCall(name, "apply_patch", compact({"changes": changes}))
        return [Piece("assistant", calls=(call,)), _ended(name, "", failed)]
    if kind in {"mcp_tool_call", "web_search", "collab_tool_call"}:
        made = "__".join(filter(None, (text(item.get("server")), text(item.get("tool"))))) or kind
        call = ToolCall(name, made, compact(item.get("arguments", item.get("query", item.get("prompt")))))
        said = content_text(table(item.get("result")).get("content") or item.get("result") or "")
        said = said or text(table(item.get("error")).get("message"))
        return [Piece("assistant", calls=(call,)), _ended(name, said, failed)]
    return []


def _without_shell(line: str) -> str:
    """Return what a line gives a shell to run (`bash -lc 'npm test'`); else the line."""
    if not _BY_SHELL.match(line):
        return line
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    return words[2] if len(words) == 3 else line


def _ended(name: str, said: str, failed: bool | None) -> Piece:
    return Piece("tool", said, answers=name, is_error=failed)


def _older_pieces(message: dict[str, object]) -> list[Piece]:
    """Return the pieces of an event of the older protocol (`{"id": ..., "msg": {"type": "exec_command_end"}}`)."""
    kind, name = text(message.get("type")), text(message.get("call_id"))
    if kind == "agent_message":
        return [Piece("assistant", text(message.get("message")))]
    if kind == "agent_reasoning":
        return [Piece("assistant", f"[thinking] {text(message.get('text'))}")]
    if kind == "exec_command_begin":
        words = rows(message.get("command"))
        return [Piece("assistant", calls=(ToolCall(name, "shell", compact({"command": words})),))]
    if kind == "exec_command_end":
        said = text(message.get("aggregated_output")) or "\n".join(
            part for key in ("stdout", "stderr") if (part := text(message.get(key)))
        )
        code = number(message.get("exit_code"))
        return [_ended(name, said, None if code is None else code != 0)]
    return []
