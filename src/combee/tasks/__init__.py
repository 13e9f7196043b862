"""Task sets and scorers: the embedded `tags`, FiNER, Formula, and any file or folder of questions and answers."""

from __future__ import annotations

from combee.tasks.embedded import tag_names, tag_set
from combee.tasks.load import DATA_VARIABLE, NAMES, load
from combee.tasks.model import Fields, Sizes, TaskSet
from combee.tasks.scorers import Exact, scorer
from combee.tasks.shape import Formula, Question, finer_context, finer_options, finer_questions, formula_row

__all__ = [
    "DATA_VARIABLE",
    "NAMES",
    "Exact",
    "Fields",
    "Formula",
    "Question",
    "Sizes",
    "TaskSet",
    "finer_context",
    "finer_options",
    "finer_questions",
    "formula_row",
    "load",
    "scorer",
    "tag_names",
    "tag_set",
]
