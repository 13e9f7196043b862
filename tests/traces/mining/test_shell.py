"""Command lines taken apart: what surely ran, what is a here-document, what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.traces.mining.shell import base_package, parts, without_heredocs, written_files


def actions(command: str) -> list[str]:
    return [part.action for part in parts(command)]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("git merge --no-ff x", ["git merge"]),
        ("sudo apt install -y jq && jq .", ["apt-get install", "jq"]),
        ("python -m pip install numpy", ["pip install"]),
        ("cd /a && FOO=1 timeout 30 python3 -c 'a; b && c'", ["cd", "python3"]),
        ('grep "a|b" x | head -3; wc -l', ["grep", "head", "wc"]),
        ("conda env create -f e.yml", ["conda env create"]),
        ("cmd 2>&1 | tee log", ["cmd", "tee"]),
        ("nohup ./serve > log 2>&1 &", ["./serve"]),
        ("cat <<'EOF' > a.py\nimport os; os.system('rm')\nEOF\npython3 a.py", ["cat", "python3"]),
        ('git "a b" c', ["git a b"]),
        ("for i in 1 2; do echo $i; done", []),
        ("echo 'never closed", []),
        ("", []),
    ],
)
def test_the_simple_commands_of_a_line(command: str, found: list[str]) -> None:
    assert actions(command) == found


def test_an_exit_code_speaks_only_for_what_leads_to_it() -> None:
    assert [part.sure for part in parts("a && b && c")] == [True, True, True]
    assert [part.sure for part in parts("a; b || c && d")] == [False, False, True, True]
    assert [part.sure for part in parts("a | b")] == [False, True]


def test_what_feeds_a_command_and_what_is_in_the_background() -> None:
    fed, background = parts("printf 'x' | ./game")[1], parts("./serve & sleep 1")[0]
    assert fed.fed == "printf 'x'"
    assert background.background
    assert not parts("a && b")[0].background


def test_files_that_are_written_and_the_names_of_packages() -> None:
    assert written_files("cat > src/a.py <<EOF\nx > y\nEOF\necho 1 >> log 2> /dev/null") == {"a.py", "log"}
    assert [base_package(word) for word in ("python3-numpy", "NumPy>=1.2", "uvicorn[standard]", "a_b==1")] == [
        "numpy",
        "numpy",
        "uvicorn",
        "a-b",
    ]


@given(st.text(alphabet="ab \n'\"`\\|&;<>(){}$EOF-/", max_size=120))
def test_no_text_breaks_it(command: str) -> None:
    for line in (command, f"git {command}"):
        for part in parts(line):
            assert len(part.verbs) + len(part.arguments) == len(part.words) - 1
    without_heredocs(command)
    written_files(command)
