"""Readers are found by name and by content; installed packages may add theirs; one that fails costs only its file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from combee.errors import UsageError
from combee.kernel.journal import Journal
from combee.redaction import Step, Trace, to_jsonl
from combee.run import plugins
from combee.traces.mining import failed_calls, users_of
from combee.traces.readers import Source, TraceReader, read, reader, readers

WriteLines = Callable[[str, Sequence[object]], Path]


class NotesReader:
    """A third party's reader of plain text notes."""

    name = "notes"

    def sniff(self, source: Source) -> float:
        return 0.9 if source.kind == "other" and source.path.suffix == ".note" else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        text = (source.read_bytes() or b"").decode()
        if "crash" in text:
            raise KeyError("crash")
        yield Trace("n", text, (Step(0, "user", text),))


NOT_A_READER = "a text"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def offer(value: str) -> None:
        def points(group: str) -> tuple[EntryPoint, ...]:
            assert group == "combee.readers"
            return (EntryPoint("notes", value, group),)

        monkeypatch.setattr(plugins, "entry_points", points)
        monkeypatch.setattr(EntryPoint, "load", lambda point: globals()[point.value.partition(":")[2]])
        readers.cache_clear()

    yield offer
    readers.cache_clear()


def test_every_built_in_reader_keeps_the_protocol_and_has_a_name_of_its_own() -> None:
    names = [each.name for each in readers()]
    assert all(isinstance(each, TraceReader) for each in readers())
    assert len(names) == len(set(names))
    assert reader("swe_agent").name == "swe_agent"


def test_an_unknown_format_is_the_users_error_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="swe-agnt") as caught:
        read(".", format="swe-agnt")
    assert "swe_agent" in (caught.value.hint or "")


def test_an_installed_package_adds_a_format(installed: Callable[[str], None], tmp_path: Path) -> None:
    installed("x:NotesReader")
    (tmp_path / "a.note").write_text("remember")
    (tmp_path / "b.note").write_text("crash")
    result = read(tmp_path)
    (trace,) = result
    assert (trace.task, trace.meta["format"], trace.meta["source"]) == ("remember", "notes", "a.note")
    assert [str(notice) for notice in result.report.skipped] == ["b.note: the notes reader failed: KeyError: 'crash'"]


@pytest.mark.parametrize("value", ["x:NOT_A_READER", "x:missing"])
def test_a_broken_installed_reader_is_named(installed: Callable[[str], None], value: str) -> None:
    installed(value)
    with pytest.raises(UsageError, match="'notes'"):
        readers()


def test_a_format_that_is_named_is_used_even_where_another_looks_surer(write_lines: WriteLines) -> None:
    value = {"trajectory_format": "mini-swe-agent-1.1", "messages": [{"role": "user", "content": "x"}], "info": {}}
    path = write_lines("a.json", [value])
    assert [trace.meta["format"] for trace in read(path)] == ["mini_swe_agent"]
    assert [trace.meta["format"] for trace in read(path, "openai_chat")] == ["openai_chat"]


def test_a_named_format_leaves_the_others_files_of_a_folder_named(write_lines: WriteLines, tmp_path: Path) -> None:
    write_lines("a.json", [{"trajectory_format": "mini-swe-agent-1.1", "messages": [{"role": "user", "content": "x"}]}])
    write_lines("b.json", [{"eval": {"task": "t"}, "samples": []}])
    result = read(tmp_path, "mini_swe_agent")
    assert len(list(result)) == 1
    assert [notice.path for notice in result.report.skipped] == ["b.json"]


def test_reading_is_a_stream_in_the_order_of_names(write_lines: WriteLines, tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write_lines(f"{name}.jsonl", [{"messages": [{"role": "user", "content": f"{name}{at}"}]} for at in range(3)])
    result = read(tmp_path)
    assert next(result).task == "a0"
    assert result.report.traces == 1
    assert [trace.task for trace in result] == ["a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2"]
    assert (result.report.traces, result.report.steps, result.report.files["openai_chat"]) == (9, 9, 3)
    assert str(result.report).startswith("9 traces (openai_chat 9), 9 steps, 0 tool calls")


def test_the_report_of_a_run_can_be_shown_as_text(write_lines: WriteLines) -> None:
    result = read(write_lines("a.jsonl", [json.dumps({"messages": [{"role": "user", "content": "x"}]}), "{"]))
    list(result)
    assert "a.jsonl:2: not JSON" in str(result.report)


def test_the_page_on_readers_holds_a_reader_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "evidence" / "readers.md").read_text(encoding="utf-8")
    (events,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    own_reader, converts = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    made: dict[str, object] = {}
    exec(own_reader, made)  # noqa: S102 - the page's own code
    point = EntryPoint("eventlog", "x:y", "combee.readers")
    monkeypatch.setattr(plugins, "entry_points", lambda group: (point,))
    monkeypatch.setattr(EntryPoint, "load", lambda point: made["EventLogReader"])
    readers.cache_clear()
    try:
        (tmp_path / "a.jsonl").write_text(events, encoding="utf-8")
        result = read(tmp_path)
        (trace,) = result
        assert (trace.meta["format"], trace.task, result.report.lost) == ("eventlog", "Mend the build", 0)
        assert [step.is_error for step in trace.steps] == [None, None, True]
        assert trace.outcome is not None
        assert trace.outcome.success is False
    finally:
        readers.cache_clear()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "b")
    Path("events.jsonl").write_text(events, encoding="utf-8")
    exec(converts, {})  # noqa: S102
    (same,) = read(Path("runs.jsonl"))
    assert [step.role for step in same.steps] == [step.role for step in trace.steps] == ["user", "assistant", "tool"]
    assert failed_calls(same) == failed_calls(trace) == 1


def test_a_stored_trace_keeps_the_format_and_the_file_that_it_was_read_from(tmp_path: Path) -> None:
    read_once = [replace(trace, meta={**trace.meta, "format": name, "source": "a/b.json"}) for name, trace in _RUNS]
    (tmp_path / "stored.jsonl").write_text("".join(to_jsonl(read_once)), encoding="utf-8")
    again = list(read(tmp_path / "stored.jsonl"))
    assert [trace.meta["format"] for trace in again] == ["mini_swe_agent", "tau_bench", "codex"]
    assert {trace.meta["source"] for trace in again} == {"a/b.json"}
    assert [users_of(trace) for trace in again] == ["graders", "customers", "developers"]


_RUNS = [
    (name, Trace(name, "mend `a.py`", (Step(0, "user", "mend `a.py`"),)))
    for name in ("mini_swe_agent", "tau_bench", "codex")
]


def test_the_runs_of_combee_in_a_folder_are_passed_over_and_named(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "mine"
    with Journal.open(run):
        (run / "traces.jsonl").write_text("".join(to_jsonl([_RUNS[2][1]])), encoding="utf-8")
    whole = read(tmp_path)
    assert list(whole) == []
    assert [str(each) for each in whole.report.skipped] == [
        "runs/mine: a run of Combee: name its folder to read what it kept"
    ]
    assert [trace.id for trace in read(run)] == ["codex"]
