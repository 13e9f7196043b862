"""Commands that did not come back: what fed them, put them in the background, or wrote the file instead.

Where nothing brought one back, what it waited for is said: a prompt at the end of its output is a question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from combee.traces.mining.attempts import Attempt
from combee.traces.mining.faults import is_instruction, printed, quoted
from combee.traces.mining.finding import Finding
from combee.traces.mining.repairs import culprit
from combee.traces.mining.shell import Part, written_files
from combee.traces.mining.words import RUNNERS

__all__ = ["find_hangs", "find_slow"]

_WINDOW = 12
_FEEDERS = ("echo ", "printf ", "yes", "cat ")
_EDITORS = frozenset({"vim", "vi", "nvim", "nano", "emacs", "pico", "joe"})
_PROMPT = re.compile(
    r"(?:^|\n)((?:>|>>>|\?)|[^\n]{0,120}(?:\[y/n\]|\(y/n\)|\(yes/no(?:/\[\w+\])?\)\??|password(?: for \w+)?:|"
    r"passphrase[^\n:]{0,60}:|press (?:enter|any key)[^\n]{0,40}))\s*\Z",
    re.IGNORECASE,
)


def find_hangs(row: Sequence[Attempt]) -> list[Finding]:
    """Return the commands that timed out, and how the same program came back later in the run or what it waited for."""
    found: dict[str, Finding] = {}
    for place, attempt in enumerate(row):
        part = _hung(attempt)
        if part is None or part.fed or len(part.text) > 120:
            continue
        later = row[place + 1 : place + 1 + _WINDOW]
        finding = next((each for other in later if (each := _came_back(part, attempt, other))), None)
        finding = finding or _asked(part, attempt)
        if finding is not None:
            found.setdefault(finding.key, finding)
    return list(found.values())


def find_slow(row: Sequence[Attempt], task: str, handled: Sequence[Finding]) -> list[Finding]:
    """Return the first own script that the time limit killed: of use where the runs of a task share it."""
    if not task or is_instruction(task) or any(finding.kind == "hang" for finding in handled):
        return []  # a script that talks to what hangs is not slow
    written: set[str] = set()
    for attempt in row:
        part = _hung(attempt)
        if part is not None:
            script = next((word for word in part.arguments if word.rpartition("/")[2] in written), None)
            if part.program in RUNNERS and script is not None and len(part.text) <= 80:
                text = (
                    f"In the task {quoted(task, 80)}, scripts that the agent wrote were killed by the time limit in "
                    f"run after run (as {quoted(part.line)}): they need less work, or the background."
                )
                return [Finding("slow", f"slow/{task}", text, (attempt.step,))]
        written |= written_files(attempt.command or "")
    return []


def _hung(attempt: Attempt) -> Part | None:
    fault = attempt.fault
    part = culprit(attempt) if fault is not None and fault.kind == "timeout" else None
    return None if part is None or "\n" in part.text else part


def _asked(part: Part, attempt: Attempt) -> Finding | None:
    prompt = _PROMPT.search(printed(attempt.output)[-400:])
    if prompt is None or is_instruction(prompt[1]):
        return None
    line = part.line
    text = f"{quoted(line)} asks for input and was killed by the time limit at its prompt {quoted(prompt[1], 80)}."
    return Finding("hang", f"hang/{line}/asks", text, (attempt.step,))


def _came_back(part: Part, first: Attempt, later: Attempt) -> Finding | None:
    if not later.worked or later.fault is not None:
        return None
    steps = (first.step, later.step)
    line = part.line
    if part.program in _EDITORS:
        return _written(part, later, steps)
    for each in later.parts:
        if each.program != part.program or each.arguments[:1] != part.arguments[:1]:
            continue
        if part.background:
            if each.background and ">" in each.text and ">" not in part.text and len(each.text) <= 160:
                text = (
                    f"{quoted(f'{part.text} &')} timed out although it was put in the background: its output still "
                    f"held the call. With the output in a file it returned: {quoted(f'{each.text} &')}."
                )
                return Finding("hang", "hang/background output", text, steps)
            continue
        if each.fed.startswith(_FEEDERS) and len(each.fed) + len(each.text) <= 160:
            shown = quoted(f"{each.fed} | {each.text}")
            text = f"{quoted(line)} waits for input and timed out; fed by a pipe it came back: {shown}."
            return Finding("hang", f"hang/{line}/fed", text, steps, line=hash(part.program))
        if each.background and len(each.text) <= 160:
            shown = quoted(f"{each.text} &")
            text = f"{quoted(line)} does not return and timed out; in the background the run could go on: {shown}."
            return Finding("hang", f"hang/{line}/background", text, steps)
    return None


def _written(editor: Part, later: Attempt, steps: tuple[int, int]) -> Finding | None:
    """Return that a file was written without the editor that waited for a terminal."""
    command = later.command or ""
    if not any(name.rpartition("/")[2] in written_files(command) for name in editor.targets):
        return None
    text = (
        f"{quoted(editor.line)} waits for a terminal and was killed by the time limit; "
        f"{quoted(command.splitlines()[0], 80)} wrote the file."
    )
    return Finding("hang", f"hang/{editor.program}/written", text, steps)
