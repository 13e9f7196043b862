"""Claude Code sessions: JSON lines that form a graph by `parentUuid`, with side chains, sub-agents and summaries.

Also what `claude -p --output-format stream-json` prints, and Cursor's CLI like it. A record that a fork or a
resumed copy shares with a session that was read counts once.
The main chain is the way from the last message up to the first; what was given up (an edited prompt) is marked
`abandoned`, sub-agents by their id. A sub-agent's own file is read with its session where that is there, else alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from combee.redaction import Outcome, ToolCall, Trace
from combee.traces.readers.draft import TraceDraft, claim, failure_detail
from combee.traces.readers.messages import Piece, content_text, pieces
from combee.traces.readers.source import Source
from combee.traces.readers.values import compact, flag, number, objects, rows, table, text

_TURNS = frozenset({"user", "assistant", "tool_result"})
"""The last is Qwen Code's, which writes the same graph with Google's parts in its messages."""
_OTHER = frozenset(
    {"summary", "system", "file-history-snapshot", "queue-operation", "attachment", "progress", "custom-title",
     "ai-title", "last-prompt", "agent-name", "mode", "permission-mode", "pr-link", "tag"}
)  # fmt: skip
_NOT_A_TASK = ("<command-", "<local-command", "Caveat:", "<system-reminder>", "[Request interrupted", "<ide_")


@dataclass(slots=True)
class _Session:
    id: str
    records: list[tuple[int, dict[str, object]]] = field(default_factory=list)


class ClaudeCodeReader:
    """Reads one session a file, or several that stand one after the other."""

    name = "claude_code"
    fields = ("type", "sessionId", "uuid", "parentUuid", "message")

    def sniff(self, source: Source) -> float:
        """Look for turns with a uuid and a session, or for a summary with its leaf."""
        best = 0.0
        for value in source.first:
            record = table(value)
            if text(record.get("type")) in _TURNS and "uuid" in record and "sessionId" in record:
                return 1.0
            if record.get("type") == "summary" and "leafUuid" in record:
                best = 0.9
            elif text(record.get("type")) in _OTHER and ("sessionId" in record or "messageId" in record):
                best = max(best, 0.7)
        return best

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the sessions."""
        parent = _parent_session(source)
        if parent is not None:
            source.belongs = True
            return
        current: _Session | None = None
        for line, value in source.records():
            record = table(value)
            name = text(record.get("sessionId"))
            if not text(record.get("type")):
                source.skip("not a line of a session (no type)", line)
            elif current is None or (name and current.id and name != current.id and "uuid" in record):
                if current is not None:
                    yield from _finish(source, current)
                current = _Session(name, [(line, record)])
            else:
                current.id = current.id or name
                current.records.append((line, record))
        if current is not None:
            yield from _finish(source, current)


class QwenCodeReader(ClaudeCodeReader):
    """Reads sessions of Qwen Code: the same graph, with Google's parts in the messages."""

    name = "qwen_code"
    fields = ("type", "sessionId", "uuid", "parentUuid", "parts")

    def sniff(self, source: Source) -> float:
        """Look for a session whose messages have parts."""
        parts = any("parts" in table(table(value).get("message")) for value in source.first)
        return super().sniff(source) if parts else 0.0


def _parent_session(source: Source) -> str | None:
    """Return the session file that this sub-agent's file is read with, or None."""
    if not source.path.name.startswith("agent-"):
        return None
    first = next((table(value) for value in source.first if "sessionId" in table(value)), {})
    name = text(first.get("sessionId"))
    if not name or "/" in name or "\\" in name or not first.get("isSidechain"):
        return None
    folder = source.path.parent
    homes = [folder, folder.parent.parent] if folder.name == "subagents" else [folder]
    return name if any((home / f"{name}.jsonl").is_file() for home in homes) else None


def _sub_agents(source: Source, session: str) -> Iterator[Source]:
    """Yield the files of the session's sub-agents: beside it (older), or below `<session>/subagents` (newer)."""
    if not session or source.path.name != f"{session}.jsonl":
        return
    folder = source.path.parent
    above = source.name.rpartition("/")[0]
    for home, prefix in ((folder / session / "subagents", f"{session}/subagents/"), (folder, "")):
        try:
            names = sorted(path.name for path in home.glob("agent-*.jsonl") if not path.is_symlink())
        except OSError:
            continue
        for name in names:
            below = f"{above}/{prefix}{name}" if above else f"{prefix}{name}"
            entry = Source(home / name, below, source.report, source.limits)
            if any(text(table(value).get("sessionId")) == session for value in entry.first):
                yield entry


def _finish(source: Source, session: _Session) -> Iterator[Trace]:
    draft = TraceDraft(source)
    draft.meta["agent"] = "claude-code"
    main = _main_chain(session.records)
    known = {text(record.get("uuid")) for _, record in session.records}
    seen: set[str] = set()
    task: str | None = None
    for line, record in session.records:
        name = text(record.get("uuid"))
        if name and "parts" in table(record.get("message")):
            name += compact(record["message"])  # one answer of Qwen may stand in several lines of one name
        if name and name in seen:
            source.note("a line that is there twice is read once", line)
            continue
        seen.add(name)
        found = _pieces(record, known)
        agent = _agent(record, main)
        if task is None and agent is None and record.get("type") == "user":
            asked = (piece.text for piece in found if piece.role == "user")
            task = next((said for said in asked if not said.lstrip().startswith(_NOT_A_TASK)), None)
        if name and draft.copied(session.id, f"claude {name}"):
            continue
        draft.pieces(found, timestamp=text(record.get("timestamp")) or None, agent=agent, line=line)
        _identify(draft, record)
    if draft.only_copies():
        return
    for entry in _sub_agents(source, session.id):
        label = entry.path.stem
        for line, value in entry.records():
            record = table(value)
            stamp = text(record.get("timestamp")) or None
            draft.pieces(_pieces(record, known), timestamp=stamp, agent=text(record.get("agentId")) or label, line=line)
    if not any(text(record.get("type")) in _TURNS for _, record in session.records):
        source.skip("a session without a turn", session.records[0][0])
        return
    yield from draft.trace(task=task, meta={"session": session.id}, line=session.records[0][0])


def _identify(draft: TraceDraft, record: dict[str, object]) -> None:
    if text(record.get("version")):
        draft.meta.setdefault("version", text(record["version"]))
    if "parts" in table(record.get("message")):
        draft.meta["agent"] = "qwen-code"
    model = text(table(record.get("message")).get("model")) or text(record.get("model"))
    if model and model != "<synthetic>" and not record.get("isSidechain"):
        draft.meta.setdefault("model", model)


def _main_chain(records: list[tuple[int, dict[str, object]]]) -> set[str]:
    """Return the uuids of the main chain: of each tree of lines, the way from its last turn up to its root.

    One answer of the model may be split over several lines, and results of parallel calls hang on different ones of
    them: they are on the chain when their answer, or their call, is.
    """
    inside = (record for _, record in records if "uuid" in record and not record.get("isSidechain"))
    turns = {text(record["uuid"]): record for record in inside}
    parents = {name: _parent(record) for name, record in turns.items()}
    roots: dict[str, str] = {}
    for name in turns:
        _find_root(name, parents, roots)
    chain: set[str] = set()
    ended: set[str] = set()
    for name, record in reversed(turns.items()):
        if text(record.get("type")) in _TURNS and roots[name] not in ended:
            ended.add(roots[name])
            leaf = name
            while leaf in turns and leaf not in chain:
                chain.add(leaf)
                leaf = parents[leaf]
    answers = {text(table(turns[name].get("message")).get("id")) for name in chain} - {""}
    for name, record in turns.items():
        message = table(record.get("message"))
        split = record.get("type") == "assistant" and text(message.get("id")) in answers
        result = record.get("type") == "user" and parents[name] in chain and _only_results(message)
        if split or result:
            chain.add(name)
    return chain


def _parent(record: dict[str, object]) -> str:
    return text(record.get("parentUuid")) or text(record.get("logicalParentUuid"))


def _find_root(name: str, parents: dict[str, str], roots: dict[str, str]) -> None:
    """Enter the root of a line, and of all above it, into `roots`; a circle has its first met line as root."""
    way: list[str] = []
    passed: set[str] = set()
    while name not in roots and name not in passed:
        way.append(name)
        passed.add(name)
        above = parents[name]
        if above not in parents:
            roots[name] = name
            break
        name = above
    root = roots.get(name, name)
    for each in way:
        roots[each] = root


def _only_results(message: dict[str, object]) -> bool:
    return any(block.get("type") == "tool_result" for block in objects(message.get("content")))


def _agent(record: dict[str, object], main: set[str]) -> str | None:
    if record.get("isSidechain"):
        return text(record.get("agentId")) or "sidechain"
    name = text(record.get("uuid"))
    return "abandoned" if name and name not in main and text(record.get("type")) in _TURNS else None


def _pieces(record: dict[str, object], known: set[str]) -> list[Piece]:
    kind = text(record.get("type"))
    if kind == "summary":
        # Summaries of other sessions stand at the top of a file: only one that leads to a line of this one is its own.
        own = text(record.get("leafUuid")) in known
        return [Piece("system", f"[summary] {text(record.get('summary'))}")] if own else []
    if kind == "system":
        said = content_text(record.get("content") or "")
        return [Piece("system", said)] if said else []
    if kind not in _TURNS:
        return []
    message = table(record.get("message"))
    shown = table(record.get("systemPayload")).get("displayText") if "parts" in message else None
    if kind == "user" and isinstance(shown, str):  # beside it stands what a hook added
        message = {"content": shown}
    found = pieces({**message, "role": message.get("role") or kind})
    for piece in found:
        if piece.role == "tool" and text(table(record.get("toolCallResult")).get("status")) in {"error", "cancelled"}:
            piece.is_error = True
        if piece.role == "tool" and not piece.text:
            piece.text = _raw_result(record.get("toolUseResult"))
        elif piece.role == "user" and (
            record.get("isMeta") or record.get("isCompactSummary") or record.get("subtype") == "notification"
        ):
            piece.role = "system"
    return found


def _raw_result(value: object) -> str:
    if isinstance(value, str):
        return value
    result = table(value)
    streams = (text(result.get("stdout")), text(result.get("stderr")))
    return "\n".join(part for part in streams if part) or content_text(result.get("content") or "")


class ClaudeStreamReader:
    """Reads what `claude -p --output-format stream-json` prints, or `json` with `--verbose`: one run.

    The stream of `cursor-agent` differs in its calls, which are events of their own.
    """

    name = "claude_stream"
    fields = ("type", "session_id", "message", "parent_tool_use_id")

    def sniff(self, source: Source) -> float:
        """Look for the head of a stream, or for turns with a `session_id`."""
        best = 0.0
        for value in source.first:
            for record in map(table, rows(value)[:3] or [value]):
                kind = text(record.get("type"))
                if "session_id" not in record or "sessionId" in record:
                    continue
                if kind == "system" and text(record.get("subtype")) == "init":
                    return 1.0
                if (kind in _TURNS and isinstance(record.get("message"), dict)) or (
                    kind == "result" and "num_turns" in record
                ):
                    best = 0.95
        return best

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the run."""
        draft = TraceDraft(source)
        draft.meta["agent"] = "claude-code"
        outcome: Outcome | None = None
        seen: set[str] = set()
        for line, value in source.records():
            for record in map(table, rows(value) or [value]):
                kind = text(record.get("type"))
                draft.meta.setdefault("session", text(record.get("session_id")))
                if kind == "system":
                    draft.meta.setdefault("model", text(record.get("model")))
                elif kind in _TURNS:
                    name = text(record.get("uuid"))
                    if not name or name not in seen:
                        agent = text(record.get("parent_tool_use_id")) or None
                        draft.pieces(_pieces(record, set()), agent=agent, line=line)
                    seen.add(name)
                elif kind == "tool_call":
                    draft.meta["agent"] = "cursor"
                    draft.pieces(_cursor_call(record, seen), line=line)
                elif kind == "result":
                    outcome = _stream_outcome(record)
                elif kind not in {"stream_event", "rate_limit_event", "tool_progress", "keep_alive", "thinking"}:
                    source.skip(f"not an event of a stream (type {kind or 'missing'})"[:120], line)
        yield from draft.trace(outcome=outcome)


def _cursor_call(record: dict[str, object], seen: set[str]) -> list[Piece]:
    """Return the call where it is new, and its result: `{"shellToolCall": {"args": .., "result": {"success": ..}}}`."""
    name = text(record.get("call_id"))
    tools = [(key, table(value)) for key, value in table(record.get("tool_call")).items() if isinstance(value, dict)]
    tool, call = tools[0] if tools else ("", {})
    found: list[Piece] = []
    if name not in seen:
        seen.add(name)
        made = ToolCall(name, tool.removesuffix("ToolCall"), compact(call.get("args")))
        found.append(Piece("assistant", calls=(made,)))
    if record.get("subtype") == "completed":
        ended = table(call.get("result"))
        how, what = next(iter(ended.items()), ("", ""))
        inner = table(what)
        printed = [said for key in ("stdout", "stderr") if (said := text(inner.get(key)))]
        said = "\n".join(printed) if "stdout" in inner or "stderr" in inner else text(inner.get("content"))
        code = number(inner.get("exitCode"))
        failed = how not in {"success", ""} or (code is not None and code != 0)
        shown = said or failure_detail(what) or compact(what)
        found.append(Piece("tool", shown, answers=name, is_error=failed if ended else None))
    return found


def _stream_outcome(record: dict[str, object]) -> Outcome:
    """Return how the run ended: that it came to an end is no more than the agent's own word."""
    why = text(record.get("subtype"))
    failed = flag(record.get("is_error")) or why.startswith("error")
    return claim(not failed, why if failed else "")
