"""The object that was asked for is found in any reply, or a typed error is raised; nothing is skipped in silence."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.scripted_models import ScriptedModel
from combee.errors import CallError, CallErrorKind
from combee.model import Message, Request, Response, complete_json, find_json, parse_json
from combee.model.tolerant import Allowance, read_value

KEYS = ("reasoning", "operations")
GOOD = '{"reasoning": "r", "operations": [{"type": "ADD", "content": "x"}]}'
VALUE = {"reasoning": "r", "operations": [{"type": "ADD", "content": "x"}]}
SCHEMA = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "operations": {"type": "array"}},
    "required": list(KEYS),
}


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        GOOD.replace("}]}", "},]}"),
        GOOD.replace("]}", "],}"),
        GOOD.replace('"', "'"),
        f'Let me see {{"a":1}} first.\n{GOOD}\nThat is all {{"b": 2}}.',
        f"```json\n{GOOD}\n```",
        f"<think>\nmaybe {GOOD.replace('ADD', 'REMOVE')}\n</think>\n{GOOD}",
        f"only the end was sent</think>{GOOD}",
        json.dumps(GOOD),
        json.dumps(json.dumps(GOOD)),
        f"```json\n{json.dumps(GOOD)}\n```",
        GOOD.replace('"', '\\"'),
        f"<tool_call>{json.dumps({'name': 'reply', 'arguments': GOOD})}</tool_call>",
        GOOD.replace("reasoning", "Reasoning").replace("operations", " operations "),
        GOOD.replace('"r",', '"r", // why\n').replace("}]}", "}] /* all */}"),
        GOOD.replace(", ", "，").replace(": ", "："),
        f"{GOOD}<|im_end|>",
        f"[{GOOD}]",
        f'{{"reply": {GOOD}}}',
        f"\ufeff  {GOOD}  \n",
        GOOD.replace(" ", "\n\t"),
        GOOD.replace('"reasoning"', "reasoning").replace('"type"', "type"),
        GOOD.replace('", "', '"\n"').replace('"r", ', '"r"\n'),
        GOOD.replace("{", "{ // the answer\n", 1),
        GOOD.replace('"r",', '"r", /* then */'),
        f'The form is {{"reasoning": "...", "operations": []}}. So:\n{GOOD}',
        f"It is \\frac{{a}}{{b}} of {{x}}, so {GOOD}",
        GOOD + GOOD[:20],
        GOOD[:-1] + "\n```",
    ],
)
def test_the_object_is_found(reply: str) -> None:
    assert parse_json(reply, KEYS) == VALUE


@pytest.mark.parametrize(
    ("inner", "meant"),
    [
        ("a\nb", "a\nb"),
        ("a\tb", "a\tb"),
        (r"\alpha + \sum_{i}", r"\alpha + \sum_{i}"),
        (r"\beta \frac{1}{2} \times \nabla \rho", r"\beta \frac{1}{2} \times \nabla \rho"),
        (r"C:\Users\name", r"C:\Users" + "\n" + "ame"),
        ('he said "no" to it', 'he said "no" to it'),
        ('say "a, b" and "c"', 'say "a, b" and "c"'),
        ("use ```py\\ncode``` here", "use ```py\ncode``` here"),
        (r"\u00e9 \ud83d\ude00 \u12", "\u00e9 \U0001f600 \\u12"),
        ("ends with a brace }", "ends with a brace }"),
        ("it's {not} a key: [value]", "it's {not} a key: [value]"),
        ("NUL \\u0000 and \\ud800", "NUL \0 and \ufffd"),
    ],
)
def test_what_stands_in_a_string_is_kept_as_meant(inner: str, meant: str) -> None:
    reply = f'{{"reasoning": "{inner}", "operations": [],}}'
    assert parse_json(reply, KEYS)["reasoning"] == meant


def test_python_literals_are_read_and_nothing_is_run() -> None:
    reply = "{'reasoning': 'it\\'s so', 'operations': [None, True, False, (1, 2), 1_000], 'x': __import__('os')}"
    assert find_json(reply, KEYS) is None  # a call is no literal
    reply = reply.replace(", 'x': __import__('os')", "")
    assert parse_json(reply, KEYS) == {"reasoning": "it's so", "operations": [None, True, False, [1, 2], 1000]}


@pytest.mark.parametrize("length", range(1, len(GOOD)))
def test_a_reply_cut_anywhere_gives_whole_entries_or_nothing(length: int) -> None:
    found = find_json(GOOD[:length], KEYS)
    if found is not None:
        assert found.cut
        assert found.value["reasoning"] == "r"
        entries = found.value["operations"]
        assert entries == [] or entries == VALUE["operations"]


@pytest.mark.parametrize(
    "reply", ["", "None", "null", "[]", "{}", "I cannot do that.", '{"a": 1}', "{" * 50, '"text"', "42"]
)
def test_what_holds_no_such_object_is_a_typed_error(reply: str) -> None:
    with pytest.raises(CallError) as caught:
        parse_json(reply, KEYS)
    assert caught.value.kind is CallErrorKind.SCHEMA


def test_a_list_that_is_asked_for_must_be_one() -> None:
    assert find_json('{"reasoning": "r", "operations": "none"}', schema=SCHEMA) is None
    assert find_json('{"reasoning": "r", "operations": "none"}', KEYS) is not None


HOSTILE = {
    "braces": "{" * 300_000,
    "keys": '{"a' * 100_000,
    "nested": '{"a":' * 60_000,
    "lists": "[" * 300_000,
    "mixed": '{"a":["' * 40_000,
    "many": '{"a":1}' * 40_000,
    "quotes": '"' * 300_000,
    "slashes": "\\" * 300_000,
    "loose quotes": '{"a":"' + '" ' * 150_000,
    "gap": '{"a":"b"' + " " * 300_000,
    "comments": "{/*" * 100_000,
    "hashes": "{#\n" * 100_000,
    "digits": '{"a":' + "1" * 300_000 + "}",
    "thoughts": "<think>" * 40_000,
    "latex": r"{\frac{a}{b}" * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_on_hostile_text_is_bounded_by_its_length(name: str) -> None:
    # Not by a clock: four times the text takes four times the allowance, and nothing is looked at beyond it.
    text = HOSTILE[name]
    began = time.process_time()
    assert find_json(text, KEYS) is None
    assert time.process_time() - began < 30  # a quadratic reader takes hours
    start = text.find("{")
    if start >= 0:
        allowance = Allowance(1000)
        read_value(text, start, allowance)
        assert allowance.left > -len(text)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_the_tolerant_reader_reads_all_json_as_json(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    read = read_value(text, 0, Allowance(10**9))
    assert read is not None
    assert read.end == len(text)
    assert read.value == json.loads(text.encode("utf-8", "replace"))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="{}[]\"',:\\abN1.e-+ \n/*#ud8T=>", max_size=60))
def test_any_text_gives_an_object_or_none(text: str) -> None:
    found = find_json(text, ("a",))
    if found is not None:
        assert "a" in found.value
        json.dumps(found.value).encode()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30), st.integers(0, 3))
def test_prose_around_and_fences_do_not_hide_the_object(prose: str, fences: int) -> None:
    clean = prose.replace("{", "(").replace("</think>", "").replace("<think>", "")
    reply = f"{clean}\n{'`' * fences}{GOOD}{'`' * fences}\n{clean}"
    assert parse_json(reply, KEYS) == VALUE


def ask(**options: Any) -> Request:
    return Request((Message("user", "Write it."),), role="curator", **options)


async def test_a_bad_reply_is_asked_for_once_more_with_what_was_wrong() -> None:
    model = ScriptedModel(["I would rather not.", GOOD])
    assert await complete_json(model, ask(), required=KEYS, schema=SCHEMA) == VALUE
    second = model.requests[1]
    assert second.role == "curator/again"
    assert second.messages[1] == Message("assistant", "I would rather not.")
    assert "reasoning, operations" in second.messages[2].content


async def test_two_bad_replies_are_a_typed_error() -> None:
    model = ScriptedModel(["None", ""])
    with pytest.raises(CallError, match="reasoning, operations") as caught:
        await complete_json(model, ask(), required=KEYS)
    assert caught.value.kind is CallErrorKind.SCHEMA
    assert len(model.requests) == 2


async def test_a_reply_that_was_cut_off_is_asked_for_with_twice_the_room() -> None:
    cut = Response(
        '{"reasoning": "r", "operations": [{"type": "ADD", "content": "x"}, {"type": "ADD", "con', finish="length"
    )
    model = ScriptedModel([cut, GOOD])
    assert await complete_json(model, ask(max_tokens=50), required=KEYS) == VALUE
    assert [request.max_tokens for request in model.requests] == [50, 100]
    assert all(request.accept_cut for request in model.requests)
    # Cut twice: the whole entries are kept, the half one is not.
    model = ScriptedModel([cut, cut])
    assert await complete_json(model, ask(max_tokens=50), required=KEYS) == VALUE
