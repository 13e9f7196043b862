"""The pages are short where one looks something up, their lines are short, and their links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "skills/**/*.md", "examples/**/*.md") for path in ROOT.glob(pattern)
)
NOT_FOR_USE = {"api.md", "decisions.md", "extend.md", "kernel.md"}  # made from docstrings; for those who add to Combee
USE = sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in NOT_FOR_USE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """Return the names of a page's headings, as they stand behind `#` in a link."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(path), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        found.add(re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-"))
    return found


def broken(path: Path) -> Iterator[str]:
    for link in LINK.findall(prose(path)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = unquote(link).partition("#")
        place = (path.parent / target).resolve() if target else path
        headings = anchors(place) if anchor and place.is_file() and place.suffix == ".md" else {anchor}
        if not place.exists() or anchor not in headings:
            yield link


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings_that_are_there(path: Path) -> None:
    assert list(broken(path)) == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One thing\n[a](#one-thing) [b](#another) [c](none.md) [d](https://example.org)\n```\n[e](f)\n```\n"
    )
    assert list(broken(page)) == ["#another", "none.md"]


def test_the_pages_for_use_can_be_read_in_half_an_hour() -> None:
    words = {path.name: len(path.read_text(encoding="utf-8").split()) for path in USE}
    assert len(words) > 9
    assert sum(words.values()) <= 6_000, words


@pytest.mark.parametrize(
    "path", [*USE, ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name
)
def test_no_line_of_a_page_for_use_is_long(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert {number: line for number, line in enumerate(lines, 1) if len(line) > 120} == {}


def test_every_page_is_reached_from_the_first_one() -> None:
    reached: set[Path] = set()
    new = {ROOT / "docs" / "index.md"}
    while new:
        reached |= new
        links = ((page, link.partition("#")[0]) for page in new for link in LINK.findall(prose(page)))
        new = {
            place
            for page, link in links
            if link.endswith(".md") and ":" not in link and (place := (page.parent / link).resolve()).exists()
        } - reached
    pages = {*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "evidence").glob("**/*.md")}
    assert {str(path.relative_to(ROOT)) for path in pages - reached} == set()


def test_the_site_lists_every_page() -> None:
    listed = set(
        re.findall(
            r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("**/*.md")}
    assert listed == pages
