"""mini-swe-agent: `trajectory_format: mini-swe-agent-1*`, the older bare list of messages, items of the Responses form.

Commands stand in code blocks of the text, in `extra.actions`, or in tool calls; all become calls of `bash`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from combee.redaction import ToolCall, Trace
from combee.traces.readers.draft import Draft
from combee.traces.readers.messages import Piece, pieces
from combee.traces.readers.openai_chat import is_messages
from combee.traces.readers.outcomes import submitted
from combee.traces.readers.source import Source
from combee.traces.readers.values import number, objects, rows, table, text, when

__all__ = ["BLOCK", "MiniSweAgentReader"]

BLOCK = re.compile(r"```(?:mswea_bash_command|bash)[ \t]*\n(.*?)\n?```", re.DOTALL)
_CODE = re.compile(r"<returncode>\s*(-?\d{1,10})\s*</returncode>")
_MARKS = ("mswea_bash_command", "<returncode>", "MINI_SWE_AGENT_FINAL_OUTPUT", "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


def _is_bare(value: object) -> bool:
    return is_messages(value) and any(
        mark in text(item.get("content")) for item in list(objects(value))[:8] for mark in _MARKS
    )


class MiniSweAgentReader:
    """Reads one run a file."""

    name = "mini_swe_agent"

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
            draft = Draft(source)
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


def _fill(draft: Draft, messages: list[object], line: int) -> None:
    waiting: list[str] = []  # ids of calls that have no result yet
    made = 0
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
                waiting += [call.id for call in piece.calls]
            elif piece.role in {"user", "tool"}:
                _settle(piece, extra, waiting)
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


def _settle(piece: Piece, extra: dict[str, object], waiting: list[str]) -> None:
    """Tie an observation to its call, and take its return code."""
    code = number(extra.get("returncode"))
    if code is None and (match := _CODE.search(piece.text[:200])):
        code = float(match[1])
    if code is None and piece.answers is None and not ("raw_output" in extra and waiting):
        return
    if piece.answers is None and waiting:
        piece.answers = waiting[0]
        piece.role = "tool"
    if piece.answers in waiting:
        waiting.remove(piece.answers)
    if code is not None and piece.is_error is None:
        piece.is_error = code != 0
