"""LangSmith runs (a tree by `parent_run_id`, in the order of `dotted_order`), and what a LangGraph graph leaves.

Of LangSmith the model runs give the messages, tool runs the calls and results, the root run task and final answer.
Feedback on the root is the score; a root that failed is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import Outcome, ToolCall, Trace
from combee.traces.readers.draft import Conversation, TraceDraft, failure_detail, graded
from combee.traces.readers.messages import Piece, content_text, pieces
from combee.traces.readers.source import RecordGroup, Source, grouped
from combee.traces.readers.values import compact, number, objects, rows, table, text, when

_MOST_NODES = 6
_TYPES = frozenset({"chain", "llm", "tool", "retriever", "embedding", "prompt", "parser"})
_ASKED = ("input", "question", "query", "q", "task", "prompt", "messages", "text")
_ANSWERED = ("output", "answer", "result", "response", "text", "content", "messages", "documents")


def _is_run(value: object) -> bool:
    record = table(value)
    return (
        text(record.get("run_type")) in _TYPES
        and "id" in record
        and ("dotted_order" in record or "trace_id" in record or "inputs" in record)
    )


class LangSmithReader:
    """Reads one trace a root run."""

    name = "langsmith"
    fields = ("run_type", "id", "trace_id", "inputs", "outputs")

    def sniff(self, source: Source) -> float:
        """Look for a run type."""
        for value in source.first:
            if _is_run(value) or any(_is_run(run) for run in _listed(value)[:3]):
                return 0.95
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the traces."""
        for group in grouped(source, _runs(source), "a run"):
            yield from _trace(source, group)


def _listed(value: object) -> list[object]:
    return rows(value) or rows(table(value).get("runs"))


def _runs(source: Source) -> Iterator[tuple[int, str, dict[str, object], int]]:
    owner: dict[str, str] = {}
    for line, value in source.records():
        for item in _listed(value) or [value]:
            record = table(item)
            if _is_run(record):
                order = text(record.get("dotted_order")).partition(".")[0]
                key = text(record.get("trace_id")) or order or text(record.get("id"))
                if len(owner) < 1_000_000:
                    owner[text(record.get("id"))] = key
                yield line, key, record, 400 + len(compact(record.get("inputs"))) + len(compact(record.get("outputs")))
                waiting = list(objects(record.get("child_runs")))
                while waiting:
                    child = waiting.pop()
                    waiting += objects(child.get("child_runs"))
                    yield line, key, child, 400
            elif "run_id" in record and "score" in record:
                key = owner.get(text(record["run_id"])) or text(record.get("trace_id")) or text(record["run_id"])
                yield line, key, record, 200
            else:
                source.skip("neither a run nor feedback on one", line)


def _trace(source: Source, group: RecordGroup) -> Iterator[Trace]:
    runs = [(line, run) for line, run in group.records if "run_type" in run]
    if not runs:
        source.skip("feedback on a run that is not here", group.records[0][0])
        return
    runs.sort(key=lambda pair: (text(pair[1].get("dotted_order")), text(pair[1].get("start_time"))))
    names = {text(run.get("id")) for _, run in runs}
    root_line, root = next((pair for pair in runs if text(pair[1].get("parent_run_id")) not in names), runs[0])
    draft = TraceDraft(source)
    talk = Conversation(draft)
    for line, run in runs:
        _add_run(talk, run, line)
    task = _shown(root.get("inputs"), _ASKED) if root.get("run_type") != "llm" else None
    answer = _shown(root.get("outputs"), _ANSWERED)
    if root.get("run_type") == "chain":
        if not draft.steps and task:
            draft.add(Piece("user", task), timestamp=when(root.get("start_time")), line=root_line)
        if answer and not talk.has_text(answer):
            draft.add(Piece("assistant", answer), timestamp=when(root.get("end_time")), line=root_line)
    feedback = [record for _, record in group.records if "run_type" not in record]
    outcome = _outcome(root, feedback)
    meta = {"session": text(root.get("session_name")), "agent": text(root.get("name")), "run": text(root.get("id"))}
    yield from draft.trace(task=task or None, outcome=outcome, meta=meta, line=root_line)


def _shown(value: object, keys: tuple[str, ...]) -> str:
    """Return what an input or output says: the one value it holds, or that of a telling key."""
    record = table(value)
    if not record:
        return content_text(value) if value else ""
    chosen = next(
        (record[key] for key in keys if key in record), next(iter(record.values())) if len(record) == 1 else record
    )
    if isinstance(chosen, list):
        last = next((piece.text for item in reversed(chosen) for piece in pieces(item) if piece.text), "")
        return last or compact(chosen)
    if isinstance(chosen, dict):
        found = pieces(chosen) if "content" in chosen or "kwargs" in chosen else []
        return found[-1].text if found else compact(chosen)
    return text(chosen) or compact(chosen)


def _messages(value: object) -> list[Piece]:
    record = table(value)
    listed = record.get("messages")
    if isinstance(listed, list):
        flat = [item for each in listed for item in (each if isinstance(each, list) else [each])]
        return [piece for item in flat for piece in pieces(item)]
    prompts = rows(record.get("prompts"))
    if prompts:
        return [Piece("user", text(prompt)) for prompt in prompts]
    return [Piece("user", shown)] if (shown := _shown(record, _ASKED)) else []


def _answer(value: object) -> list[Piece]:
    record = table(value)
    for choice in objects(record.get("choices")):
        return pieces(choice.get("message"))
    for batch in rows(record.get("generations")):
        for made in objects(batch if isinstance(batch, list) else [batch]):
            return pieces(made.get("message")) or [Piece("assistant", text(made.get("text")))]
    if "role" in record or "content" in record:
        return pieces({"role": "assistant", **record})
    if isinstance(record.get("messages"), list):
        return _messages(record)
    return [Piece("assistant", shown)] if (shown := _shown(record, _ANSWERED)) else []


def _add_run(talk: Conversation, run: dict[str, object], line: int) -> None:
    kind = text(run.get("run_type"))
    started, ended = when(run.get("start_time")), when(run.get("end_time"))
    trouble = failure_detail(run.get("error"))
    if kind == "llm":
        talk.heard(_messages(run.get("inputs")), timestamp=started, line=line)
        talk.said(_answer(run.get("outputs")), timestamp=ended, line=line)
        if trouble:
            talk.said([Piece("system", f"[error] {trouble}")], timestamp=ended, line=line)
    elif kind in {"tool", "retriever"}:
        outputs = table(run.get("outputs"))
        inner = table(outputs.get("output"))
        inner = table(inner.get("kwargs")) or inner
        name = (
            text(inner.get("tool_call_id")) or text(table(run.get("extra")).get("tool_call_id")) or text(run.get("id"))
        )
        if not talk.has_call(name):
            call = ToolCall(name, text(run.get("name")), compact(run.get("inputs")))
            talk.said([Piece("assistant", calls=(call,))], timestamp=started, line=line)
        said = trouble or _shown(outputs, _ANSWERED)
        result = Piece("tool", said, answers=name, is_error=True if trouble else None)
        talk.said([result], timestamp=ended, line=line)


def _outcome(root: dict[str, object], feedback: list[dict[str, object]]) -> Outcome | None:
    trouble = failure_detail(root.get("error"))
    scores = {
        name: found
        for name, stat in table(root.get("feedback_stats")).items()
        if (found := number(table(stat).get("avg"))) is not None
    }
    for record in feedback:
        found = number(record.get("score"))
        found = float(record["score"]) if isinstance(record["score"], bool) else found
        if found is not None:
            scores[text(record.get("key"))] = found
    if not scores:
        return Outcome(success=False, detail=trouble) if trouble else None
    chosen = next(
        (name for name in ("correctness", "correct", "score", "reward") if name in scores), next(iter(scores))
    )
    return graded(scores, chosen, trouble)


class LangGraphReader:
    """Reads what a LangGraph graph leaves: states and checkpoints with `messages`, and streams of updates by node."""

    name = "langgraph"
    fields = ("values", "next", "metadata", "checkpoint", "messages")

    def sniff(self, source: Source) -> float:
        """Look for messages in LangChain's form inside a state, a checkpoint or a node's update."""
        for value in source.first:
            for item in rows(value)[:3] or [value]:
                if any(map(_is_langchain, _state_messages(item)[:3])):
                    return 0.8
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield one trace for each thread; of states that repeat each other only what is new is added."""
        threads: dict[str, TraceDraft] = {}
        talks: dict[str, tuple[Conversation, set[str]]] = {}
        for line, value in source.records():
            states = [table(item) for item in rows(value)] or [table(value)]
            if rows(value) and len(_state_messages(states[0])) > len(_state_messages(states[-1])):
                states.reverse()  # a history begins with the newest state
            for state in states:
                found = _state_messages(state)
                if not found:
                    source.skip("no messages in LangChain's form", line)
                    continue
                thread = _thread(state)
                if thread not in threads:
                    threads[thread] = TraceDraft(source)
                    threads[thread].meta = {"agent": "langgraph", "session": thread}
                    talks[thread] = (Conversation(threads[thread]), set())
                talk, known = talks[thread]
                new = [message for message in found if _message_id(message) not in known]
                known |= {name for message in found if (name := _message_id(message))}
                talk.heard([piece for message in new for piece in pieces(message)], timestamp=_time(state), line=line)
        for draft in threads.values():
            yield from draft.trace()


def _is_langchain(value: object) -> bool:
    record = table(value)
    if record.get("type") == "constructor" or "lc" in record:
        return bool(table(record.get("kwargs")))
    kinds = {"human", "ai", "tool", "system", "AIMessageChunk"}
    return text(record.get("type")) in kinds and ("content" in record or "content" in table(record.get("data")))


def _state_messages(value: object) -> list[object]:
    """Return the messages of a state, a checkpoint, an event, or an update (`{"agent": {"messages": [...]}}`)."""
    record = table(value)
    places = [record, table(record.get("values")), table(record.get("channel_values")), table(record.get("data"))]
    places += [table(table(record.get("checkpoint")).get("channel_values"))]
    places += [table(each) for each in record.values()] if len(record) <= _MOST_NODES else []
    for place in places:
        listed = place.get("messages")
        found = [message for message in (rows(listed) or [listed]) if _is_langchain(message)]
        if found:
            return found
    return []


def _thread(state: dict[str, object]) -> str:
    for place in (state.get("config"), state):
        name = text(table(table(place).get("configurable")).get("thread_id")) or text(table(place).get("thread_id"))
        if name:
            return name
    return ""


def _message_id(message: object) -> str:
    record = table(message)
    inner = table(record.get("kwargs")) or table(record.get("data")) or record
    return text(inner.get("id"))


def _time(state: dict[str, object]) -> str | None:
    return when(state.get("created_at") or state.get("ts") or table(state.get("checkpoint")).get("ts"))
