"""FiNER rows (ACE, arXiv 2510.04618, section 4): a list of tags, then numbered questions, each for one number.

`What is best tag for entity "E" in sentence: "S?"` is the shape; the embedded set `tags` has it too, so that one parser
reads both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Question", "finer_context", "finer_options", "finer_questions"]

_START = re.compile(r'^[ \t]*(?:\d+[.)][ \t]*)?What is (?:the )?best tag for entity "', re.MULTILINE)
_MIDDLE = '" in sentence: "'
_OPTIONS = re.compile(r"tags? options:([^.]*)")  # a sentence ends the list: no tag holds a full stop


@dataclass(frozen=True, slots=True)
class Question:
    """One tagging question: which tag fits `entity` as it stands in `sentence`?"""

    entity: str
    sentence: str


def finer_questions(context: str) -> tuple[Question, ...]:
    """Return the questions of a row in their order; empty where the text has another shape."""
    starts = [(match.start(), match.end()) for match in _START.finditer(context)]
    found: list[Question] = []
    for place, (_, begin) in enumerate(starts):
        end = starts[place + 1][0] if place + 1 < len(starts) else len(context)
        entity, middle, rest = context[begin:end].partition(_MIDDLE)
        close = rest.rfind('"')  # the sentence may hold quotes of its own: the last one closes it
        if not middle or close < 0:
            return ()
        found.append(Question(entity.strip(), rest[:close].removesuffix("?").strip()))
    return tuple(found)


def finer_options(context: str) -> tuple[str, ...]:
    """Return the tags that a row offers, in its order, each once; empty where it offers none."""
    match = _OPTIONS.search(context)
    if match is None:
        return ()
    return tuple(dict.fromkeys(name for part in match[1].split(",") if (name := part.strip())))


def finer_context(questions: Sequence[Question], options: Sequence[str] = ()) -> str:
    """Write questions in the shape that `finer_questions` reads, after the list of tags where one is given."""
    lines = [
        f'{number}. What is best tag for entity "{question.entity}" in sentence: "{question.sentence}?"'
        for number, question in enumerate(questions, 1)
    ]
    if options:
        count = len(questions)
        one = "question with one tag and nothing else"
        many = f"{count} questions with {count} tags in their order, separated by commas, and nothing else"
        ask = f"Answer the following {one if count == 1 else many}."
        lines.insert(0, f"US GAAP tags options: {', '.join(options)}. {ask}")
    return "\n".join(lines)
