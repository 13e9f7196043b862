"""Random JSON in every reader's own fields, and damaged real files: no reader raises, results keep their promises."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from combee.redaction import Trace, clean, from_jsonl, redact_trace, to_jsonl
from combee.traces.readers import Report, Source, read, readers

_KEYS = """
action actions agent args arguments arrayValue attachments attributes body call_id calls cause choices combee_trace
command content context dataset_name details dotted_order epoch error eval events exit_code exit_status explanation
extra extras feedback_stats function gen_ai.input.messages gen_ai.operation.name gen_ai.output.messages
gen_ai.prompt.0.content gen_ai.tool.name generations history i id info input inputs instruction isMeta isSidechain
is_error is_resolved key kind kwargs leafUuid llm_message message messages metadata name object observation ordinal
output outputs parentId parentUuid parent_run_id parser_results parts payload report request resolved resourceSpans
response results reward role run_id run_type samples schema_version scopeSpans score scores sessionId session_meta
source source_call_id spanId span_id spans startTimeUnixNano start_time status steps stringValue
subagent_history_start_ordinal subagent_trajectories success summary target task_ids test_result tests text thinking
thought timestamp toolUseResult tool_call tool_call_id tool_calls traceId trace_id trajectory trajectory_format
trajectory_id type uuid value values
"""
KEYS = _KEYS.split()
_WORDS = """
user assistant tool text tool_use tool_result session message response_item summary llm chat execute_tool ATIF-v1.7
mini-swe-agent-1.1 C 1e999 0 [] { MessageEvent ActionEvent function_call_output 2026-01-01
"""
WORDS = [*_WORDS.split(), "", "\ud800", "attachment://" + "a" * 32, "data:image/png;base64,AAAA"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=30,
)


def drain(traces: Iterator[Trace]) -> list[Trace]:
    """Read all, and hold every trace to what the rest of the program relies on."""
    found = list(traces)
    for trace in found:
        assert list(from_jsonl(to_jsonl([trace]))) == [trace]
        repr(trace).encode()  # nothing that UTF-8 cannot hold
        redact_trace(clean(trace, 200))
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=4))
def test_no_reader_raises_on_any_json(tmp_path_factory: pytest.TempPathFactory, values: list[object]) -> None:
    path = tmp_path_factory.mktemp("fuzz", numbered=True) / "agent-x.jsonl"
    path.write_text("\n".join(json.dumps(value) for value in values), encoding="utf-8")
    for each in readers():
        source = Source(path, path.name, Report())
        assert 0 <= each.sniff(source) <= 1
        if each.name != "combee":  # our own form is kept as it was written, surrogates too
            drain(each.read(source))


def mutate(value: object, chance: random.Random, rate: float) -> object:
    """Return the value with some of its parts changed for others, dropped or doubled."""
    if chance.random() < rate:
        return chance.choice([None, True, 0, -1, 1e308, "", "x", "\udc00", [], {}, [value], {"a": value}, "9" * 30])
    if isinstance(value, dict):
        items = [(key, mutate(item, chance, rate)) for key, item in value.items() if chance.random() > rate / 2]
        return dict(items)
    if isinstance(value, list):
        kept = [mutate(item, chance, rate) for item in value if chance.random() > rate / 2]
        return kept + kept[:1] if chance.random() < rate else kept
    return value


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes cut, spliced, or with single bytes changed."""
    how = chance.randrange(4)
    at = chance.randrange(len(data) or 1)
    if how == 0:
        return data[:at]
    if how == 1:
        return data[at:] + data[:at]
    if how == 2:
        return data[:at] + chance.randbytes(8) + data[at:]
    changed = bytearray(data)
    for _ in range(20):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


@pytest.fixture(scope="module")
def real_files(traces_dir: Path) -> list[Path]:
    return sorted(path for path in traces_dir.rglob("*") if path.is_file() and path.stat().st_size < 60_000)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**9))
def test_damaged_real_files_are_read_or_named(real_files: list[Path], tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    original = chance.choice(real_files)
    path = tmp_path / original.name
    path.write_bytes(damaged(original.read_bytes(), chance))
    result = read(path)
    found = drain(result)
    assert found or result.report.lost
    assert not [notice for notice in result.report.skipped if "reader failed" in notice.reason]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**9), st.sampled_from([0.01, 0.05, 0.2]))
def test_real_records_with_changed_parts_are_read_or_named(
    real_files: list[Path], tmp_path: Path, seed: int, rate: float
) -> None:
    chance = random.Random(seed)
    original = chance.choice([path for path in real_files if path.suffix in {".json", ".jsonl", ".traj"}])
    text = original.read_text(encoding="utf-8")
    try:
        values: list[object] = [json.loads(text)]
    except ValueError:
        values = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    path = tmp_path / original.name
    path.write_text("\n".join(json.dumps(mutate(value, chance, rate)) for value in values), encoding="utf-8")
    for each in readers():
        source = Source(path, path.name, Report())
        if each.sniff(source) > 0:
            drain(each.read(source))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**9))
def test_changed_team_folders_are_read_or_named(write_team: Callable[..., Path], seed: int) -> None:
    chance = random.Random(seed)
    root = write_team(f"data-{seed}", seed=seed)
    for path in sorted(root.rglob("*.json")):
        if chance.random() < 0.3:
            value = cast("object", json.loads(path.read_text(encoding="utf-8")))
            path.write_text(json.dumps(mutate(value, chance, 0.2)), encoding="utf-8")
        elif chance.random() < 0.1:
            path.write_bytes(damaged(path.read_bytes(), chance))
    result = read(root)
    drain(result)
    assert not [notice for notice in result.report.skipped if "reader failed" in notice.reason]
