"""A strict reader of our pages, and a text that tries everything."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

from combee.report.page import SCRIPT

HOSTILE = "</script></p><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;<!-- ]]> 🐝 \u202e"
VOID = {"meta", "link", "br", "hr", "col", "wbr", "input"}


class Page(HTMLParser):
    """Reads a page and raises where an element is not closed, closed twice, or an id is not unique."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.stack, f"<{tag}/> stands outside a drawing"
        self._seen(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in {"style", "script"}:
            self.texts.append(data)

    def _seen(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name == "id":
                assert value not in self.ids
                self.ids.add(value or "")
            if name in {"href", "src"}:
                self.links.append(value or "")


def read_page(text: str) -> Page:
    """Return a page that is well formed, self-contained, and runs nothing but our script, which a policy names."""
    assert text.startswith("<!DOCTYPE html>")
    policy = re.search(r"script-src (?:'|&#39;)sha256-([^'&]+)", text)
    assert policy is not None
    assert base64.b64decode(policy[1]) == hashlib.sha256(SCRIPT.encode()).digest()
    page = Page(text)
    assert page.tags.count("script") == 1
    assert text.endswith(f"<script>{SCRIPT}</script>\n</body>\n</html>\n")
    assert not {"iframe", "object", "embed", "img", "form"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert all(link == "data:," or link.removeprefix("#") in page.ids for link in page.links)
    style = text.split("<style>", maxsplit=1)[1].split("</style>", maxsplit=1)[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme:dark" in style
    return page
