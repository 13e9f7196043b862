"""Harbor trial folders: `result.json` with the verifier's rewards, `agent/` with the transcript, tests in `verifier/`.

The transcript is the ATIF trajectory with its continuations where there is one, else the agent's own session files.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import Outcome, Trace
from combee.traces.readers.atif import add_trajectory
from combee.traces.readers.claude_code import ClaudeCodeReader
from combee.traces.readers.codex import CodexReader
from combee.traces.readers.draft import Draft
from combee.traces.readers.messages import Piece
from combee.traces.readers.mini_swe_agent import MiniSweAgentReader
from combee.traces.readers.openclaw import OpenClawReader
from combee.traces.readers.outcomes import failure_detail, scored
from combee.traces.readers.source import Source
from combee.traces.readers.swe_agent import SweAgentReader
from combee.traces.readers.values import number, objects, table, text

__all__ = ["HarborReader"]

_LOG_BYTES = 4 << 20
_RESULT_BYTES = 16 << 20
_MOST_FILES = 2000
_SESSIONS = (ClaudeCodeReader(), CodexReader(), MiniSweAgentReader(), SweAgentReader(), OpenClawReader())


class HarborReader:
    """Reads one trial a folder; the whole folder is the trial's."""

    name = "harbor"

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
        draft = Draft(source)
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


def _add_atif(draft: Draft, home: Source) -> bool:
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


def _add_logs(draft: Draft, home: Source) -> None:
    """Add the agent's plain logs, where there is nothing better."""
    for name in home.names:
        if name.endswith((".txt", ".log")) and (data := home.child(name).read_bytes(_LOG_BYTES)):
            draft.add(Piece("tool", data.decode("utf-8", "replace")))


def _rewards(result: dict[str, object]) -> dict[str, float]:
    verified = table(result.get("verifier_result"))
    listed = table(verified.get("rewards")) or {key: verified[key] for key in ("reward", "score") if key in verified}
    return {name: value for name, reward in listed.items() if (value := number(reward)) is not None}


def _outcome(source: Source, result: dict[str, object]) -> Outcome | None:
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
    trouble = failure_detail(result.get("exception_info"))
    if not rewards:
        return Outcome(tests=tests, detail=trouble) if trouble or tests else None
    score = rewards.get("reward", rewards.get("score", sum(rewards.values()) / len(rewards)))
    detail = ", ".join(f"{name}={value:g}" for name, value in sorted(rewards.items())) if len(rewards) > 1 else ""
    return scored(score, tests=tests, detail="; ".join(part for part in (detail, trouble) if part))
