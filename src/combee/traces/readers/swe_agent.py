"""SWE-agent (`trajectory`, `history`, `info`) and mini-SWE-agent (`trajectory_format: mini-swe-agent-1*`, bare lists).

A bare `history` is a demonstration. Commands of mini-SWE-agent stand in code blocks of the text, in `extra.actions`, or
in tool calls; all become calls of `bash`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from combee.redaction import ToolCall, Trace
from combee.traces.readers.draft import TraceDraft, submitted
from combee.traces.readers.messages import Piece, content_text, pieces
from combee.traces.readers.openai_chat import is_messages
from combee.traces.readers.source import Source
from combee.traces.readers.values import number, objects, rows, table, text, when


class SweAgentReader:
    """Reads one run a file."""

    name = "swe_agent"
    fields = ("trajectory", "history", "info")

    def sniff(self, source: Source) -> float:
        """Look for actions with observations, or a history whose messages name their agent."""
        for value in source.first:
            record = table(value)
            for step in list(objects(record.get("trajectory")))[:2]:
                if "action" in step and "observation" in step:
                    return 0.95
            for message in list(objects(record.get("history")))[:3]:
                if "role" in message and ("agent" in message or "message_type" in message or "action" in message):
                    return 0.85
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the run of each record."""
        for line, value in source.records():
            record = table(value)
            draft = TraceDraft(source)
            history = list(objects(record.get("history")))
            steps = list(objects(record.get("trajectory")))
            if any(text(message.get("role")) == "assistant" and not message.get("is_demo") for message in history):
                _from_history(draft, history, steps, line)
            else:
                _opening(draft, history, line)
                _from_steps(draft, steps, line)
            info = table(record.get("info"))
            meta = {
                "agent": "swe-agent",
                "task_id": text(record.get("instance_id")) or text(info.get("instance_id")),
                "submission": text(info.get("submission")),
            }
            yield from draft.trace(outcome=submitted(text(info.get("exit_status"))), meta=meta, line=line)


_STATE = re.compile(r"\n?\(Open file: [^\n]*\)\n\(Current directory: [^\n]*\)\nbash-\$\s*\Z")


def _opening(draft: TraceDraft, history: list[dict[str, object]], line: int) -> None:
    for message in history:
        draft.pieces(pieces(message), line=line)


def _from_history(
    draft: TraceDraft, history: list[dict[str, object]], steps: list[dict[str, object]], line: int
) -> None:
    agents = {text(message.get("agent")) for message in history} - {""}
    main = text(history[0].get("agent")) if history else ""
    waiting: str | None = None
    actions = 0
    for message in history:
        if message.get("is_demo"):
            draft.source.note("demonstration messages are not part of the run", line)
            continue
        agent = text(message.get("agent")) if len(agents) > 1 and text(message.get("agent")) != main else None
        found = pieces(message)
        for piece in found:
            if piece.role == "assistant":
                action = text(message.get("action"))
                if action.strip() and not piece.calls:
                    piece.calls = (ToolCall(f"action-{actions}", "bash", action.strip("\n")),)
                actions += 1 if action or piece.calls else 0
                waiting = piece.calls[-1].id if piece.calls else None
            elif waiting is not None and piece.role in {"user", "tool"}:
                piece.role = "tool"
                piece.answers = piece.answers or waiting
                piece.text = _STATE.sub("", piece.text)  # what the harness shows below each answer
                waiting = None
            draft.add(piece, agent=agent, line=line)
    if waiting is not None and 0 < actions <= len(steps):
        observation = content_text(steps[actions - 1].get("observation"))
        if observation:
            draft.add(Piece("tool", observation, answers=waiting), line=line)
    if actions < len(steps):
        _from_steps(draft, steps[actions:], line, first=actions)


def _from_steps(draft: TraceDraft, steps: list[dict[str, object]], line: int, first: int = 0) -> None:
    for at, step in enumerate(steps, first):
        action = text(step.get("action"))
        call = ToolCall(f"action-{at}", "bash", action.strip("\n"))
        said = text(step.get("response")) or text(step.get("thought"))
        draft.add(Piece("assistant", said, (call,) if action.strip() else ()), line=line)
        observation = content_text(step.get("observation"))
        silent = "observation" in step and action.strip().partition(" ")[0] not in {"", "submit", "exit"}
        if observation or silent:
            draft.add(Piece("tool", observation, answers=call.id if action.strip() else None), line=line)
    if not steps and not rows(draft.steps):
        draft.source.skip("neither history nor trajectory holds a step", line)


BLOCK = re.compile(r"```(?:mswea_bash_command|bash)[ \t]*\n(.*?)\n?```", re.DOTALL)
_CODE = re.compile(r"<returncode>\s*(-?\d{1,10})\s*</returncode>")
_KILLED = re.compile(r"\s*The last command <command>")
_HANDS_IN = re.compile(r"MINI_SWE_AGENT_FINAL_OUTPUT|COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
_MARKS = ("mswea_bash_command", "<returncode>", "MINI_SWE_AGENT_FINAL_OUTPUT", "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


def _is_bare(value: object) -> bool:
    return is_messages(value) and any(
        mark in text(item.get("content")) for item in list(objects(value))[:8] for mark in _MARKS
    )


class MiniSweAgentReader:
    """Reads one run a file."""

    name = "mini_swe_agent"
    fields = ("trajectory_format", "messages", "info")

    def sniff(self, source: Source) -> float:
        """Look for the format's name, or for its completion signal and return codes in a bare list."""
        for value in source.first:
            if isinstance(value, dict):
                if text(value.get("trajectory_format")).startswith("mini-swe-agent"):
                    return 1.0
                if "messages" in value and "mini_version" in table(value.get("info")):
                    return 0.95
            elif _is_bare(value):
                return 0.8
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the run of each record."""
        for line, value in source.records():
            record = table(value)
            messages = record.get("messages") if record else value
            if not isinstance(messages, list):
                source.skip("no messages in it", line)
                continue
            draft = TraceDraft(source)
            _fill(draft, messages, line)
            info = table(record.get("info"))
            config = table(info.get("config"))
            meta = {
                "agent": "mini-swe-agent",
                "model": text(table(config.get("model")).get("model_name")),
                "task_id": text(record.get("instance_id")),
                "submission": text(info.get("submission")),
            }
            yield from draft.trace(outcome=submitted(text(info.get("exit_status"))), meta=meta, line=line)


def _fill(draft: TraceDraft, messages: list[object], line: int) -> None:
    waiting: list[str] = []  # ids of the last message's calls that have no result yet
    made = 0
    handed_in = False
    for message in messages:
        record = table(message)
        extra = table(record.get("extra"))
        stamp = when(extra.get("timestamp"))
        items = rows(record.get("output")) if record.get("object") == "response" else [message]
        found = [piece for item in items for piece in pieces(item)]
        spoken = [piece for piece in found if piece.role == "assistant"]
        if spoken and not any(piece.calls for piece in spoken):
            calls = _commands(spoken[-1], extra, made)
            made += len(calls)
            spoken[-1].calls = calls
        for piece in found:
            if piece.role == "assistant":
                # a call that got no result by now never gets one: the harness refused it (two commands in a message)
                waiting = [call.id for call in piece.calls]
                handed_in = any(_HANDS_IN.search(call.arguments) for call in piece.calls)
            elif piece.role in {"user", "tool"}:
                _settle(piece, extra, waiting, handed_in=handed_in)
            draft.add(piece, timestamp=stamp, line=line)


def _commands(piece: Piece, extra: dict[str, object], made: int) -> tuple[ToolCall, ...]:
    actions = [
        (text(action.get("command")), text(action.get("tool_call_id"))) for action in objects(extra.get("actions"))
    ]
    commands = actions or [(block, "") for block in BLOCK.findall(piece.text)]
    return tuple(
        ToolCall(known or f"command-{made + at}", "bash", command)
        for at, (command, known) in enumerate(commands, 1)
        if command
    )


def _settle(piece: Piece, extra: dict[str, object], waiting: list[str], *, handed_in: bool) -> None:
    """Tie an observation to its call, and take its return code; a killed command and what is handed in have none."""
    code = number(extra.get("returncode"))
    if code is None and (match := _CODE.search(piece.text[:200])):
        code = float(match[1])
    told = code is not None or "raw_output" in extra or handed_in or _KILLED.match(piece.text) is not None
    if piece.answers is None and not (told and (waiting or code is not None)):
        return
    if piece.answers is None and waiting:
        piece.answers = waiting[0]
        piece.role = "tool"
    if piece.answers in waiting:
        waiting.remove(piece.answers)
    if code is not None and piece.is_error is None:
        piece.is_error = code != 0
