"""The regex scorer. A pattern may take exponential time on short text, so it runs in its own process with a time limit.

The process starts at the first use and belongs to one scorer. A pattern that hangs ends it: the answer counts as not
matching, `Score.detail` says so, and the next answer gets a new process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass, field

from combee.errors import RunError, UsageError
from combee.kernel.learn.roles import Score, Task
from combee.tasks.text import normal_form

__all__ = ["MAX_ANSWER", "MAX_PATTERN", "SECONDS", "PatternScorer"]

MAX_ANSWER = 20_000
"""Characters of an answer that are searched, counted from its end, where final answers stand."""

MAX_PATTERN = 2_000
"""Characters of a pattern."""

SECONDS = 1.0
"""Time that one search may take."""

# The watchdog is a thread in C: a search holds the interpreter's lock, so no Python code could stop it.
_CHILD = """
import faulthandler, json, os, re, sys
limit = float(sys.argv[1])
nowhere = open(os.devnull, "w")
for line in sys.stdin:
    pattern, text = json.loads(line)
    faulthandler.dump_traceback_later(limit, exit=True, file=nowhere)
    found = None
    for match in re.finditer(pattern, text):
        found = match.group(1 if match.re.groups else 0) or ""
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps([found]), flush=True)
"""


class _Searcher:
    """The process that searches; started when needed, ended with this object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def last(self, pattern: str, text: str) -> tuple[bool, str | None]:
        """Return whether the search ended in time, and the last match (its first group where it has one)."""
        with self._lock:
            process = self._process or self._start()
            if process.stdin is None or process.stdout is None:  # never so: both were asked for as pipes
                raise RunError("the regex process has no pipes")
            try:
                process.stdin.write(json.dumps([pattern, text]) + "\n")
                process.stdin.flush()
                reply = process.stdout.readline()
            except BrokenPipeError:
                reply = ""
            if not reply.endswith("\n"):
                self._process = None
                _stop(process)
                return False, None
            found: str | None = json.loads(reply)[0]
            return True, found

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603 our own interpreter with our own text; patterns travel as data
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _CHILD, str(SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self._process = process
        weakref.finalize(self, _stop, process)
        return process


def _stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # what was left in the buffer has no reader any more


@dataclass(frozen=True, slots=True)
class PatternScorer:
    """With a pattern: its last match in the answer (the first group, where there is one) is compared with the target.

    Without one every target is a pattern, and the answer is right when the pattern is found in it.
    """

    pattern: str = ""
    _searcher: _Searcher = field(default_factory=_Searcher, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.pattern:
            _check(self.pattern, "")

    def __call__(self, task: Task, answer: str) -> Score:
        """Score 1 of 1 or 0 of 1.

        Raises:
            UsageError: the task has no target, or its target is not a pattern.
        """
        if task.target is None:
            raise UsageError(f"task {task.id} has no target", hint="Name the column of answers with --answer.")
        if not self.pattern:
            _check(task.target, f" (the target of task {task.id})")
        in_time, found = self._searcher.last(self.pattern or task.target, answer[-MAX_ANSWER:])
        if not in_time:
            return Score(0, 1, f"the pattern was stopped after {SECONDS:g} s")
        if found is None:
            return Score(0, 1, "the pattern is not in the answer")
        right = not self.pattern or normal_form(found) == normal_form(task.target)
        return Score(1 if right else 0, 1)


def _check(pattern: str, where: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise UsageError(f"a pattern of {len(pattern)} characters{where}; the limit is {MAX_PATTERN}")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"invalid pattern {pattern!r}{where}: {error}",
            hint="Python's regular expressions are meant; check it there.",
        ) from None
