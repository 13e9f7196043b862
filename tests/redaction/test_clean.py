"""Cleaning keeps what teaches (task, failures, the end), within the budget, and says what it cut."""

from __future__ import annotations

import base64
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from combee.redaction import Step, ToolCall, Trace, clean, clean_text, count_tokens, failed


def a_trace(*steps: Step, task: str = "mend the build") -> Trace:
    return Trace("t-1", task, steps)


def test_terminal_codes_progress_lines_and_controls_go() -> None:
    shown = "\x1b[?2004h\x1b[31mError\x1b[0m: x\r\n 10%\r 50%\r100%\r\ndone\x1b]0;title\x07\x00\x1b(B\n"
    assert clean_text(shown) == "Error: x\n100%\ndone\n"
    assert clean_text("\x1b]no end of title\nkept") == "no end of title\nkept"
    assert clean_text("\u280b waiting\n\u2819 waiting\nready\n") == "ready\n"


def test_images_and_encoded_bytes_become_placeholders_with_their_size() -> None:
    data = base64.b64encode(random.Random(1).randbytes(600)).decode()
    assert clean_text(f"see data:image/png;base64,{data} there") == "see [image/png, 600 bytes] there"
    assert clean_text(f"blob {data}") == "blob [base64, 600 bytes]"
    lines = "\n".join(data[at : at + 76] for at in range(0, len(data), 76))
    assert "[base64, " in clean_text(f"cert:\n{lines}\nend")
    assert clean_text(f"cert:\n{lines}\nend").endswith("\nend")


def test_long_words_that_are_no_encoded_bytes_stay() -> None:
    for word in ("a" * 400, "/usr/lib" * 60, "0123456789" * 40, "SOME_LONG_NAME" * 30):
        assert clean_text(word) == word


def test_a_long_output_is_cut_in_the_middle_with_a_note() -> None:
    output = "head " + "x" * 50_000 + " the error at the end"
    shown = clean(a_trace(Step(0, "tool", output)), None, output_limit=1000).steps[0].text
    assert len(shown) <= 1000
    assert shown.startswith("head")
    assert shown.endswith("the error at the end")
    assert "characters cut ...]" in shown


def test_a_trace_within_the_budget_is_left_alone() -> None:
    trace = a_trace(Step(0, "user", "hi"), Step(1, "assistant", "ok"))
    assert clean(trace, 100) == trace


def test_the_budget_keeps_task_failures_with_their_calls_and_the_last_steps() -> None:
    steps = [Step(0, "user", "mend the build")]
    for at in range(1, 400, 2):
        call = ToolCall(f"c{at}", "bash", f"make step{at} " + "y" * 200)
        wrong = at == 101
        steps.append(Step(at, "assistant", f"try {at}", (call,)))
        steps.append(Step(at + 1, "tool", "make: *** [all] Error 2" if wrong else "fine " * 40, (), f"c{at}", wrong))
    trace = a_trace(*steps)
    short = clean(trace, 1500)
    assert count_tokens(short) <= 1500
    kept = {step.index: step for step in short.steps}
    assert kept[0].text == "mend the build"
    assert "Error 2" in kept[102].text
    assert kept[101].tool_calls[0].arguments.startswith("make step101")
    assert 400 in kept
    assert 399 in kept
    assert any(step.text.startswith("[steps left out: ") for step in short.steps)
    assert short.id == trace.id
    assert "of 401 steps kept" in short.meta["cleaned"]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool", "system"]), st.text(max_size=400)), max_size=40),
    st.integers(1, 600),
)
def test_the_budget_is_never_passed(raw: list[tuple[str, str]], budget: int) -> None:
    steps = tuple(Step(at, role, text) for at, (role, text) in enumerate(raw))  # type: ignore[arg-type] # sampled roles
    trace = Trace("t-1", raw[0][1] if raw else "", steps)
    short = clean(trace, budget)
    assert count_tokens(short) <= max(budget, 0)
    indices = [step.index for step in short.steps]
    assert indices == sorted(set(indices))


def test_failures_are_seen_by_flag_exit_code_and_error_line() -> None:
    assert failed(Step(0, "tool", "all good", is_error=True))
    assert failed(Step(0, "tool", "(Command exited with code 2)"))
    assert failed(Step(0, "tool", "<returncode>1</returncode>\n<output>\n</output>"))
    assert not failed(Step(0, "tool", "<returncode>0</returncode>\n<output>\nError: said a log\n</output>"))
    assert failed(Step(0, "tool", "bash: mini: command not found"))
    assert failed(Step(0, "tool", "=== 2 failed, 3 passed in 1.0s ==="))
    assert not failed(Step(0, "tool", "5 passed, 0 failed"))
    assert not failed(Step(0, "user", "I get ValueError: x"))
    assert not failed(Step(0, "assistant", "fatal: no"))
