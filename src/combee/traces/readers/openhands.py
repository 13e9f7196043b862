"""OpenHands: folders or lists of events, in the SDK's form (`kind`, `tool_call_id`) and the older (`action`, `cause`).

Also the rows of its evaluation output (`history` in a row, the verdict in `test_result`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from combee.redaction import Outcome, ToolCall, Trace
from combee.traces.readers.draft import TraceDraft, claim, recorded
from combee.traces.readers.messages import Piece, call_of, content_text, pieces, role_of
from combee.traces.readers.source import Source
from combee.traces.readers.values import compact, flag, number, rows, table, text, when

_EVENT_FILE = re.compile(r"(?:event-)?(\d{1,12})(?:-[\w-]{1,80})?\.json\Z")
_KINDS = frozenset(
    {"MessageEvent", "ActionEvent", "ObservationEvent", "SystemPromptEvent", "AgentErrorEvent", "PauseEvent",
     "ConversationErrorEvent", "ConversationStateUpdateEvent", "Condensation", "UserRejectObservation",
     "CondensationSummaryEvent"}
)  # fmt: skip
_EVENT_BYTES = 16 << 20
_STATE = frozenset({"agent_state_changed", "change_agent_state", "null", "condensation"})


def _is_event(value: object) -> bool:
    record = table(value)
    if "source" not in record:
        return False
    if text(record.get("kind")) in _KINDS:
        return True
    old = isinstance(record.get("action"), str) and "args" in record
    return old or (isinstance(record.get("observation"), str) and ("extras" in record or "cause" in record))


def _history(value: object) -> list[object]:
    """Return the events of a list, of a row with `history`, or of the oldest form (pairs of action and observation)."""
    listed = value if isinstance(value, list) else rows(table(value).get("history"))
    flat: list[object] = []
    for item in listed:
        flat += item if isinstance(item, list) else [item]
    return flat


class OpenHandsReader:
    """Reads one conversation a folder of events, a list or a row."""

    name = "openhands"
    fields = ("id", "source", "timestamp", "action", "args", "observation")

    def sniff(self, source: Source) -> float:
        """Look for events that name their source and their kind, action or observation."""
        if source.folder:
            first = next(iter(_event_files(source)), None)
            if first is None:
                return 0.0
            return 0.95 if _is_event(source.child(first).quiet().read_json(_EVENT_BYTES)) else 0.0
        for value in source.first:
            if _is_event(value):
                return 0.9
            if any(_is_event(event) for event in _history(value)[:5]):
                return 0.95
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the conversation of a folder or a file of events, or of each row."""
        if source.folder:
            names = _event_files(source)
            source.taken = frozenset(names)
            yield from _conversation(source, _from_files(source, names), None, None)
            return
        loose: list[tuple[int, object]] = []
        for line, value in source.records():
            if _is_event(value):
                loose.append((line, value))
            elif events := _history(value):
                yield from _conversation(source, ((line, event) for event in events), table(value), line)
            else:
                source.skip("neither an event nor a history of events", line)
        if loose:
            yield from _conversation(source, loose, None, loose[0][0])


def _event_files(source: Source) -> list[str]:
    numbered = [(int(match[1]), name) for name in source.names if (match := _EVENT_FILE.match(name))]
    return [name for _, name in sorted(numbered)]


def _from_files(source: Source, names: Iterable[str]) -> Iterator[tuple[int, object]]:
    for at, name in enumerate(names, 1):
        entry = source.child(name)
        value = entry.read_json(_EVENT_BYTES)
        if value is not None and not _is_event(value):
            entry.skip("not an event")
        elif value is not None:
            yield at, value


def _conversation(
    source: Source, events: Iterable[tuple[int, object]], row: dict[str, object] | None, line: int | None
) -> Iterator[Trace]:
    draft = TraceDraft(source)
    draft.meta["agent"] = "openhands"
    ended: Outcome | None = None
    calls: dict[str, str] = {}  # event id of an action -> id of its call
    for at, value in events:
        record = table(value)
        where = at if row is None and not source.folder else line
        stamp = when(record.get("timestamp"))
        new = "kind" in record
        for piece in _sdk(record) if new else _older(record, calls):
            draft.add(piece, timestamp=stamp, line=where)
        ended = _finish(record) or ended
    row = row or {}
    verdict = _verdict(row) or ended
    meta = {
        "task_id": text(row.get("instance_id")),
        "model": text(table(table(row.get("metadata")).get("llm_config")).get("model")),
        "error": text(row.get("error"))[:500],
    }
    yield from draft.trace(outcome=verdict, meta=meta, line=line)


def _verdict(row: dict[str, object]) -> Outcome | None:
    tested = table(row.get("test_result"))
    for place in (table(row.get("report")), table(tested.get("report")), tested, row):
        found = recorded(place)
        if found is not None:
            return found
    return None


def _finish(record: dict[str, object]) -> Outcome | None:
    """Return what the agent says when it finishes: its own word."""
    if text(record.get("kind")) == "ActionEvent":
        action = table(record.get("action"))
        return claim(True, text(action.get("message"))) if text(action.get("kind")) == "FinishAction" else None
    if record.get("action") == "finish" and text(record.get("source")) == "agent":
        args = table(record.get("args"))
        done = flag(args.get("task_completed"))
        partial = text(args.get("task_completed")) == "partial"
        return claim(False if partial else (True if done is None else done), text(args.get("final_thought")))
    return None


def _sdk(record: dict[str, object]) -> list[Piece]:
    kind = text(record.get("kind"))
    if kind == "SystemPromptEvent":
        return [Piece("system", content_text(record.get("system_prompt")))]
    if kind == "MessageEvent":
        message = table(record.get("llm_message"))
        return pieces({**message, "role": message.get("role") or record.get("source")})
    if kind == "ActionEvent":
        call = table(record.get("tool_call"))
        made = call_of(call) if call else ToolCall("", "", compact(record.get("action")))
        made = ToolCall(
            made.id or text(record.get("tool_call_id")), made.name or text(record.get("tool_name")), made.arguments
        )
        said = content_text(record.get("thought") or "")
        reasoning = text(record.get("reasoning_content")).strip()
        return [Piece("assistant", f"[thinking] {reasoning}\n{said}" if reasoning else said, (made,))]
    if kind in {"ObservationEvent", "UserRejectObservation", "AgentErrorEvent"}:
        seen = table(record.get("observation"))
        said = content_text(seen.get("content", seen.get("output", ""))) or text(record.get("error"))
        said = said or text(record.get("rejection_reason"))
        code = number(seen.get("exit_code"))
        failed = flag(seen.get("is_error")) or (code is not None and code != 0) or kind == "AgentErrorEvent"
        known = failed or "is_error" in seen or code is not None
        answers = text(record.get("tool_call_id")) or None
        return [Piece("tool", said, answers=answers, is_error=failed if known else None)]
    if kind == "ConversationErrorEvent":
        return [Piece("system", f"[error] {text(record.get('code'))} {text(record.get('detail'))}")]
    if kind in {"Condensation", "CondensationSummaryEvent"} and text(record.get("summary")):
        return [Piece("system", f"[compacted] {text(record['summary'])}")]
    return []


def _older(record: dict[str, object], calls: dict[str, str]) -> list[Piece]:
    action, observation = text(record.get("action")), text(record.get("observation"))
    args = table(record.get("args"))
    agent = text(record.get("source")) == "agent"
    if action in {"message", "system"}:
        role = "system" if action == "system" else role_of(record.get("source"))
        return [Piece(role_of(role), text(args.get("content")) or text(record.get("content")))]
    if action and action not in _STATE and agent:
        meta = table(record.get("tool_call_metadata"))
        name = text(record.get("id"))
        made = text(meta.get("tool_call_id")) or f"event-{name}"
        calls[name] = made
        thought = text(args.get("thought"))
        shown = {key: value for key, value in args.items() if key != "thought"}
        call = ToolCall(made, text(meta.get("function_name")) or action, compact(shown))
        return [Piece("assistant", thought, (call,))]
    if observation and observation not in _STATE:
        extras = table(record.get("extras"))
        code = number(table(extras.get("metadata")).get("exit_code", extras.get("exit_code")))
        failed = observation == "error" or (None if code is None else code != 0)
        answers = calls.get(text(record.get("cause")))
        return [Piece("tool", content_text(record.get("content") or ""), answers=answers, is_error=failed)]
    return []
