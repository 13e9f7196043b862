"""What the shell itself refused: bash forms under `sh`, `${...}` inside double quotes, a here-document in another one.

The lesson names the form, and the later call that did without it and worked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from combee.traces.mining.attempts import Attempt
from combee.traces.mining.faults import Fault, quoted
from combee.traces.mining.finding import Finding
from combee.traces.mining.shell import here_documents, without_heredocs, written_files

__all__ = ["find_quoting"]

_WINDOW = 3
_FORMS = (
    ('"(" unexpected', re.compile(r"[<>]\([^()\n]{1,80}\)"), "the shell is no bash and does not know"),
    ("Bad sub", re.compile(r"\$\{[^{}\n]{0,80}[\[(\"' ][^{}\n]{0,80}\}"), "in double quotes the shell reads"),
)


def find_quoting(row: Sequence[Attempt]) -> list[Finding]:
    """Return what the shell could not read, where the run shows how to say it."""
    found: dict[str, Finding] = {}
    for place, attempt in enumerate(row):
        fault, command = attempt.fault, attempt.command
        if attempt.worked is not False or fault is None or command is None:
            continue
        later = [each for each in row[place + 1 : place + 1 + _WINDOW] if each.worked and each.command]
        if fault.kind == "shell":
            finding = _form(attempt, command, fault, later)
        else:
            finding = _nested(attempt, command, fault, later) if fault.kind == "command" else None
        if finding is not None:
            found.setdefault(finding.key, finding)
    return list(found.values())


def _form(attempt: Attempt, command: str, fault: Fault, later: Sequence[Attempt]) -> Finding | None:
    for said, pattern, why in _FORMS:
        form = pattern.search(command) if said in fault.line else None
        if form is None:
            continue
        program = _before(command[: form.start()])
        for other in later:
            again = other.command or ""
            if program and re.search(rf"\b{re.escape(program)}\b", again) and not pattern.search(again):
                shown = f"{quoted(form[0].strip(), 60)} in a call of `{program}`"
                text = f"{quoted(fault.line, 80)}: {why} {shown}; without it the call worked."
                return Finding("shell", f"shell/{said}", text, (attempt.step, other.step))
    return None


def _before(command: str) -> str:
    """Return the program whose arguments end here."""
    words = re.split(r"&&|[|;&\n]", re.split("[\"']", command, maxsplit=1)[0])[-1].split()
    return words[0] if words and re.fullmatch(r"[\w.+-]{2,40}", words[0]) else ""


def _nested(attempt: Attempt, command: str, fault: Fault, later: Sequence[Attempt]) -> Finding | None:
    if here_documents(command).count(fault.about) < 2:
        return None
    for other in later:
        again = other.command or ""
        outer = here_documents(without_heredocs(again))
        inner = [word for word in here_documents(again) if word not in outer]
        if outer and inner and written_files(again) & written_files(command):
            text = (
                f"A here-document inside another one needs an end word of its own: with `{fault.about}` for both the "
                f"shell said {quoted(fault.line, 80)}; with `{outer[0]}` and `{inner[0]}` it worked."
            )
            return Finding("shell", "shell/nested here-document", text, (attempt.step, other.step))
    return None
