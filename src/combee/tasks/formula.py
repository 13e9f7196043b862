"""Formula rows: a named financial formula, its definition, and a question whose answer is one number.

As in ACE (arXiv 2510.04618, section 4) the definition is dropped from what the agent sees: it must know the formula.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Formula", "formula_row"]

_ROW = re.compile(
    r"Use formula (?P<name>.+?) to answer the question\.(?P<rule>.*?)"
    r"\s*Formula:\s*(?P<definition>.*?),\s*Explanation:\s*(?P<explanation>.*?)"
    r"\s*Question:\s*(?P<question>.*?)\s*\.?\s*Answer:\s*$",
    re.DOTALL,
)
_QUOTES = '"\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}'
_ASK = "Answer with one plain number, rounded to 2 decimal places, and nothing else (5 million is 5000000.0)."


@dataclass(frozen=True, slots=True)
class Formula:
    """The parts of one row."""

    name: str
    definition: str
    explanation: str
    question: str

    def ask(self, *, definition: bool = False) -> str:
        """Return what the agent is asked; with `definition` the formula stands before it."""
        shown = f"Formula: {self.definition}, Explanation: {self.explanation}\n" if definition else ""
        return f"{shown}{self.question}\n{_ASK}"


def formula_row(context: str) -> Formula | None:
    """Take a row apart, or return None where it has another shape."""
    match = _ROW.search(context)
    if match is None:
        return None
    question = match["question"].strip().rstrip(".").strip().strip(_QUOTES).strip()
    return Formula(
        match["name"].strip(), match["definition"].strip(), match["explanation"].strip().rstrip("."), question
    )
