"""In a real browser: nothing is wider than the screen of a phone, the search works, no error is logged."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import combee

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
ROWS = [(f"Which account takes the {word} of case {n}?", word.upper()) for n in range(20) for word in ("rent", "tax")]


def browse(page: Path, *arguments: str) -> str:
    profile = page.parent / "profile"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
    done = subprocess.run(
        [str(CHROMIUM), *flags, "--enable-logging=stderr", *arguments, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert errors == []
    return done.stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser") / "one"
    combee.learn([*ROWS, ("Which account takes the fee?", "FEE" * 40)], batch=12, folder=folder)
    return folder / "report.html"


def test_the_script_runs_under_its_policy_and_shows_the_search(report: Path) -> None:
    found = re.search(r'<p class="filter"[^>]*data-of="book"[^>]*>', browse(report, "--dump-dom"))
    assert found is not None
    assert "hidden" not in found[0]


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("desktop", 1200, False), ("phone", 500, False), ("dark", 1200, True)]
)
def test_the_page_is_photographed(report: Path, name: str, width: int, dark: bool) -> None:
    picture = report.parent / f"{name}.png"
    scheme = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
    browse(report, f"--screenshot={picture}", f"--window-size={width},1200", *scheme)
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) == width
    assert len(data) > 20_000  # not an empty page


def test_nothing_is_wider_than_a_phone(report: Path) -> None:
    measured = report.with_name("measured.html")
    script = "<script>document.title = 'w' + document.documentElement.scrollWidth + ' ' + innerWidth</script>"
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", report.read_text(encoding="utf-8"))
    measured.write_text(text.replace("</body>", f"{script}</body>"), encoding="utf-8")
    title = re.search(r"<title>w(\d+) (\d+)</title>", browse(measured, "--dump-dom", "--window-size=500,900"))
    assert title is not None
    assert int(title[1]) <= int(title[2])
