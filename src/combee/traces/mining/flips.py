"""Tests that flipped: one that failed with a stated reason, and that passed after one file was changed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from combee.traces.mining.attempts import Attempt
from combee.traces.mining.changes import changed_files, sets_up
from combee.traces.mining.faults import is_instruction, quoted
from combee.traces.mining.finding import Finding

__all__ = ["find_flips"]

_RUNNER = re.compile(
    r"\b(?:pytest|tox|nosetests|unittest|(?:npm|yarn|pnpm)(?: run)? test|cargo test|go test|jest|vitest|rspec|ctest|"
    r"mvn test|gradle test|make (?:test|check)|phpunit|dotnet test)\b"
)
_FAILED = re.compile(
    r"^(?:FAILED (?P<a>\S+)(?: - (?P<why>.+))?|(?:FAIL|ERROR): (?P<b>\w+ \([\w.]+\))|--- FAIL: (?P<c>\S+)|"
    r"test (?P<d>\S+) \.\.\. FAILED|(?P<e>\S+) FAILED(?:\s+\[.*\])?)$",
    re.MULTILINE,
)
_SUMMARY = re.compile(
    r"\b[1-9]\d* passed\b|^OK\b|\btest result: ok\b|^ok\s|^PASS\b|\bTests:.{0,200}?\b\d{1,9} passed", re.MULTILINE
)
_ANY_FAILED = re.compile(r"\b[1-9]\d* (?:failed|errors?)\b|^FAILED\b|^FAIL\b", re.MULTILINE)
_ENDINGS = """
.py .js .ts .tsx .jsx .go .rs .java .c .h .cc .cpp .rb .php .cs .sh .toml .cfg .ini .json .yaml .yml .sql Makefile
Dockerfile file
"""
_CODE = tuple(_ENDINGS.split())
_MOST = 3


def find_flips(row: Sequence[Attempt]) -> list[Finding]:
    """Return the tests that failed and later passed, with the one file that was written between."""
    red: dict[str, tuple[int, int, str]] = {}
    found: list[Finding] = []
    for place, attempt in enumerate(row):
        if attempt.command is None or not _RUNNER.search(attempt.command):
            continue
        failing = _failing(attempt.output)
        if not failing and _SUMMARY.search(attempt.output) and not _ANY_FAILED.search(attempt.output):
            for test, (since, step, why) in list(red.items())[:_MOST]:
                between = row[since + 1 : place]
                files = set().union(*map(changed_files, between))
                if len(files) == 1 and not any(map(sets_up, between)) and (file := files.pop()).endswith(_CODE):
                    reason = f" with {quoted(why, 120)}" if why else ""
                    text = f"The test {quoted(test, 120)} failed{reason}; it passed after a change in `{file}`."
                    found.append(Finding("flip", f"flip/{test}", text, (step, attempt.step)))
            red.clear()
        for test, why in failing.items():
            red[test] = (place, attempt.step, why)  # the last failure counts: what stands between is what mended it
    return found


def _failing(output: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for match in _FAILED.finditer(output):
        name = next(match[key] for key in "abcde" if match[key])
        why = match["why"] or ""
        if not is_instruction(f"{name} {why}"):
            out[name] = why
    return out
