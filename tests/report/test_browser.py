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


def measure(report: Path, script: str) -> list[int]:
    """Return the numbers that a script in the page puts into its title."""
    measured = report.with_name("measured.html")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", report.read_text(encoding="utf-8"))
    measured.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    title = re.search(r"<title>([\d ,]+)</title>", browse(measured, "--dump-dom", "--window-size=500,900"))
    assert title is not None
    return [int(number) for number in title[1].split(",")]


def test_nothing_is_wider_than_a_phone(report: Path) -> None:
    page, window = measure(report, "document.title = [document.documentElement.scrollWidth, innerWidth]")
    assert page <= window


def test_the_search_and_the_tick_leave_what_fits(report: Path) -> None:
    script = """
      const box = document.querySelector(".filter[data-of=rows-training]");
      const [search, tick] = box.querySelectorAll("input");
      const rows = [...document.querySelectorAll("#rows-training tbody tr")];
      const left = () => rows.filter(row => row.offsetParent).length, found = [rows.length, left()];
      search.value = "the TAX of case 1?"; search.oninput(); found.push(left());
      search.value = ""; tick.checked = true; tick.onchange(); found.push(left());
      const key = document.querySelector("svg [data-key]"); key.onclick();
      const drawn = key.closest("svg").querySelector(`[data-series="${key.dataset.key}"]`);
      document.title = [...found, drawn.getClientRects().length];
    """
    everything, before, tax, failures, drawn = measure(report, script)
    assert everything == before > failures > 0
    assert tax in {0, 1}  # in training, or held out
    assert drawn == 0


def test_a_plot_says_what_stands_under_the_pointer_and_zooms_into_what_is_dragged_over(report: Path) -> None:
    script = """
      const svg = document.querySelector("svg[data-axes]"), area = svg.querySelector(".hover");
      area.setPointerCapture = () => {};
      const box = area.getBoundingClientRect(), y = box.top + 9;
      const at = (kind, share) => area.dispatchEvent(
        new PointerEvent(kind, {clientX: box.left + share * box.width, clientY: y, pointerId: 1}));
      const ticks = () => [...svg.querySelectorAll("[data-tick]")].map(tick => +tick.textContent);
      const points = svg.querySelector("[data-points]").dataset.points.split(" ").map(pair => pair.split(":"));
      at("pointermove", 0);
      const said = [...svg.querySelectorAll(".tip text")].map(text => text.textContent);
      const first = String(+(+points[0][1]).toPrecision(5));
      const right = said[0] === points[0][0] && said.some(line => line.startsWith(first));
      const before = ticks();
      at("pointerdown", 0.25); at("pointerup", 0.75);
      const [low, high] = [ticks()[0], ticks().at(-1)], inside = before[0] < low && high < before.at(-1);
      at("dblclick", 0.5);
      document.title = [+right, +inside, +(String(ticks()) === String(before))];
    """
    assert measure(report, script) == [1, 1, 1]
