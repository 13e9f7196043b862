"""The programs of the pages on the library run as they stand there and print what stands below them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("library.md", "evidence/library.md"))
PROGRAMS: list[tuple[str, str]] = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL
)


def test_every_program_of_the_page_is_run_here() -> None:
    assert len(PROGRAMS) == TEXT.count("```python") == 2


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_a_program_of_the_page_prints_what_stands_below_it(program: str, printed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        # Python 3.12.0 to 3.12.3 warn of numbered marks (?1) in SQL by mistake.
        [sys.executable, "-W", "error", "-W", "ignore:Binding:DeprecationWarning", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    assert done.stderr == ""
