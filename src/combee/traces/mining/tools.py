"""Calls of tools that are no shell: what mended one, and what a tool refuses in run after run.

Of a tool of the trade (an editor, a search) the arguments are shown as they were. Those of any other one may name a
customer, an order, a card: such values become kinds (`gift_card_…`), and a lesson that then says nothing is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from combee.traces.mining.attempts import Attempt
from combee.traces.mining.faults import ErrorLine
from combee.traces.mining.lesson import MinedLesson
from combee.traces.mining.quoting import quoted, subwords
from combee.traces.mining.users import Users, is_workshop

_WINDOW = 8
_LONGEST = 120
_MOST_ADDED = 3
_SHORT = 40
_PARTICULAR = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b\d{4}-\d{2}-\d{2}(?:[T ][\d:.]+Z?)?\b|[$€£]\s?\d(?:[\d.,]*\d)?|#\w*\d\w*|"
    r"\b(?P<kind>[A-Za-z]+(?:_[A-Za-z]+)*)_(?=\w*\d)\w+|\b(?=\w*\d)(?=\w*[A-Za-z])[\w-]{4,}\b|\b\d(?:[\d.,:]*\d)?"
)
_RULE = re.compile(
    r"\b(?:cannot|can't|can not|must|only|not (?:allowed|permitted|eligible|supported|refundable)|add up|required|"
    r"invalid|exceeds?|at (?:least|most)|more than|less than|ineligible|already)\b",
    re.IGNORECASE,
)


def kinds(text: str) -> str:
    """Return a text in which what is particular to one customer or run is only a kind: ids, dates, sums, addresses."""

    def kind(match: re.Match[str]) -> str:
        if match["kind"]:
            return f"{match['kind']}_…"
        return "N" if match[0][0].isdigit() and match[0].replace(".", "").replace(",", "").isdigit() else "…"

    return _PARTICULAR.sub(kind, text)


def find_tool_repairs(row: Sequence[Attempt], users: Users) -> list[MinedLesson]:
    """Return for each failed call the next one of the same tool that worked, with one argument changed."""
    found: dict[tuple[str, str], MinedLesson] = {}
    for place, attempt in enumerate(row):
        fault = attempt.fault
        if attempt.failed and attempt.command is None and fault is not None:
            lesson = _mended(place, row, fault, users)
            if lesson is not None:
                found.setdefault((lesson.key, lesson.text), lesson)
    return list(found.values())


def _mended(place: int, row: Sequence[Attempt], fault: ErrorLine, users: Users) -> MinedLesson | None:
    first = row[place]
    failures = 1
    for attempt in row[place + 1 : place + 1 + _WINDOW]:
        if attempt.tool != first.tool:
            continue
        if attempt.worked is False:
            failures += 1
            first = attempt if attempt.fault and attempt.fault.signature == fault.signature else first
            continue
        if attempt.worked is None:
            continue
        mine, theirs = first.fields, attempt.fields
        if mine == theirs:
            return _until(row[place], row[place + 1 : row.index(attempt)], attempt)
        changed = [name for name in mine if name in theirs and mine[name] != theirs[name]]
        if mine.keys() < theirs.keys() and not changed:
            return _given_more(row[place], attempt)
        if mine.keys() != theirs.keys() or len(changed) != 1:
            return None
        raw = is_workshop(first.tool)
        if _is_of_this_run(changed[0], mine[changed[0]], theirs[changed[0]], fault):
            return None
        said = (_difference if raw else _general_difference)(mine[changed[0]], theirs[changed[0]])
        about = {*subwords(mine[changed[0]])} - {*subwords(theirs[changed[0]])}
        if said is None or (users == "customers" and not about.intersection(subwords(fault.line))):
            return None  # the error is not about what was changed: what a customer chose next mends nothing
        error = row[place].said() if raw else quoted(kinds(row[place].form))
        times = "" if failures == 1 or not raw else f" {failures} times"
        return MinedLesson(
            "repair",
            f"repair/{first.tool}/{error}/{changed[0]}/{said}",
            f"The tool `{first.tool}` failed{times} with {error}; it worked when `{changed[0]}` was {said}.",
            (row[place].step, attempt.step),
        )
    return None


def _is_of_this_run(name: str, old: str, new: str, fault: ErrorLine) -> bool:
    """Whether the change says nothing to another run: other code, or a line, a page, a place that no error names."""
    if fault.kind == "syntax":
        return old.strip() != new.strip()
    numbers = old.strip().isdecimal() and new.strip().isdecimal()
    return numbers and fault.kind != "timeout" and not {*subwords(name)} <= {*subwords(fault.line)}


def _given_more(first: Attempt, later: Attempt) -> MinedLesson | None:
    """Return that the same call worked with arguments that had not been given."""
    added = [name for name in later.fields if name not in first.fields]
    if len(added) > _MOST_ADDED:
        return None
    values = {name: later.fields[name] for name in added}
    plain = all(kinds(value) == value or is_workshop(first.tool) for value in values.values())
    short = plain and all(len(value) <= _SHORT and "\n" not in value for value in values.values())
    shown = " and ".join(f"`{name}`" + (f" ({quoted(value)})" if short else "") for name, value in values.items())
    error = first.said() if is_workshop(first.tool) else quoted(kinds(first.form))
    return MinedLesson(
        "repair",
        f"repair/{first.tool}/{error}/+{'+'.join(added)}",
        f"The tool `{first.tool}` failed with {error}; it worked with {shown} given.",
        (first.step, later.step),
    )


def _until(first: Attempt, between: Sequence[Attempt], later: Attempt) -> MinedLesson | None:
    """Return that the same call worked once another tool had been called on the same thing: the file was read first."""
    done = [each for each in between if each.worked is not False and each.tool != first.tool]
    shared = set(first.fields.items())
    if len(done) != 1 or done[0].command is not None or shared.isdisjoint(done[0].fields.items()):
        return None
    error = first.said() if is_workshop(first.tool) else quoted(kinds(first.form))
    text = (
        f"The tool `{first.tool}` failed with {error} until `{done[0].tool}` was called on the same thing; then the "
        "same call worked."
    )
    return MinedLesson("until", f"until/{first.tool}/{error}/{done[0].tool}", text, (first.step, later.step))


def _difference(old: str, new: str) -> str | None:
    """Return in words how an argument was changed, or None where that takes more than a line."""
    if old.strip() == new.strip():
        blanks = len(new) - len(new.lstrip(" "))
        if new.lstrip(" ") == old.lstrip(" "):
            return f"given with its {blanks} leading blanks"
        return None
    if "\n" in old or "\n" in new or max(len(old), len(new)) > _LONGEST:
        return None
    return f"{quoted(new)} instead of {quoted(old)}"


def _general_difference(old: str, new: str) -> str | None:
    """Return the same in kinds; None where both are of one kind, or of none that says something."""
    before, after = kinds(old.strip()), kinds(new.strip())
    if before == after or not {before, after}.isdisjoint({"…", "N", ""}) or after[:1] in {"[", "{"}:
        return None
    return _difference(before, after)


def find_refusals(row: Sequence[Attempt], handled: Sequence[MinedLesson]) -> list[MinedLesson]:
    """Return the rules that a tool states when it refuses a call: of use where many runs meet them."""
    told = {step for each in handled for step in each.steps[:1]}
    found: dict[str, MinedLesson] = {}
    for attempt in row:
        if attempt.command is not None or not attempt.failed or attempt.step in told or is_workshop(attempt.tool):
            continue
        rule = kinds(attempt.form)
        if "…" in rule.replace("_…", "") or not _RULE.search(rule):
            continue
        key = f"refusal/{attempt.tool}/{rule}"
        text = f"The tool `{attempt.tool}` refused calls with {quoted(rule)} in run after run."
        found.setdefault(key, MinedLesson("refusal", key, text, (attempt.step,)))
    return list(found.values())
