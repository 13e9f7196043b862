"""A package adds a command, a method and a format by entry points: that of docs/extend.md, installed and used."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from combee.run.plugins import first_line

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extend.md"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package of the page, as pip would lay it down."""
    text = PAGE.read_text(encoding="utf-8")
    place = tmp_path / "site"
    info = place / "tidy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidy\nVersion: 1.0\n")
    (toml,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    points = toml.replace('[project.entry-points."', "[").replace('"]', "]").replace('"', "")
    (info / "entry_points.txt").write_text(points)
    (place / "tidy").mkdir()
    (place / "tidy" / "__init__.py").write_text("raise SystemExit('imported')\n")
    for name, module in zip(
        ("sections", "newest", "chatlog"), re.findall(r"```python\n(.*?)```", text, re.DOTALL), strict=True
    ):
        (place / "tidy" / f"{name}.py").write_text(module)
    return place


def combee(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(place)}
    command = [sys.executable, "-m", "combee", *arguments]
    return subprocess.run(command, cwd=place.parent, env=environment, capture_output=True, text=True, check=False)


def used(place: Path) -> Path:
    (place / "tidy" / "__init__.py").write_text("")
    return place


def test_the_help_names_a_foreign_command_and_imports_nothing_of_its_package(package: Path) -> None:
    done = combee(package, "--help")
    assert done.returncode == 0, done.stderr
    assert re.search(r"sections +Count the bullets of a playbook by section\.", done.stdout)


def test_a_method_of_another_package_learns_and_its_command_reads_the_run(package: Path) -> None:
    used(package)
    with (package.parent / "rows.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerows([("question", "answer"), *((f"Which desk for case {n}?", f"D{n % 3}") for n in range(20))])
    done = combee(package, "learn", "rows.csv", "--method", "newest", "--name", "one", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] >= 1
    counted = combee(package, "sections", "one")
    assert counted.returncode == 0
    assert counted.stdout.startswith("runs/one@best: {")
    assert combee(package, "resume", "one", "--quiet").returncode == 0
    wrong = combee(package, "learn", "rows.csv", "--method", "newst")
    assert (wrong.returncode, "Did you mean 'newest'?" in wrong.stderr) == (2, True)


def test_a_format_of_another_package_is_read(package: Path) -> None:
    used(package)
    logs = package.parent / "logs"
    logs.mkdir()
    (logs / "monday.chatlog").write_text("me: Where are the invoices?\nagent: Below finance/inbox.\n")
    done = combee(package, "traces", "logs", "--json")
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["formats"], json.loads(done.stdout)["steps"]) == ({"chatlog": 1}, 2)


def test_a_package_that_cannot_be_imported_is_named(package: Path) -> None:
    (package / "tidy" / "__init__.py").write_text("import nowhere\n")
    done = combee(package, "sections")
    assert done.returncode == 2
    assert "'sections' of tidy (tidy.sections:command) cannot be loaded: No module named 'nowhere'" in done.stderr
    assert combee(package, "--help").returncode == 0


def test_a_command_whose_module_says_nothing_is_still_listed() -> None:
    assert first_line(EntryPoint("x", "no_such_package.y:z", "combee.commands")) == "From an installed package."
    assert first_line(EntryPoint("x", "json.decoder:JSONDecoder", "combee.commands")).startswith("Implementation of")
