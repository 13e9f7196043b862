"""HTML and SVG as plain strings that are escaped unless they were made here.

Text that is not `Html` is escaped when it becomes part of an element, so no caller can forget to. Characters that no
page may hold (controls, lone surrogates) become U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["Html", "Piece", "cut", "definitions", "el", "escape", "fold", "join", "scrolling", "table"]

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_VOID = frozenset({"meta", "link", "br", "hr", "col", "wbr"})
_EMPTY_SVG = frozenset({"rect", "line", "circle", "path", "polyline", "polygon"})


class Html(str):
    """Text that is markup already. Only `el` and its neighbours make it from data."""

    __slots__ = ()


Piece = str | int | float | None


def escape(text: str) -> str:
    """Return the text as it may stand in an element or a quoted attribute."""
    return _FORBIDDEN.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n")).translate(_ENTITIES)


def el(name: str, /, *children: Piece, **attributes: Piece) -> Html:
    """Return an element. None is left out; `class_` is the class; `_` in other attribute names becomes `-`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    if name in _EMPTY_SVG and not children:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(pieces: Iterable[Piece], between: str = "") -> Html:
    """Return the pieces one after the other, each escaped unless it is markup; None is left out."""
    parts = (piece if isinstance(piece, Html) else escape(str(piece)) for piece in pieces if piece is not None)
    return Html(between.join(parts))


def cut(text: str, limit: int) -> str:
    """Return the text, or its beginning and a note of how much more there is."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def table(heads: Sequence[str], rows: Iterable[Sequence[Piece]], *, numbers: Iterable[int] = ()) -> Html:
    """Return a table that scrolls sideways by itself. `numbers` are the columns set to the right."""
    right = frozenset(numbers)

    def side(column: int) -> str | None:
        return "n" if column in right else None

    head = el("tr", *(el("th", text, scope="col", class_=side(column)) for column, text in enumerate(heads)))
    body = [el("tr", *(el("td", cell, class_=side(column)) for column, cell in enumerate(row))) for row in rows]
    return scrolling(f"Table: {', '.join(heads)}", el("table", el("thead", head), el("tbody", *body)))


def scrolling(label: str, inner: Html) -> Html:
    """Return a region that scrolls sideways by itself, reachable by keyboard."""
    return el("div", inner, class_="scroll", tabindex="0", role="region", aria_label=label)


def definitions(pairs: Iterable[tuple[Piece, Piece]]) -> Html:
    """Return names and values as a list."""
    return el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in pairs))


def fold(summary: Piece, *content: Piece, opened: bool = False) -> Html:
    """Return content that shows when its summary is clicked."""
    return el("details", el("summary", summary), *content, open="" if opened else None)
