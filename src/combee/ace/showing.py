"""How playbooks and reflections stand in prompts. A book that many calls share is written once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from combee.ace.fence import fence
from combee.kernel.learn.roles import Reflection
from combee.kernel.playbook import Bullet, Playbook, to_text

__all__ = ["Shown", "show_bullets", "show_reflections"]

EMPTY = "(no entries yet)"
_KEPT = 4


class Shown:
    """The fenced text of the last few books, found by identity: writing a long book for each call would cost most."""

    def __init__(self) -> None:
        self._held: list[tuple[Playbook, str]] = []

    def __call__(self, book: Playbook) -> str:
        """Return the book as a prompt shows it."""
        for held, text in self._held:
            if held is book:
                return text
        text = fence("playbook", to_text(book, mark=False).rstrip("\n") or EMPTY)
        self._held = [(book, text), *self._held[: _KEPT - 1]]
        return text


def show_bullets(bullets: Iterable[Bullet]) -> str:
    """Return some bullets, fenced."""
    return fence("bullets", to_text(Playbook(tuple(bullets)), mark=False).rstrip("\n") or EMPTY)


def show_reflections(items: Sequence[Reflection]) -> str:
    """Return the reflections, numbered from 1 and fenced one by one."""
    return "\n\n".join(fence("reflection", item.text, number) for number, item in enumerate(items, start=1))
