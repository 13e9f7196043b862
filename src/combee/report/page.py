"""The frame of every page: one file, nothing from the network, one script of our own (and a policy that says so).

The script searches rows and bullets; in plots it shows the values under the pointer, zooms into what is dragged over (a
double click goes back) and hides a line when its name is clicked; it keeps the head of a live page fresh. Nothing on a
page needs it to be read.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from combee import __version__
from combee.report.html import PAGE, Html, Piece, el, join
from combee.report.svg import Plot

__all__ = ["SCRIPT", "Section", "facts", "figures", "page", "when"]

SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")

_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading that the navigation names."""

    anchor: str
    title: str
    body: Sequence[Piece]


def page(title: str, head: Sequence[Piece], sections: Sequence[Section], *, live: str | None = None) -> str:
    """Return the whole page; `live` is the address that the script fetches the head from, of a run that goes on."""
    links = [el("a", section.title, href=f"#{section.anchor}") for section in sections]
    main = el(
        "main",
        el(
            "header",
            el("div", *head, id="live", data_at=live),
            el("nav", *links, aria_label="Sections") if links else None,
        ),
        *(
            el("section", el("h2", section.title, id=section.anchor), *section.body, aria_labelledby=section.anchor)
            for section in sections
        ),
        el("footer", f"Written by Combee {__version__} on {when(time.time())}."),
    )
    meta = join(
        [
            el("meta", charset="utf-8"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="color-scheme", content="light dark"),
            el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            el("link", rel="icon", href="data:,"),
            el("title", title),
            el("style", Html(PAGE)),
        ],
        "\n",
    )
    body = f"<body>\n{main}\n<script>{SCRIPT}</script>\n</body>"
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{meta}\n</head>\n{body}\n</html>\n'


def facts(pairs: Sequence[tuple[str, Piece]]) -> Html:
    """Return the few numbers that matter most, large; each with what it is."""
    return el("div", *(el("div", el("b", value), el("span", name)) for name, value in pairs), class_="facts")


def figures(plots: Sequence[Plot]) -> Html:
    """Return plots side by side where there is room."""
    return el("div", *(el("figure", plot.inline()) for plot in plots), class_="plots")


def when(seconds: float) -> str:
    """Return a time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
