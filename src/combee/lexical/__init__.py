"""The embedded agent: no model, no network, deterministic, and right about half of the time on real tagging data."""

from __future__ import annotations

from combee.lexical.agent import LexicalCurator, LexicalGenerator, LexicalMethod, LexicalReflector
from combee.lexical.index import Lexicon, Prediction
from combee.lexical.lesson import Asked, Lesson, Spot, lesson_from, read_lesson, read_question

__all__ = [
    "Asked",
    "Lesson",
    "LexicalCurator",
    "LexicalGenerator",
    "LexicalMethod",
    "LexicalReflector",
    "Lexicon",
    "Prediction",
    "Spot",
    "lesson_from",
    "read_lesson",
    "read_question",
]
