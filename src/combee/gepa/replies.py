"""The new text out of a reply: between tags, else in a fence, else the reply itself. A bad reply is named, never used.

An empty reply, a fence that is never closed, or several fences are faults that are asked about once; thoughts are not
part of a reply. gepa's own reader takes all of these as instructions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from combee.model.reply import strip_thinking

__all__ = ["CLOSE", "OPEN", "Found", "read_text"]

OPEN, CLOSE = "<new_text>", "</new_text>"

_RUN = re.compile(r"`{3,}")
_LINE = re.compile(r"[ \t]{0,3}(`{3,})[ \t]*([^`]*?)[ \t]*")
_TAIL = re.compile(r"(.*?[^`])(`{3,})[ \t]*")
_CHATTY = re.compile(
    r"(sure|certainly|of course|okay|ok|here (is|are|'s)|here’s|below is|i (can ?not|can't|can’t|am unable|am sorry)"
    r"|i['’]m (sorry|unable)|sorry|unfortunately|as an ai)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Found:
    """The text of a reply. With a `problem` it is what may be taken if the second reply is no better; "" never is."""

    text: str
    problem: str = ""


def read_text(reply: str, *, cut: bool = False) -> Found:
    """Return the new text in a reply. `cut`: the reply ended at its limit of tokens."""
    body = strip_thinking(reply).strip()
    if not body:
        return Found("", "the reply is empty")
    found = _tagged(body) or _fenced(body)
    if cut and (found is None or found.problem):
        return Found("", "the reply was cut off")
    if found is not None:
        return found
    if _CHATTY.match(body):
        return Found(body, "the new text is not marked off from the words around it")
    return Found(body)


def _tagged(body: str) -> Found | None:
    start = body.rfind(OPEN)
    if start < 0:
        return None
    end = body.find(CLOSE, start)
    if end < 0:
        return Found("", f"{OPEN} is never closed")
    text = _unwrapped(body[start + len(OPEN) : end].strip())
    return Found(text) if text else Found("", "the new text is empty")


def _unwrapped(text: str) -> str:
    """Take off a fence that goes around the whole text in the tags."""
    lines = text.split("\n")
    whole = _fenced(text) if len(lines) > 2 and _LINE.fullmatch(lines[0]) and _LINE.fullmatch(lines[-1]) else None
    return whole.text if whole is not None and not whole.problem else text


def _fenced(body: str) -> Found | None:
    runs = len(_RUN.findall(body))
    if not runs:
        return None
    blocks, is_open = _blocks(body)
    if is_open:
        return Found("", "a fence is never closed")
    if not blocks and runs >= 2:  # on one line: ```text```
        blocks = [body[body.index("```") : body.rindex("```")].lstrip("`")]
    filled = [block.strip() for block in blocks if block.strip()]
    if not filled:
        return Found("", "the fence is empty") if blocks else Found("", "a fence is never closed")
    if len(filled) > 1:
        return Found(filled[-1], "the reply has several fences")
    return Found(filled[0])


def _blocks(body: str) -> tuple[list[str], bool]:
    """Return what stands in the outermost fences, and whether the last one is still open at the end.

    A fence line with a word after it opens an inner fence; a bare one closes the innermost.
    """
    blocks: list[str] = []
    lines: list[str] = []
    stack: list[int] = []
    for line in body.split("\n"):
        found = _LINE.fullmatch(line)
        length = len(found[1]) if found else 0
        tail = _TAIL.fullmatch(line) if stack and not found else None
        if found and not stack:
            stack, lines = [length], []
        elif found and length >= stack[0] and found[2]:
            stack.append(length)
            lines.append(line)
        elif found and length >= stack[-1]:
            stack.pop()
            if stack:
                lines.append(line)
            else:
                blocks.append("\n".join(lines))
        elif tail and len(stack) == 1 and len(tail[2]) >= stack[0] and len(_RUN.findall(line)) == 1:
            blocks.append("\n".join([*lines, tail[1]]))
            stack = []
        elif stack:
            lines.append(line)
    return blocks, bool(stack)
