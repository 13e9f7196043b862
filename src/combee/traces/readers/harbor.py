"""ATIF trajectories (Agent Trajectory Interchange Format, 1.0 to 1.8, and looser ones) and Harbor's trial folders.

Copied context is left out; embedded sub-agents become side chains of the same trace. ATIF holds no reward: a `success`
in it is the agent's own word. A trial has the verifier's rewards in `result.json`, tests in `verifier/`, and as
transcript the ATIF trajectory with its continuations, else the agent's own session files.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import Outcome, Trace
from combee.traces.readers.claude_code import ClaudeCodeReader
from combee.traces.readers.codex import CodexReader
from combee.traces.readers.draft import TraceDraft, claim, failure_detail, scored
from combee.traces.readers.messages import Piece, call_of, content_text, first_text, role_of
from combee.traces.readers.openclaw import OpenClawReader
from combee.traces.readers.source import Source
from combee.traces.readers.swe_agent import MiniSweAgentReader, SweAgentReader
from combee.traces.readers.values import flag, number, objects, table, text, when

_SOURCES = frozenset({"user", "agent", "system", "assistant", "environment", "tool"})
_ANSWERS = ("source_call_id", "tool_call_id", "call_id")
_DEEPEST = 20


def is_atif(value: object) -> float:
    """Return how sure it is that the value is a trajectory."""
    record = table(value)
    steps = list(objects(record.get("steps")))
    alike = any(
        text(step.get("source")).lower() in _SOURCES
        and ("message" in step or "observation" in step or "tool_calls" in step)
        for step in steps[:5]
    )
    named = text(record.get("schema_version")).upper().startswith("ATIF")
    if named:
        return 1.0
    return 0.75 if alike else 0.0


class AtifReader:
    """Reads one trajectory a record."""

    name = "atif"
    fields = ("schema_version", "session_id", "agent", "steps", "source")

    def sniff(self, source: Source) -> float:
        """Look for the schema version, or for steps that have a source and a message."""
        return max((is_atif(value) for value in source.first), default=0.0)

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the trajectory of each record."""
        for line, value in source.records():
            draft = TraceDraft(source)
            add_trajectory(draft, table(value), line=line)
            yield from draft.trace(outcome=_claimed(table(value)), line=line)


def _claimed(record: dict[str, object]) -> Outcome | None:
    for place in (record, table(record.get("extra")), table(record.get("final_metrics")), table(record.get("outcome"))):
        success = flag(place.get("success"))
        if success is not None:
            return claim(success)
    return None


def add_trajectory(
    draft: TraceDraft, record: dict[str, object], *, agent: str | None = None, line: int | None = None, depth: int = 0
) -> None:
    """Add the steps of a trajectory, and those of the sub-agents inside it as side chains."""
    if depth > _DEEPEST:
        draft.source.skip(f"sub-agents nested more than {_DEEPEST} deep", line)
        return
    who = table(record.get("agent"))
    if agent is None:
        found = {
            "agent": text(who.get("name")),
            "model": text(who.get("model_name")),
            "session": text(record.get("session_id")),
            "atif": text(record.get("schema_version")),
        }
        for key, value in found.items():
            draft.meta.setdefault(key, value)
    inside = {text(sub.get("trajectory_id")): sub for sub in objects(record.get("subagent_trajectories"))}
    for step in objects(record.get("steps")):
        if step.get("is_copied_context"):
            draft.source.note("copied context is not read again", line)
            continue
        for name in _add_step(draft, step, agent, line):
            if name in inside:
                add_trajectory(draft, inside.pop(name), agent=name, line=line, depth=depth + 1)
    for at, (name, sub) in enumerate(inside.items()):
        add_trajectory(draft, sub, agent=name or f"subagent-{at + 1}", line=line, depth=depth + 1)
    if agent is None:
        draft.results_after_calls()


def _add_step(draft: TraceDraft, step: dict[str, object], agent: str | None, line: int | None) -> list[str]:
    """Add the message, the calls and the results of one step; return the sub-agents that its results name."""
    stamp = when(step.get("timestamp"))
    role = role_of(step.get("source") or step.get("role"))
    said = content_text(step["message"]) if step.get("message") is not None else content_text(step.get("content") or "")
    thinking = content_text(step.get("reasoning_content") or "").strip()
    if thinking and thinking != said.strip():
        said = f"[thinking] {thinking}\n{said}" if said else f"[thinking] {thinking}"
    calls = tuple(call_of(call) for call in objects(step.get("tool_calls")))
    if role == "tool":
        answers = first_text(step, _ANSWERS)
        piece = Piece("tool", said, calls, answers or None, flag(step.get("is_error")))
    else:
        piece = Piece(role, said, calls)
    draft.add(piece, timestamp=stamp, agent=agent, line=line)
    observation = step.get("observation")
    if isinstance(observation, str):
        only = calls[0].id if len(calls) == 1 and calls[0].id else None
        draft.add(Piece("tool", observation, answers=only), timestamp=stamp, agent=agent, line=line)
        return []
    named: list[str] = []
    listed = observation if isinstance(observation, list) else table(observation).get("results")
    for result in objects(listed):
        answers = first_text(result, _ANSWERS) or (calls[0].id if len(calls) == 1 else "")
        content = result.get("content", result.get("output"))
        said = content_text(content) if content is not None else ""
        piece = Piece("tool", said, (), answers or None, _failed(result))
        draft.add(piece, timestamp=stamp, agent=agent, line=line)
        named += [text(ref.get("trajectory_id")) for ref in objects(result.get("subagent_trajectory_ref"))]
    return named


def _failed(result: dict[str, object]) -> bool | None:
    extra = table(result.get("extra"))
    raw = table(table(extra.get("tool_result_metadata")).get("raw_tool_result"))
    for place in (result, extra, raw):
        known = flag(place.get("is_error"))
        if known is not None:
            return known
        code = number(place.get("exit_code"))
        if code is not None:
            return code != 0
    return None


_LOG_BYTES = 4 << 20
_RESULT_BYTES = 16 << 20
_MOST_FILES = 2000
_SESSIONS = (ClaudeCodeReader(), CodexReader(), MiniSweAgentReader(), SweAgentReader(), OpenClawReader())


class HarborReader:
    """Reads one trial a folder; the whole folder is the trial's."""

    name = "harbor"
    fields = ("task_name", "trial_name", "verifier_result", "agent_info")

    def sniff(self, source: Source) -> float:
        """Look for a result that names its trial and its verifier."""
        if "result.json" not in source.names:
            return 0.0
        result = _result(source)
        named = "trial_name" in result and ("verifier_result" in result or "agent_info" in result)
        return 1.0 if named else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the trial."""
        result = _result(source)
        draft = TraceDraft(source)
        info = table(result.get("agent_info"))
        draft.run = text(result.get("id")) or text(result.get("trial_name"))
        draft.meta = {
            "task_id": text(result.get("task_name")),
            "trial": text(result.get("trial_name")),
            "agent": text(info.get("name")),
            "model": text(table(info.get("model_info")).get("name")),
        }
        outcome = _outcome(source, result)
        task = ""
        homes = [f"steps/{step}/agent" for step in _below(source, "steps")] or ["agent"]
        for home in homes:
            if source.child(home).folder and not _add_atif(draft, source.child(home)):
                session = _session(source.child(home))
                if session is not None and not draft.steps:
                    draft.steps = list(session.steps)
                    named = {key: value for key, value in draft.meta.items() if value}
                    task, draft.meta = session.task, {**session.meta, **named}
                    break
                _add_logs(draft, source.child(home))
        if not draft.steps:
            source.note("the trial holds no transcript, only its outcome")
        first = next((step.text for step in draft.steps if step.role == "user"), "")
        yield from draft.trace(task=task or first or text(result.get("task_name")), outcome=outcome)


def _result(source: Source) -> dict[str, object]:
    return table(source.child("result.json").quiet().read_json(_RESULT_BYTES))


def _below(source: Source, name: str) -> tuple[str, ...]:
    return source.child(name).names if name in source.names else ()


def _add_atif(draft: TraceDraft, home: Source) -> bool:
    """Add the main trajectory, its continuations in order, and other trajectories as side chains."""
    names = [name for name in home.names if name.startswith("trajectory") and name.endswith(".json")]
    if "trajectory.json" not in names:
        return False
    continued = sorted((name for name in names if ".cont-" in name), key=lambda name: (len(name), name))
    aside = [name for name in names if name != "trajectory.json" and name not in continued]
    before = len(draft.steps)
    for name in ["trajectory.json", *continued]:
        add_trajectory(draft, table(home.child(name).read_json()))
    for name in aside:
        add_trajectory(draft, table(home.child(name).read_json()), agent=name.split(".")[1])
    return len(draft.steps) > before


def _session(home: Source) -> Trace | None:
    """Return the longest of the agent's own session files."""
    best: Trace | None = None
    for source in _files(home):
        if source.name.endswith((".json", ".jsonl", ".traj")):
            for reader in _SESSIONS:
                if reader.sniff(source) >= 0.8:
                    for trace in reader.read(source):
                        if best is None or len(trace.steps) > len(best.steps):
                            best = trace
                    break
    return best


def _files(home: Source) -> Iterator[Source]:
    waiting, seen = [home], 0
    while waiting:
        folder = waiting.pop()
        for name in folder.names:
            entry = folder.child(name)
            seen += 1
            if seen > _MOST_FILES:
                return
            if entry.folder:
                waiting.append(entry)
            else:
                yield entry


def _add_logs(draft: TraceDraft, home: Source) -> None:
    """Add the agent's plain logs, where there is nothing better."""
    for name in home.names:
        if name.endswith((".txt", ".log")) and (data := home.child(name).read_bytes(_LOG_BYTES)):
            draft.add(Piece("tool", data.decode("utf-8", "replace")))


def _rewards(result: dict[str, object]) -> dict[str, float]:
    verified = table(result.get("verifier_result"))
    listed = table(verified.get("rewards")) or {key: verified[key] for key in ("reward", "score") if key in verified}
    return {name: value for name, reward in listed.items() if (value := number(reward)) is not None}


def _outcome(source: Source, result: dict[str, object]) -> Outcome | None:
    trouble = failure_detail(result.get("exception_info"))
    if result.get("reward_valid") is False:  # the model's service failed, say: what was judged is no work of the agent
        return Outcome(detail=trouble) if trouble else None
    rewards = _rewards(result)
    tests: dict[str, bool] = {}
    if "verifier" in source.names:
        verifier = source.child("verifier")
        if not rewards and "reward.txt" in verifier.names:
            reward = number((verifier.child("reward.txt").read_bytes(1000) or b"").decode("utf-8", "replace").strip())
            rewards = {} if reward is None else {"reward": reward}
        if "ctrf.json" in verifier.names:
            listed = table(table(verifier.child("ctrf.json").read_json(_RESULT_BYTES)).get("results")).get("tests")
            tests = {text(test.get("name")): text(test.get("status")) == "passed" for test in objects(listed)}
    if not rewards:
        return Outcome(tests=tests, detail=trouble) if trouble or tests else None
    score = rewards.get("reward", rewards.get("score", sum(rewards.values()) / len(rewards)))
    detail = ", ".join(f"{name}={value:g}" for name, value in sorted(rewards.items())) if len(rewards) > 1 else ""
    return scored(score, tests=tests, detail="; ".join(part for part in (detail, trouble) if part))
