"""Every recorded file: how many traces, steps and tool calls it holds, how it ended, and what was not read and why."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from pathlib import Path

import pytest

from combee.redaction import Outcome, Trace, from_jsonl, to_jsonl
from combee.traces.readers import Report, read

MINI = "terminal_bench1/swe-agent-mini_claude-4-sonnet"
# source: (format, traces, steps, tool calls, outcome of the first as (success, score, claimed, tests passed, tests))
GOLDEN: dict[str, tuple[str, int, int, int, tuple[bool | None, float | None, bool, int, int] | None]] = {
    "atif/from_claudecode_session_b.trajectory.json": ("atif", 1, 3, 0, None),
    "atif/from_claudecode_todowrite_examples.trajectory.json": ("atif", 1, 11, 3, None),
    "atif/from_sweagent_6e44b9__sweagenttestrepo-1c2844.trajectory.json": ("atif", 1, 10, 5, None),
    "atif/from_sweagent_marshmallow-1867_function_calling.trajectory.json": ("atif", 1, 21, 11, None),
    "atif/from_sweagent_pydicom__pydicom-1458.trajectory.json": ("atif", 1, 23, 12, None),
    "claude_code/representative_messages.jsonl": ("claude_code", 1, 12, 2, None),
    "claude_code/todowrite_examples.jsonl": ("claude_code", 1, 12, 3, None),
    "codex/converted_from_claudecode_todowrite_examples.trajectory.jsonl": ("codex", 1, 11, 3, None),
    "inspect_ai/2026-11-29T14-59-04-00-00_task_D78kH5qWMk8HvguraNdiPi.json": (
        "inspect_ai", 2, 6, 1, (True, 1.0, False, 0, 0),
    ),
    "inspect_ai/2026-11-29T14-59-06-00-00_task_3baRfqLTsAghP2HkEfy2Zo.eval": (
        "inspect_ai", 2, 6, 1, (True, 1.0, False, 0, 0),
    ),
    "langsmith/runs.jsonl": ("langsmith", 1, 6, 1, None),
    "mini_swe_agent/local.traj.json": ("mini_swe_agent", 1, 6, 2, None),
    "mini_swe_agent/v2_deterministic.traj.json": ("mini_swe_agent", 1, 6, 2, (True, None, True, 0, 0)),
    "openai_chat/messages.jsonl": ("openai_chat", 2, 6, 0, None),
    "openai_chat/requests_responses.jsonl": ("openai_chat", 2, 6, 0, None),
    "openclaw/b3db607f-7ae8-4089-b806-44800e961672.jsonl": ("openclaw", 1, 16, 3, None),
    "openhands": ("openhands", 1, 3, 1, None),
    "otel_genai/spans.jsonl": ("otel_genai", 2, 6, 0, None),
    "swe_agent/6e44b9__sweagenttestrepo-1c2844.traj": ("swe_agent", 1, 12, 5, (True, None, True, 0, 0)),
    "swe_agent/marshmallow-1867_function_calling.traj": ("swe_agent", 1, 24, 11, (True, None, True, 0, 0)),
    "swe_agent/networking_1.traj": ("swe_agent", 1, 9, 4, (True, None, True, 0, 0)),
    "terminal_bench1/orchestrator_qwen-3-coder-480B/failed_jupyter-notebook-server": (
        "terminal_bench", 1, 1, 0, (False, 0.0, False, 0, 4),
    ),
    "terminal_bench1/run_results.json": ("terminal_bench", 400, 400, 0, (False, 0.0, False, 1, 2)),
    f"{MINI}/failed_build-initramfs-qemu": ("terminal_bench", 1, 3, 1, (False, 0.0, False, 0, 1)),
    f"{MINI}/resolved_cartpole-rl-training": ("terminal_bench", 1, 47, 23, (True, 1.0, False, 5, 5)),
}  # fmt: skip
NOT_READ = {
    "README.md": "not JSON: Expecting value (column 1)",
    "index.json": "no reader knows this format",
    "openclaw/b3db607f-7ae8-4089-b806-44800e961672.jsonl": "not JSON: Expecting value (column 1)",  # /speci{"type"
    "terminal_bench1/run_metadata.json": "metadata of a run: holds no trace",
}
HAS_ZSTD = importlib.util.find_spec("zstandard") is not None or (
    importlib.util.find_spec("backports") is not None and importlib.util.find_spec("backports.zstd") is not None
)


@pytest.fixture(scope="module")
def everything(traces_dir: Path) -> tuple[dict[str, list[Trace]], Report]:
    result = read(traces_dir)
    found: dict[str, list[Trace]] = defaultdict(list)
    for trace in result:
        found[trace.meta["source"]].append(trace)
    return found, result.report


def summary(outcome: Outcome | None) -> tuple[bool | None, float | None, bool, int, int] | None:
    if outcome is None:
        return None
    return outcome.success, outcome.score, outcome.claimed, sum(outcome.tests.values()), len(outcome.tests)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_recorded_file_reads_as_it_is(everything: tuple[dict[str, list[Trace]], Report], name: str) -> None:
    found, report = everything
    if name.endswith(".eval") and not HAS_ZSTD:
        assert next(n.reason for n in report.skipped if n.path == name).startswith("members packed with Zstandard")
        return
    traces = found[name]
    steps = [step for trace in traces for step in trace.steps]
    seen = (
        traces[0].meta["format"],
        len(traces),
        len(steps),
        sum(len(step.tool_calls) for step in steps),
        summary(traces[0].outcome),
    )
    assert seen == GOLDEN[name]


def test_nothing_else_is_read_and_what_is_not_is_named(everything: tuple[dict[str, list[Trace]], Report]) -> None:
    found, report = everything
    assert found.keys() <= GOLDEN.keys()
    not_read = {notice.path: notice.reason for notice in report.skipped if not notice.path.endswith(".eval")}
    assert not_read == NOT_READ
    assert {notice.path for notice in report.skipped if notice.line == 1} >= {"README.md"}


def test_every_result_answers_a_call_and_ids_are_unique_within_a_file(
    everything: tuple[dict[str, list[Trace]], Report],
) -> None:
    found, _ = everything
    for name, traces in found.items():
        assert len({trace.id for trace in traces}) == len(traces), name
        for trace in traces:
            calls = {call.id for step in trace.steps for call in step.tool_calls}
            assert {step.answers for step in trace.steps if step.answers is not None} <= calls
            assert [step.index for step in trace.steps] == list(range(len(trace.steps)))


def test_what_was_read_comes_back_from_our_own_lines(
    everything: tuple[dict[str, list[Trace]], Report], tmp_path: Path
) -> None:
    found, _ = everything
    traces = [trace for group in found.values() for trace in group]
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(to_jsonl(traces)), encoding="utf-8")
    with path.open(encoding="utf-8") as lines:
        assert list(from_jsonl(lines)) == traces
    again = list(read(path))
    assert [(trace.id, trace.task, trace.steps, trace.outcome) for trace in again] == [
        (trace.id, trace.task, trace.steps, trace.outcome) for trace in traces
    ]


def test_ids_do_not_depend_on_where_the_folder_lies(traces_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "deep"
    copy.mkdir(parents=True)
    for name in ("swe_agent/networking_1.traj", "langsmith/runs.jsonl"):
        (copy / Path(name).name).write_bytes((traces_dir / name).read_bytes())
    names = ("swe_agent/networking_1.traj", "langsmith/runs.jsonl")
    here = {trace.id for name in names for trace in read(traces_dir / name)}
    assert {trace.id for trace in read(copy)} == here


def test_the_talk_of_an_agent_inside_a_terminal_is_taken_apart(
    everything: tuple[dict[str, list[Trace]], Report],
) -> None:
    found, _ = everything
    (trace,) = found[f"{MINI}/resolved_cartpole-rl-training"]
    turn = next(step for step in trace.steps if step.tool_calls and step.tool_calls[0].name == "bash")
    assert turn.tool_calls[0].arguments == "ls -la"
    assert "THOUGHT: I need to start by analyzing" in turn.text
    assert "Waiting for the LM" not in turn.text
    answer = trace.steps[turn.index + 1]
    assert (answer.answers, answer.is_error) == (turn.tool_calls[0].id, False)
