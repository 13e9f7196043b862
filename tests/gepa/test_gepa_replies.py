"""What is taken out of a reply, and what is never taken for a new text."""

from __future__ import annotations

import pytest

from combee.gepa.asking import read_text

INNER = "Do X.\n```python\nprint(1)\n```\nThen Y."


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("```\nnew\n```", "new"),
        ("```text\nnew\n```", "new"),
        ("Here it is:\n```markdown\nnew\n\nlines\n```\nGood luck!", "new\n\nlines"),
        ("```new```", "new"),
        ("Here: ```new``` done", "new"),
        ("```\nnew text```", "new text"),
        ("````\nDo:\n```\ncode\n```\nEnd.\n````", "Do:\n```\ncode\n```\nEnd."),
        (f"```\n{INNER}\n```", INNER),
        (f"<new_text>\n{INNER}\n</new_text>", INNER),
        ("<new_text>\n```\nnew\n```\n</new_text>", "new"),
        ("<new_text>draft</new_text> no, better: <new_text>new</new_text>", "new"),
        ("<think>```\nnot this\n```</think>\n```\nnew\n```", "new"),
        ("thoughts without a start</think>```\nnew\n```", "new"),
        ("Answer with the number alone.", "Answer with the number alone."),
    ],
)
def test_the_new_text_is_found(reply: str, text: str) -> None:
    found = read_text(reply)
    assert (found.text, found.problem) == (text, "")


@pytest.mark.parametrize(
    "reply",
    ["", "  \n ", "```", "```\n```", "```\nnew text without an end", "<new_text>\nnew", "<new_text> </new_text>",
     "<think>I never stop thinking", "<think>all</think>"],
)  # fmt: skip
def test_a_reply_without_a_whole_text_is_never_used(reply: str) -> None:
    found = read_text(reply)
    assert found.problem
    assert found.text == ""


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Draft:\n```\nold\n```\nFinal:\n```\nnew\n```", "new"),
        ("Sure! Be exact and brief.", "Sure! Be exact and brief."),
    ],
)
def test_a_doubtful_reply_is_taken_only_if_the_second_is_no_better(reply: str, text: str) -> None:
    found = read_text(reply)
    assert found.problem
    assert found.text == text


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I cannot help with that.",
        "```\nI'm sorry, but I cannot help with that.\n```",
        "<new_text>Es tut mir leid, aber ich kann dabei nicht helfen.</new_text>",
        "[THINK]no[/THINK]很抱歉，我无法满足您的请求。",
        "Error code: 429 - {'error': 'slow down'}",
    ],
)
def test_a_refusal_or_an_error_is_never_the_new_text(reply: str) -> None:
    found = read_text(reply)
    assert found.problem
    assert found.text == ""


def test_a_reply_that_was_cut_off_is_used_only_where_its_text_is_closed() -> None:
    assert read_text("Be exact and", cut=True).text == ""
    assert read_text("```\nnew\n```\nand so", cut=True).text == "new"
