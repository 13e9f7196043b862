"""Each folder below examples/ runs as it is and prints what stands in its expected.txt."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = sorted(path.parent.name for path in EXAMPLES.glob("*/run.sh"))
COUNTED = re.compile(r"^(model|rollout|reflection|aggregation|all) .*$", re.MULTILINE)


def printed(text: str) -> str:
    """Return what was printed, without the tokens of our prompts: they change with each word of those."""
    return COUNTED.sub(lambda line: re.sub(r"[\d,.]+(?= tokens)|(?<=  )[\d,.]+(?=  )", "N", line[0]), text)


def test_there_are_five() -> None:
    assert FOLDERS == ["coding-traces", "extraction", "gepa", "own-agent", "tickets"]
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir() and not path.name.startswith("_")} == {*FOLDERS}


@pytest.mark.skipif(sys.platform == "win32", reason="run.sh needs a shell")
@pytest.mark.parametrize("name", FOLDERS)
def test_an_example_prints_what_stands_beside_it(name: str, tmp_path: Path) -> None:
    if name == "gepa":
        pytest.importorskip("gepa")
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("runs", "mock.log", ".claude"))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "run.sh"], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert printed(done.stdout) == printed((folder / "expected.txt").read_text(encoding="utf-8")), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="run.sh needs a shell")
def test_an_example_whose_program_fails_says_so(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "gepa" / "run.sh", tmp_path)
    (tmp_path / "search.py").write_text("raise SystemExit(3)", encoding="utf-8")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "run.sh"], cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=100
    )
    assert done.returncode == 3


@pytest.mark.parametrize("name", FOLDERS)
def test_the_page_of_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name / "README.md").read_text(encoding="utf-8").splitlines()) <= 12
