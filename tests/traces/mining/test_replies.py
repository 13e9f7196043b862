"""Results that are errors in words or as JSON count as failed calls; harmless text does not; quotes are whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combee.redaction import Step, ToolCall, Trace
from combee.traces.mining import failed_calls, survey
from combee.traces.mining.attempts import attempts
from combee.traces.mining.faults import fault_of, reply_error, unwrapped
from tests.traces.mining.runs import recorded


def asked(result: str, tool: str = "query", name: str = "t", page: int = 0) -> Trace:
    call = ToolCall("c", tool, json.dumps({"index": "docs", "page": page}))
    return Trace(name, "x", (Step(0, "assistant", "", (call,)), Step(1, "tool", result, answers="c")))


ERRORS = [
    ('{"error": "index \'docs\' not found"}', '{"error": "index \'docs\' not found"}'),
    ('{"error": "no \\"docs\\" here"}', '{"error": "no \\"docs\\" here"}'),
    ('{\n  "error": "index missing",\n  "code": 404\n}', "index missing"),
    ('{"error": {"code": 404, "message": "no such index"}, "request_id": "a1"}', "no such index"),
    ('{"errors": [{"message": "bad field"}], "data": null}', "bad field"),
    ('{"success": false, "message": "quota is used up"}', "quota is used up"),
    ('{"isError": true, "content": [{"type": "text", "text": "no such file"}]}', "no such file"),
    ('HTTP 404: {"error": "index \'docs\' not found", "code": 404}', '"error": "index \'docs\' not found"'),
    ("Error: page must be >= 1", "Error: page must be >= 1"),
    ("FATAL ERROR: Reached heap limit", "FATAL ERROR: Reached heap limit"),
    ('npm ERR! code E1\nnpm ERR! Missing script: "build"', 'npm ERR! Missing script: "build"'),
]


@pytest.mark.parametrize(("result", "line"), ERRORS)
@pytest.mark.parametrize("tool", ["query", "get_page", "mcp__es__search"])
def test_an_error_in_words_or_as_json_is_a_failed_call_and_is_quoted_whole(result: str, line: str, tool: str) -> None:
    if result.startswith(("HTTP", "npm")) and tool != "query":
        return  # a tool that reads may show such a line
    (attempt,) = attempts(asked(result, tool))
    assert failed_calls(asked(result, tool)) == 1
    assert attempt.fault is not None
    assert attempt.fault.line == line
    assert line.count("{") == line.count("}")
    assert line.replace('\\"', "").count('"') % 2 == 0


@pytest.mark.parametrize(
    "result",
    [
        "0 errors, 12 passed",
        "Error: 0.05",
        "error: none",
        "ERROR: 0 errors found",
        '{"error": null, "hits": [1]}',
        '{"error": "", "hits": []}',
        '{"errors": [], "data": {"a": 1}}',
        '{"error": "none", "took": 3}',
        '{"success": true, "error": "retried once"}',
        '{"hits": [{"text": "x", "error": "disk full"}]}',
        '[{"error": "disk full"}]',
        '{"id": 7, "status": "failed", "error": "out of memory"}',
        '{"level": "ERROR", "error": "disk full"}',
        '{"status": "failed", "job": "nightly"}',
        "The word Error stands here, and so does failure.",
    ],
)
def test_harmless_text_is_no_failure(result: str) -> None:
    assert failed_calls(asked(result)) == 0


@pytest.mark.parametrize("tool", ["read_file", "mcp__fs__read_file", "functions.view"])
def test_a_file_that_holds_an_error_is_no_failure_of_the_tool_that_shows_it(tool: str) -> None:
    shown = "def run() -> None:\n    report()\n\n\nusage = '''\nError: page must be >= 1\n'''\n"
    assert failed_calls(asked(shown, tool)) == 0
    assert failed_calls(recorded(("cat a.json", '{"error": "x y z"}', None))) == 0


def test_an_error_that_a_program_states_in_its_own_name() -> None:
    failed = ("vllm serve m --max-model-len 131072", "vllm error: CUDA out of memory", None)
    other = ("vllm serve m --max-model-len 32768", "Uvicorn running on http://0.0.0.0:8000", None)
    ((found,),) = survey([recorded(failed, other)]).by_trace.values()
    assert found.text == (
        "`vllm serve m --max-model-len 131072` failed with `vllm error: CUDA out of memory`; "
        "`vllm serve m --max-model-len 32768` worked."
    )
    assert failed_calls(recorded(("train x", "mean squared error: low enough", None))) == 0


def test_an_exit_code_and_what_was_printed_in_one_object() -> None:
    wrapped = json.dumps({"output": "make: *** No rule to make target 'all'.", "exit_code": 2})
    (attempt,) = attempts(recorded(("make all", wrapped, None)))
    assert attempt.worked is False
    assert attempt.output == "make: *** No rule to make target 'all'."
    assert unwrapped('{"output": "x"}') == ('{"output": "x"}', None)
    fine = json.dumps({"stdout": "Error: shown", "stderr": "", "returncode": 0})
    assert failed_calls(recorded(("make all", fine, None))) == 0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["error", "message", "a"]), inner),
    max_leaves=8,
)


@settings(max_examples=80)
@given(VALUES)
def test_no_value_breaks_the_look_at_a_reply(value: object) -> None:
    text = json.dumps(value)
    is_json, said = reply_error(text)
    assert is_json == isinstance(value, dict | list)
    if is_json:
        assert (fault_of(text) is not None) <= bool(said)
