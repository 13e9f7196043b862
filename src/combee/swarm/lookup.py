"""An agent without a model, for a first look: it finds words again and understands nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from combee.swarm.brain import Thought, View, use
from combee.swarm.mail import Mail
from combee.swarm.window import Entry

__all__ = ["first_words", "lookup"]

_WORD = re.compile(r"\w+")


async def first_words(entries: Sequence[Entry], tokens: int) -> str:
    """Sum up without a model: what was asked and said, the newest first; `Summarise` cuts it to size."""
    return "\n".join(entry.text for entry in reversed(entries) if entry.role != "tool" and entry.text)


def lookup(view: View) -> Thought | str:
    """Read what is told (a path), answer with the line that shares most words with the question, else ask a reader."""
    mail = view.mail
    if mail.kind == "tell":
        return "Read." if view.results() else Thought(calls=(use("read", path=mail.body),))
    if mail.kind in {"answer", "report"}:
        return mail.body
    line, hits = _best_line(view, mail)
    results = view.results()
    if hits >= 2 or mail.hops >= 2 or (results and not results[-1].text.startswith("Asked")):
        return line or "I do not know."
    if results:
        return "Waiting."
    words = [word for word in mail.body.split() if "/" in word]
    return Thought(calls=(use("ask", question=mail.body, subject=mail.subject or (words[0] if words else "/")),))


def _best_line(view: View, mail: Mail) -> tuple[str, int]:
    asked = {word for word in _WORD.findall(mail.body.lower()) if len(word) > 3}
    best, most = "", 0
    for entry in view.entries:
        if entry.role == "tool" and not entry.text.startswith(("Asked", "error:")):
            for line in entry.text.split("\n"):
                hits = len(asked & set(_WORD.findall(line.lower())))
                if hits > most:
                    best, most = line, hits
    return best, most
