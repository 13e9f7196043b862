"""Cline and its forks Roo Code and Kilo Code: `tasks/<id>/api_conversation_history.json`, a list of Anthropic messages.

What the model was sent is not what the user said: the task, answers and feedback stand in tags, results of tools often
in the user's text (`[read_file for 'a'] Result:`), and each message carries the state of the editor, which is left out.
Calls of older versions are tags in the agent's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from combee.redaction import ToolCall, Trace
from combee.traces.readers.draft import TraceDraft
from combee.traces.readers.messages import OpenCalls, Piece, content_text, pieces
from combee.traces.readers.source import Source
from combee.traces.readers.values import compact, objects, rows, table, text, when

_STATE = re.compile(r"<environment_details>.*?</environment_details>\s*", re.DOTALL)
_SAID = re.compile(r"<(task|feedback|user_message|answer)>\s*(.*?)\s*</\1>", re.DOTALL)
_RESULT = re.compile(r"\A\[([\w.-]{1,60})[^\n]{0,2000}?\] Result:?\s*")
_NOTICE = re.compile(
    r"\A(?:\[ERROR\]|\[TASK RESUMPTION\]|# |<system|<SYSTEM|<explicit_instr|<file_content|Files attached)"
)
_FAILED = re.compile(r"\A(?:The tool execution failed|<error>|Error:)|\"status\":\s*\"error\"")
_TOOLS = (
    "execute_command|read_file|write_to_file|replace_in_file|apply_diff|insert_content|search_and_replace|search_files|"
    "list_files|list_code_definition_names|browser_action|use_mcp_tool|access_mcp_resource|ask_followup_question|"
    "attempt_completion|new_task|switch_mode|fetch_instructions|codebase_search|update_todo_list|plan_mode_respond"
)
_CALL = re.compile(rf"<({_TOOLS})>(.*?)</\1>", re.DOTALL)
_PARAMETER = re.compile(r"<(\w{1,60})>\n?(.*?)\n?</\1>", re.DOTALL)
_OWN = ("<environment_details>", "<user_message>", "<task>")


def _is_history(value: object) -> bool:
    asked = next(iter(objects(value)), {})
    said = content_text(asked.get("content") or "")
    return asked.get("role") == "user" and any(mark in said for mark in _OWN)


def _is_screen(value: object) -> bool:
    shown = next(iter(objects(value)), {})
    return "ts" in shown and text(shown.get("type")) in {"say", "ask"} and ("say" in shown or "ask" in shown)


class ClineReader:
    """Reads one task a file."""

    name = "cline"
    fields = ("role", "content", "ts", "modelInfo", "metrics")

    def sniff(self, source: Source) -> float:
        """Look for messages with the program's tags, or for what its screen showed."""
        return 0.9 if any(_is_history(value) or _is_screen(value) for value in source.first) else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the task; what the screen showed of it is passed over."""
        for line, value in source.records():
            if _is_screen(value):
                source.belongs = (source.path.parent / "api_conversation_history.json").is_file()
                if not source.belongs:
                    source.skip(
                        "only what the screen of Cline showed: the run is in api_conversation_history.json", line
                    )
                continue
            if not _is_history(value):
                source.skip("not a task's messages", line)
                continue
            draft = TraceDraft(source)
            if source.path.name == "api_conversation_history.json":
                draft.run = source.path.parent.name
            open_calls = OpenCalls()
            for message in map(table, rows(value)):
                if message.get("isTruncationMarker"):
                    continue
                draft.meta["model"] = text(table(message.get("modelInfo")).get("modelId")) or draft.meta.get(
                    "model", ""
                )
                if message.get("role") == "assistant":
                    open_calls.calls.clear()
                for piece in _pieces(message):
                    draft.add(open_calls.paired(piece), timestamp=when(message.get("ts")), line=line)
            yield from draft.trace(meta={"agent": "cline", "session": draft.run}, line=line)


def _pieces(message: dict[str, object]) -> list[Piece]:
    if message.get("role") == "user":
        return _heard(message)
    found = pieces(message)
    for piece in found:
        if not piece.calls:
            piece.calls = tuple(_written(piece.text))
    return found


def _written(said: str) -> Iterator[ToolCall]:
    for name, inside in _CALL.findall(said):
        yield ToolCall("", name, compact(dict(_PARAMETER.findall(inside))))


def _heard(message: dict[str, object]) -> list[Piece]:
    """Return what tools brought, what the user said in tags, and the rest as the program's own words."""
    content = message.get("content")
    found: list[Piece] = []
    result: Piece | None = None
    for block in content if isinstance(content, list) else [{"type": "text", "text": text(content)}]:
        for piece in pieces({"role": "user", "content": [block]}):
            said = _STATE.sub("", piece.text).strip()
            begun = _RESULT.match(said)
            if piece.role == "tool" or begun is not None:
                body = said if begun is None else said[begun.end() :]
                made = Piece("tool", body, answers=piece.answers or "", is_error=piece.is_error)
                result = None if piece.role == "tool" else made
                found.append(made)
            elif result is not None and said and not _NOTICE.match(said) and not _SAID.search(said):
                result.text = f"{result.text}\n{said}".lstrip()
            elif said and not _SAID.search(said):
                found.append(Piece("system", said))
            found += [Piece("user", asked) for _, asked in _SAID.findall(said) if not message.get("isSummary")]
    for piece in found:
        if piece.role == "tool" and piece.is_error is None and _FAILED.search(piece.text):
            piece.is_error = True
    return found
