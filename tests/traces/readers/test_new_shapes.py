"""Shapes that agents write today: background commands, rollbacks, streams, forks, damaged and packed files."""

# ruff: noqa: E501 - records stand on one line, as they are written

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from combee.redaction import Trace
from combee.traces.mining import survey
from combee.traces.readers import Report, read

Read = Callable[[Path], tuple[list[Trace], Report]]
WriteLines = Callable[[str, Sequence[object]], Path]
Line = dict[str, object]

MISSING = "sh: 1: vitest: not found"
SAID = "`vitest: not found`"


def item(**payload: object) -> Line:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload}


def event(**payload: object) -> Line:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "event_msg", "payload": payload}


def spoke(text: str, role: str = "user") -> Line:
    return item(type="message", role=role, content=[{"type": "input_text", "text": text}])


def ran(name: str, arguments: object, output: object, call: str) -> list[Line]:
    made = item(type="function_call", name=name, arguments=json.dumps(arguments), call_id=call)
    return [made, item(type="function_call_output", call_id=call, output=output)]


def session(*lines: Line | list[Line], name: str = "s1") -> list[object]:
    flat: list[object] = [{"timestamp": "t", "type": "session_meta", "payload": {"id": name, "cli_version": "1"}}]
    for line in lines:
        flat += line if isinstance(line, list) else [line]
    return flat


def taught(traces: Sequence[Trace]) -> list[str]:
    return sorted(survey(traces).support())


def block(code: int, body: str) -> str:
    return (
        f"Chunk ID: ab12\nWall time: 0.5120 seconds\nProcess exited with code {code}\nOriginal token count: 9\n"
        f"Output:\n{body}"
    )


def steps(tool: str, key: str, wrap: Callable[[int, str], object]) -> list[Line | list[Line]]:
    return [
        spoke("run the tests"),
        ran(tool, {key: "npm test"}, wrap(127, MISSING), "c1"),
        ran(tool, {key: "npm ci"}, wrap(0, "added 3 packages"), "c2"),
        ran(tool, {key: "npm test"}, wrap(0, "ok"), "c3"),
    ]


def test_codex_exec_command_teaches_the_same_as_shell(read_all: Read, write_lines: WriteLines) -> None:
    def older(code: int, body: str) -> object:
        return json.dumps({"output": body, "metadata": {"exit_code": code}})

    shell, _ = read_all(write_lines("a/r.jsonl", session(*steps("shell", "command", older))))
    unified, _ = read_all(write_lines("b/r.jsonl", session(*steps("exec_command", "cmd", block), name="s2")))
    assert taught(shell) == taught(unified)
    assert taught(unified) == [f"`npm test` failed with {SAID} until `npm ci` was run; then it worked."]
    assert [step.is_error for step in unified[0].steps if step.role == "tool"] == [True, False, False]


def test_codex_cells_are_the_commands_that_they_run(read_all: Read, write_lines: WriteLines) -> None:
    def cell(command: str, output: str, call: str) -> list[Line]:
        code = (
            f"const r = await tools.exec_command({{cmd: {json.dumps(command)}, yield_time_ms: 1000}});\ntext(r.output);"
        )
        made = item(type="custom_tool_call", name="exec", input=code, call_id=call)
        shown = [{"type": "input_text", "text": output}]
        return [made, item(type="custom_tool_call_output", call_id=call, output=shown)]

    done = "Script completed\nWall time 0.2 seconds\nOutput:\n"
    lines = session(
        spoke("run the tests"),
        cell("npm test", done + json.dumps({"output": MISSING, "exit_code": 127}), "c1"),
        cell("npm ci", "Script running with cell ID 7\nWall time 10.0 seconds\nOutput:\n", "c2"),
        ran("wait", {"cell_id": "7", "yield_time_ms": 1000}, done + "added 3 packages", "c3"),
        cell("npm test", done + json.dumps({"output": "ok", "exit_code": 0}), "c4"),
    )
    ((trace,), _) = read_all(write_lines("r.jsonl", lines))
    calls = [call.arguments for step in trace.steps for call in step.tool_calls]
    assert [json.loads(call)["cmd"] for call in calls] == ["npm test", "npm ci", "npm test"]
    assert [step.is_error for step in trace.steps if step.role == "tool"] == [True, None, False]
    assert taught([trace]) == [f"`npm test` failed with {SAID} until `npm ci` was run; then it worked."]


def test_a_command_that_goes_on_ends_with_its_last_output(read_all: Read, write_lines: WriteLines) -> None:
    lines = session(
        spoke("build"),
        ran("exec_command", {"cmd": "make all"}, "Wall time: 1.0 seconds\nProcess running with session ID 3\nOutput:\ncc a.c", "c1"),
        ran("write_stdin", {"session_id": 3, "chars": ""}, block(2, "\nmake: *** [all] Error 1"), "c2"),
    )  # fmt: skip
    ((trace,), _) = read_all(write_lines("r.jsonl", lines))
    (result,) = [step for step in trace.steps if step.role == "tool"]
    assert (result.answers, result.is_error) == ("c1", True)
    assert result.text == "cc a.c\nmake: *** [all] Error 1\nProcess exited with code 2"


@pytest.mark.parametrize(("turns", "left"), [(1, ["one", "three"]), (2, ["three"]), (9, ["three"])])
def test_turns_that_codex_rolled_back_are_void(
    read_all: Read, write_lines: WriteLines, turns: int, left: list[str]
) -> None:
    lines = session(
        spoke("one"),
        event(type="user_message", message="one"),
        ran("shell", {"command": ["ls"]}, "a", "c1"),
        spoke("two"),
        event(type="user_message", message="two"),
        ran("shell", {"command": ["npm", "test"]}, json.dumps({"output": MISSING, "metadata": {"exit_code": 1}}), "c2"),
        event(type="thread_rolled_back", num_turns=turns),
        spoke("three"),
        event(type="user_message", message="three"),
    )
    ((trace,), _) = read_all(write_lines("r.jsonl", lines))
    assert [step.text for step in trace.steps if step.role == "user"] == left
    assert MISSING not in str(trace.steps)


def test_the_stream_of_codex_exec(read_all: Read, write_lines: WriteLines) -> None:
    def done(at: int, **fields: object) -> Line:
        return {"type": "item.completed", "item": {"id": f"item_{at}", **fields}}

    def command(at: int, line: str, output: str, code: int) -> Line:
        status = "failed" if code else "completed"
        return done(at, type="command_execution", command=f"bash -lc '{line}'", aggregated_output=output, exit_code=code, status=status)  # fmt: skip

    lines = [
        {"type": "thread.started", "thread_id": "0199-x"},
        {"type": "turn.started"},
        done(0, type="reasoning", text="**Running tests**"),
        {"type": "item.started", "item": {"id": "item_1", "type": "command_execution", "command": "x", "status": "in_progress"}},
        command(1, "npm test", MISSING, 127),
        command(2, "npm ci", "added 3 packages", 0),
        command(3, "npm test", "ok", 0),
        done(4, type="file_change", changes=[{"path": "a.ts", "kind": "update"}], status="completed"),
        done(5, type="mcp_tool_call", server="docs", tool="search", arguments={"q": "x"}, result=None, error={"message": "no index"}, status="failed"),
        done(6, type="agent_message", text="All pass."),
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}},
    ]  # fmt: skip
    traces, report = read_all(write_lines("run.jsonl", lines))
    assert dict(report.formats) == {"codex_exec": 1}
    assert (report.lost, report.tool_calls) == (0, 5)
    assert traces[0].meta["session"] == "0199-x"
    assert f"`npm test` failed with {SAID} until `npm ci` was run; then it worked." in taught(traces)
    failed = [{"type": "thread.started", "thread_id": "y"}, {"type": "turn.failed", "error": {"message": "quota"}}]
    ((trace,), _) = read_all(write_lines("f/run.jsonl", failed))
    assert trace.outcome is not None
    assert (trace.outcome.success, trace.outcome.claimed, trace.outcome.detail) == (False, True, "quota")


def claude(name: str, uuid: str, parent: str | None, role: str, content: object) -> Line:
    message = {"role": role, "content": content, "id": f"m{uuid}"}
    return {"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": name, "message": message}


def bash(uuid: str, command: str) -> list[Line]:
    return [{"type": "tool_use", "id": f"t{uuid}", "name": "Bash", "input": {"command": command}}]


def result(of: str, said: str, *, error: bool = False) -> list[Line]:
    return [{"type": "tool_result", "tool_use_id": f"t{of}", "content": said, "is_error": error}]


def conversation(name: str) -> list[object]:
    turns: list[tuple[str, object]] = [
        ("user", "run the tests"),
        ("assistant", bash("2", "npm test")),
        ("user", result("2", f"Error: Exit code 127\n{MISSING}", error=True)),
        ("assistant", bash("4", "npm ci")),
        ("user", result("4", "added 3 packages")),
        ("assistant", bash("6", "npm test")),
        ("user", result("6", "ok")),
    ]
    return [
        claude(name, str(at), str(at - 1) if at > 1 else None, role, content)
        for at, (role, content) in enumerate(turns, 1)
    ]


def test_the_stream_of_claude_p(read_all: Read, write_lines: WriteLines) -> None:
    turns = [line for line in conversation("x") if isinstance(line, dict)]
    lines: list[object] = [
        {"type": "system", "subtype": "init", "session_id": "x", "model": "claude-y", "tools": ["Bash"]}
    ]
    lines += [
        {"type": line["type"], "message": line["message"], "parent_tool_use_id": None, "session_id": "x"}
        for line in turns[1:]
    ]
    lines.append(
        {"type": "result", "subtype": "success", "is_error": False, "num_turns": 3, "session_id": "x", "result": "done"}
    )
    traces, report = read_all(write_lines("out.jsonl", lines))
    assert dict(report.formats) == {"claude_stream": 1}
    assert (report.lost, traces[0].meta["model"]) == (0, "claude-y")
    assert traces[0].outcome is not None
    assert (traces[0].outcome.success, traces[0].outcome.claimed) == (True, True)
    assert taught(traces) == [f"`npm test` failed with {SAID} until `npm ci` was run; then it worked."]
    listed, _ = read_all(write_lines("listed.json", [json.dumps(lines)]))
    assert taught(listed) == taught(traces)


def test_records_that_a_fork_repeats_count_once(tmp_path: Path, read_all: Read, write_lines: WriteLines) -> None:
    fork = [
        *conversation("b"),
        claude("b", "8", "7", "user", "now lint"),
        claude("b", "9", "8", "assistant", bash("9", "npm run lint")),
    ]
    write_lines("p/a.jsonl", conversation("a"))
    write_lines("p/b.jsonl", fork)
    write_lines("p/c.jsonl", conversation("c"))  # nothing of its own
    traces, report = read_all(tmp_path / "p")
    assert [len(trace.steps) for trace in traces] == [7, 2]
    assert (report.twice, report.lost) == (1, 0)
    assert list(survey(traces).support().values()) == [1]
    assert [trace.task for trace in traces] == ["run the tests"] * 2


def test_a_forked_codex_session_counts_its_own_turns(tmp_path: Path, read_all: Read, write_lines: WriteLines) -> None:
    first = [spoke("one"), *ran("shell", {"command": ["ls"]}, "a", "call_1")]
    write_lines("p/a.jsonl", session(first))
    write_lines("p/b.jsonl", session(first, spoke("two"), ran("shell", {"command": ["pwd"]}, "/", "call_2"), name="s2"))
    traces, _ = read_all(tmp_path / "p")
    assert [[step.text for step in trace.steps if step.role == "user"] for trace in traces] == [["one"], ["two"]]


def test_nul_bytes_and_torn_records_cost_only_themselves(tmp_path: Path, read_all: Read) -> None:
    lines = [json.dumps(line).encode() for line in conversation("a")]
    holes = tmp_path / "holes.jsonl"
    holes.write_bytes(b"\0" * 700 + b"\n".join([*lines[:2], b"\0" * 300, *lines[2:]]) + b"\n")
    traces, report = read_all(holes)
    assert (len(traces[0].steps), report.lost) == (7, 0)
    assert any("NUL" in str(note) for note in report.notes)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"\n".join([*lines[:4], lines[4][:60] + lines[5], lines[6], lines[6][:40]]) + b"\n")
    traces, report = read_all(torn)
    assert [step.index for step in traces[0].steps] == list(range(6))
    assert report.lost == 2
    assert "npm test" in str(traces[0].steps[-2].tool_calls)
    joined = tmp_path / "joined.jsonl"
    joined.write_bytes(lines[0] + lines[1] + b"\n" + b"\n".join(lines[2:]))
    assert len(read_all(joined)[0][0].steps) == 7


def test_what_lies_inside_a_torn_record_is_no_record(tmp_path: Path, read_all: Read) -> None:
    lines = [json.dumps(line).encode() for line in conversation("a")]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([*lines[:6], lines[6][:-20]]) + b"\n")
    traces, report = read_all(path)
    assert (len(traces[0].steps), report.lost) == (6, 1)


def packed_zip(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def packed_tar(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def test_gzip_zip_and_tar_are_read_as_what_they_hold(tmp_path: Path, read_all: Read) -> None:
    lines = "\n".join(json.dumps(line) for line in conversation("a")).encode() + b"\n"
    other = "\n".join(
        json.dumps(line) for line in session(spoke("hi"), ran("shell", {"command": ["ls"]}, "a", "c"))
    ).encode()
    trial = json.dumps(
        {
            "is_resolved": True,
            "parser_results": {"test_a": "passed"},
            "task_id": "t",
            "trial_name": "t.1",
            "instruction": "x",
        }
    ).encode()
    (tmp_path / "plain.jsonl").write_bytes(lines)
    expected, _ = read_all(tmp_path / "plain.jsonl")
    for name, make in (
        ("a.jsonl.gz", lambda path: path.write_bytes(gzip.compress(lines))),
        ("a.zip", lambda path: packed_zip(path, {"x/a.jsonl": lines})),
        ("a.tar.gz", lambda path: packed_tar(path, {"x/a.jsonl": lines})),
        ("b.zip", lambda path: packed_zip(path, {"a.jsonl.gz": gzip.compress(lines)})),
    ):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        make(folder / name)
        for place in (folder, folder / name):
            traces, report = read_all(place)
            assert [trace.id for trace in traces] == [expected[0].id], (name, report)
            assert name in traces[0].meta["source"]
    packed_zip(
        tmp_path / "many.zip",
        {
            "s/a.jsonl": lines,
            "s/b.jsonl": other,
            "t/t.1/results.json": trial,
            "../evil.jsonl": lines,
            "README.md": b"# hi",
        },
    )
    traces, report = read_all(tmp_path / "many.zip")
    assert sorted(report.formats) == ["claude_code", "codex", "terminal_bench"]
    assert any("leads out of the archive" in str(notice) for notice in report.skipped)
    assert not (tmp_path.parent / "evil.jsonl").exists()


def test_damaged_archives_are_named(tmp_path: Path, read_all: Read) -> None:
    lines = "\n".join(json.dumps(line) for line in conversation("a")).encode()
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(lines * 50)[:300])
    packed_zip(tmp_path / "cut.zip", {"a.jsonl": lines})
    whole = (tmp_path / "cut.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.zip").write_bytes(b"PK\x05\x06" + b"\0" * 18)
    _, report = read_all(tmp_path)
    named = {notice.path for notice in report.skipped}
    assert {"cut.jsonl.gz", "cut.zip", "empty.zip"} <= named


def test_a_format_that_is_named_is_obeyed_in_a_folder(tmp_path: Path, write_lines: WriteLines) -> None:
    line = {"type": "message", "id": "1", "timestamp": "t", "message": {"role": "user", "content": "hello"}}
    write_lines("p/a.jsonl", [line])
    write_lines("p/b.txt", ["no json"])
    assert not list(read(tmp_path / "p"))
    named = read(tmp_path / "p", "openclaw")
    assert [trace.task for trace in named] == ["hello"]
    assert [notice.path for notice in named.report.skipped] == ["b.txt"]


def test_an_unknown_format_says_which_known_one_it_nearly_is(read_all: Read, write_lines: WriteLines) -> None:
    line = {
        "type": "user",
        "session": "x",
        "uuid": "1",
        "parentUuid": None,
        "message": {"role": "user", "content": "hi"},
    }
    _, report = read_all(write_lines("a.jsonl", [line, line]))
    (notice,) = report.skipped
    assert "most like claude_code, but has no sessionId" in str(notice)
    _, report = read_all(write_lines("b.jsonl", [{"a": 1}]))
    assert str(report.skipped[0]).endswith("no reader knows this format")
