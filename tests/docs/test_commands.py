"""What a page shows of the command line is what the command line says: `console` blocks are run, line by line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$\n*(\(shortened\))?", re.MULTILINE | re.DOTALL)
JSON = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ["README.md", "README.zh-CN.md", "docs/first-hour.md", "docs/zh-CN/first-hour.md"]


def commands(block: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a block, and below each the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


@pytest.mark.skipif(sys.platform == "win32" or not shutil.which("iconv"), reason="needs a shell and iconv")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_is_printed(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("runs", "mock.log"))
    for rows in JSON.findall(text):
        (tmp_path / "my.jsonl").write_text(rows, encoding="utf-8")
    place = tmp_path
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    tried = 0
    for block, shortened in BLOCK.findall(text):
        for command, shown in commands(block):
            if command.startswith("cd "):
                place = tmp_path / command[3:]
            if command.startswith("cd ") or shortened:
                continue
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=place,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=100,
            )
            assert done.returncode == 0, done.stderr
            printed = {*done.stdout.splitlines(), *done.stderr.splitlines()}
            assert [line for line in shown if line not in printed] == [], (command, done.stdout, done.stderr)
            if any(line.startswith(("validation ", "without a playbook")) for line in shown):  # no score without these
                assert {line for line in printed if "most similar training row" in line} <= {*shown}, command
            tried += 1
    assert tried > 1


def test_the_program_of_the_first_page_runs(tmp_path: Path) -> None:
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    shutil.copy(ROOT / "examples" / "tickets" / "tickets.csv", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1.0 ## ")


def test_the_tables_of_the_first_pages_are_what_the_demo_prints() -> None:
    row = re.compile(r"^ +((?:sequential|naive|paper|combee) +\d+ / \d+ .*?) +[\d.]+$", re.MULTILINE)  # without seconds
    done = subprocess.run(
        [sys.executable, "-m", "combee", "demo"], capture_output=True, text=True, check=False, timeout=100
    )
    printed = row.findall(done.stdout)
    assert len(printed) == 8, done.stderr
    assert row.findall((ROOT / "README.md").read_text(encoding="utf-8")) == printed
    assert row.findall((ROOT / "README.zh-CN.md").read_text(encoding="utf-8")) == printed[4:]
