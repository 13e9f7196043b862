"""HTML and SVG as plain strings that are escaped unless they were made here, and the looks of pages and plots.

Text that is not `Html` is escaped when it becomes part of an element, so no caller can forget to. Characters that no
page may hold (controls, lone surrogates) become U+FFFD.

The looks: one set of colours for pages and plots, light and dark by what the reader's system asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = [
    "PAGE",
    "PLOT",
    "SERIES",
    "Html",
    "Piece",
    "cut",
    "definitions",
    "el",
    "escape",
    "fold",
    "join",
    "scrolling",
    "table",
]


_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_VOID = frozenset({"meta", "link", "br", "hr", "col", "wbr", "input"})
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


# Told apart by people who see colours differently too (after Okabe and Ito), each with a lighter twin for the dark.
SERIES = 6

_LIGHT = (
    "--bg:#ffffff;--card:#ffffff;--soft:#f6f3ec;--ink:#1f1d19;--dim:#6b665c;--line:#ded8cb;--grid:#ece7dc;--shade:rgba(31,29,25,.34);"
    "--accent:#a85f00;--good:#1d7a4f;--bad:#b3261e;"
    "--s0:#c77700;--s1:#0067a8;--s2:#0a8a63;--s3:#b5508c;--s4:#7a5cc4;--s5:#5f6b73"
)
_DARK = (
    "--bg:#171613;--card:#1e1d19;--soft:#26241f;--ink:#ece8df;--dim:#a39c8e;--line:#3a372f;--grid:#2b2923;--shade:rgba(236,232,223,.3);"
    "--accent:#f0ab43;--good:#58c795;--bad:#ff8a7d;"
    "--s0:#f0ab43;--s1:#62b0ee;--s2:#45c79c;--s3:#e58ec0;--s4:#b09af0;--s5:#a7b3bb"
)

_COLOURS = "".join(f".c{i}{{--c:var(--s{i})}}" for i in range(SERIES))

_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif"

# A frame that scrolls sideways has a shadow at each side where more is: covers that move with the content hide it.
_EDGES = (
    "linear-gradient(90deg,var(--card) 40%,transparent) left/48px 100% no-repeat local,"
    "linear-gradient(270deg,var(--card) 40%,transparent) right/48px 100% no-repeat local,"
    "linear-gradient(90deg,var(--shade),transparent) left/20px 100% no-repeat scroll,"
    "linear-gradient(270deg,var(--shade),transparent) right/20px 100% no-repeat scroll"
)

# Rules that plots need, inside a page or alone.
_DRAWING = (
    f"svg text{{font-family:{_FONT};font-size:12px;fill:var(--dim)}}"
    "svg .title{font-size:13px;font-weight:600;fill:var(--ink)}svg .label{fill:var(--ink)}"
    "svg .small{font-size:11px}svg .end{text-anchor:end}svg .mid{text-anchor:middle}"
    "svg .bad{fill:var(--bad);font-weight:600}"
    ".ground{fill:var(--card)}.grid{stroke:var(--grid);stroke-width:1}.axis{stroke:var(--line);stroke-width:1}"
    ".mark{stroke:var(--dim);stroke-width:1;stroke-dasharray:2 3}"
    ".path{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
    ".dash{stroke-dasharray:6 4}.dot{fill:var(--c);stroke:var(--card);stroke-width:1}"
    ".band{fill:var(--c);opacity:.16}.bar{fill:var(--c)}.whisker{stroke:var(--ink);stroke-width:1.2}"
    ".box{fill:var(--soft);stroke:var(--line)}.fill{fill:var(--good);opacity:.2}.box.lossy{stroke:var(--s0)}"
    ".fill.lossy{fill:var(--s0);opacity:.25}.box.failed{stroke:var(--bad)}"
    ".box.front{stroke:var(--s1);stroke-width:1.6}.box.best{stroke:var(--good);stroke-width:2.6}"
    ".cell{fill:var(--s1)}.edge{fill:none;stroke:var(--line)}"
)

PLOT = f"svg{{{_LIGHT};background:var(--card)}}@media (prefers-color-scheme:dark){{svg{{{_DARK}}}}}{_COLOURS}{_DRAWING}"

PAGE = (
    f":root{{{_LIGHT};color-scheme:light dark}}@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    "*{box-sizing:border-box}html{-webkit-text-size-adjust:100%}"
    f"body{{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 {_FONT}}}"
    "main{max-width:1080px;margin:0 auto;padding:24px 20px 64px}"
    "h1{font-size:26px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:18px;margin:36px 0 10px;padding-top:14px;border-top:1px solid var(--line)}"
    "h3{font-size:15px;margin:20px 0 6px}p{margin:6px 0;max-width:75ch;overflow-wrap:anywhere}"
    "a{color:var(--accent)}.dim{color:var(--dim);font-size:13px}"
    "nav{display:flex;flex-wrap:wrap;gap:4px 14px;margin:12px 0 0;font-size:14px}"
    "header .state{display:inline-block;border:1px solid var(--line);border-radius:99px;padding:1px 10px;"
    "font-size:13px;font-weight:600;background:var(--soft)}"
    ".state.good{color:var(--good);border-color:var(--good)}.state.bad{color:var(--bad);border-color:var(--bad)}"
    ".facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:10px;margin:18px 0}"
    ".facts>div{border:1px solid var(--line);border-radius:8px;background:var(--card);padding:10px 12px}"
    ".facts b{display:block;font-size:21px;line-height:1.3;font-variant-numeric:tabular-nums}"
    ".facts span{color:var(--dim);font-size:13px}"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:14px}"
    "figure{margin:0;min-width:0}.plots figure{border:1px solid var(--line);border-radius:8px;padding:10px;"
    "background:var(--card)}.plots svg{display:block;width:100%;height:auto;max-width:620px;margin:0 auto}"
    ".scroll{overflow-x:auto;max-width:100%;border:1px solid var(--line);border-radius:8px;margin:8px 0}"
    f".scroll{{background:{_EDGES};background-color:var(--card)}}.scroll::-webkit-scrollbar{{height:8px}}"
    ".scroll::-webkit-scrollbar-thumb{background:var(--line);border-radius:8px}.scroll svg{display:block}"
    "table{border-collapse:collapse;width:100%;font-size:14px}"
    "th{text-align:left;font-weight:600;color:var(--dim);font-size:13px;white-space:nowrap}"
    "th,td{padding:6px 10px;border-bottom:1px solid var(--line);vertical-align:top}tr:last-child td{border-bottom:0}"
    "td{overflow-wrap:break-word;max-width:34em}td>div{min-width:16em}.n{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}"
    ".key{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12.5px;"
    "overflow-wrap:anywhere}"
    "td .key{display:inline-block;min-width:9em}"
    "dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr));gap:0 24px;margin:8px 0}"
    "dl>div{display:flex;justify-content:space-between;gap:12px;border-bottom:1px solid var(--grid);padding:4px 0}"
    "dt{color:var(--dim)}dd{margin:0;text-align:right;overflow-wrap:anywhere;min-width:0}"
    "dd strong{color:var(--accent)}"
    "details{border:1px solid var(--line);border-radius:8px;margin:8px 0;padding:0 12px;background:var(--card)}"
    "summary{cursor:pointer;padding:8px 0;overflow-wrap:anywhere}details[open]>summary{border-bottom:1px solid "
    "var(--grid);margin-bottom:8px}details>*:last-child{margin-bottom:12px}details details{border-style:dashed}"
    "ol.book{list-style:none;margin:0;padding:0}ol.book li{padding:8px 0;border-bottom:1px solid var(--grid)}"
    "ol.book p{max-width:none;white-space:pre-wrap;margin:0}"
    ".meta{color:var(--dim);font-size:12.5px}.up{color:var(--good)}.down{color:var(--bad)}.bad{color:var(--bad)}"
    "[data-key]{cursor:pointer}[data-key].off{opacity:.4}"
    ".hover{fill:transparent;cursor:crosshair;touch-action:pan-y}.chosen{fill:var(--accent);opacity:.15}"
    ".tip{pointer-events:none}.tip rect{fill:var(--card);stroke:var(--line)}"
    "[transform^=matrix].path{vector-effect:non-scaling-stroke}"
    ".filter{display:flex;flex-wrap:wrap;gap:6px 14px;align-items:center}.filter[hidden],[hidden]{display:none}"
    "input[type=search]{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);"
    "border-radius:8px;padding:4px 10px;width:min(100%,320px)}:target{background:var(--soft)}"
    ".tall{max-height:75vh;overflow:auto}.long td{overflow-wrap:anywhere}"
    ".long td:first-child{white-space:nowrap}.long td:nth-child(2){min-width:8em}"
    ".long td>div{max-width:26em}.long td>span,.long td>a{min-width:0}"
    "td details{border:0;padding:0;margin:0}td summary{padding:0}"
    "td details[open]>summary{display:none}.long .scroll{max-height:70vh;overflow:auto}"
    ".long th{position:sticky;top:0;background:var(--card)}"
    "ol.book details{border:0;padding:0;margin:0;background:none}ol.book summary{padding:2px 0}"
    "ul{padding-left:20px;margin:6px 0}li{overflow-wrap:anywhere}"
    "footer{margin-top:40px;color:var(--dim);font-size:13px}"
    "@media (max-width:520px){main{padding:16px 12px 48px}h1{font-size:21px}body{font-size:14.5px}"
    ".facts{grid-template-columns:repeat(2,1fr)}"
    ".answers thead{display:none}.answers tr,.answers td{display:block}.answers td{border:0;padding:2px 10px}"
    ".answers tr{border-bottom:1px solid var(--line);padding:6px 0}.answers tr[hidden],.answers td:empty{display:none}"
    ".answers td>div{max-width:none}.answers td:nth-child(4)::before{content:'said: ';color:var(--dim)}"
    ".answers td:nth-child(5)::before{content:'right: ';color:var(--dim)}}"
    "@media print{details{break-inside:avoid}.scroll{overflow:visible}}"
    f"{_COLOURS}{_DRAWING}"
)
