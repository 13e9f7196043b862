"""aider: `.aider.chat.history.md`, in which each start of the program begins a run.

`#### ` is what the user typed, `> ` what the program printed, anything else what the model said. What the user had run
(`/run`, `/test`, `!`) is no call of the agent, and what was said in a form of edits is not read as one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from combee.redaction import Role, Trace
from combee.traces.readers.draft import TraceDraft
from combee.traces.readers.messages import Piece
from combee.traces.readers.shape import bounded_lines, open_regular
from combee.traces.readers.source import Source

_START = "# aider chat started at "
_MODEL = re.compile(r"(?:Main model|Model): (\S+)")
_LONGEST = 1 << 20


class AiderReader:
    """Reads one run a start of the program."""

    name = "aider"
    fields = ()

    def sniff(self, source: Source) -> float:
        """Look for the line that every start writes."""
        if source.kind != "other":
            return 0.0
        try:
            with open_regular(source.path) as file:
                return 0.95 if file.peek(4096)[:4096].lstrip().startswith(_START.encode()) else 0.0
        except (OSError, EOFError, zlib.error):
            return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the runs in which the user asked something."""
        draft, first = TraceDraft(source), 1
        role: Role = "assistant"
        held: list[str] = []
        for line, said in _lines(source):
            if said.startswith(_START):
                _add(draft, role, held, line)
                yield from _run(draft, first)
                draft, first, role = TraceDraft(source), line, "system"
                draft.run = said[len(_START) :].strip()
                continue
            now: Role = "user" if said.startswith("####") else "system" if said.startswith(">") else "assistant"
            if now != role:
                _add(draft, role, held, line)
                role = now
            held.append(said if now == "assistant" else said.lstrip("#>").removeprefix(" ").rstrip(" "))
        _add(draft, role, held, first)
        yield from _run(draft, first)


def _lines(source: Source) -> Iterator[tuple[int, str]]:
    with open_regular(source.path) as file:
        for line, data in bounded_lines(file, _LONGEST):
            if data is None:
                source.skip(f"line longer than {_LONGEST >> 20} MiB", line)
            else:
                yield line, data.decode("utf-8", "replace").rstrip("\r\n")


def _add(draft: TraceDraft, role: Role, held: list[str], line: int) -> None:
    said = "\n".join(held).strip()
    held.clear()
    if role == "system" and (model := _MODEL.search(said)):
        draft.meta.setdefault("model", model[1])
    if role == "user" and said.startswith(("/", "!")):
        role, said = "system", f"[the user ran] {said}"
    draft.add(Piece(role, said), line=line)


def _run(draft: TraceDraft, line: int) -> Iterator[Trace]:
    if any(step.role == "user" for step in draft.steps):
        yield from draft.trace(meta={"agent": "aider", "session": draft.run}, line=line)
    elif draft.run:
        draft.source.belongs = True  # started, and nothing asked
