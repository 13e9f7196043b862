"""The commands: run a described swarm, ask an agent, look at it, draw it, hand its traces to learning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from combee.cli.main import run
from combee.redaction import from_jsonl
from combee.swarm import World
from combee.swarm.config import build, populate, read_swarm_file

FILE = """
[model]
kind = "lookup"
[documents]
folder = "docs"
[[agents]]
name = "ann"
role = "reader"
reads = ["http.md"]
[[agents]]
name = "wes"
role = "worker"
mode = "serial"
[task]
to = "wes"
question = "What is the retry limit of the HTTP client?"
subject = "http.md"
"""


@pytest.fixture
def office_file(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "http.md").write_text("The retry limit of the HTTP client is 7 tries.\nThe timeout is 30 s.\n")
    path = tmp_path / "office.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_a_described_swarm_answers_its_task_and_can_be_asked_again(
    office_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = str(office_file.parent / "office.sqlite")
    assert run(["swarm", "run", str(office_file)]) == 0
    assert capsys.readouterr().out == "The retry limit of the HTTP client is 7 tries.\n"
    assert run(["swarm", "run", str(office_file), "--json"]) == 0  # again: nothing is done twice
    assert json.loads(capsys.readouterr().out)["handled"] == 0
    assert run(["swarm", "ask", "ann", "what is the timeout?", "--world", world]) == 0
    assert capsys.readouterr().out.startswith("The timeout")
    assert run(["swarm", "ask", "nobody", "?", "--world", world]) == 2
    assert "Known: ann, wes" in capsys.readouterr().err
    assert run(["swarm", "status", "--world", world, "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["agents"]] == ["ann", "wes"]
    for more in (["status"], ["log"], ["log", "--json"]):
        assert run(["swarm", *more, "--world", world]) == 0
    assert "wes -> ann" in capsys.readouterr().out


def test_what_agents_wrote_stays_newer_than_the_file_it_began_with(office_file: Path) -> None:
    described = read_swarm_file(office_file)
    with World.open(described.world) as world:
        swarm = build(described, world)
        populate(described, swarm)
        swarm.write("http.md", "The retry limit is 9.", "wes")
        populate(described, swarm)
        found = swarm.document("http.md")
        assert found is not None
        assert (found.version, found.author) == (2, "wes")
        (described.folder / "docs" / "http.md").write_text("The retry limit is 3.", encoding="utf-8")
        populate(described, swarm)
        found = swarm.document("http.md")
        assert found is not None
        assert (found.version, found.body) == (3, "The retry limit is 3.")


def test_graph_and_traces_are_written(office_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = str(office_file.parent / "office.sqlite")
    run(["swarm", "run", str(office_file)])
    svg, lines = office_file.parent / "g.svg", office_file.parent / "t.jsonl"
    assert run(["swarm", "graph", "--world", world, "--out", str(svg)]) == 0
    assert "ann and wes" in svg.read_text(encoding="utf-8")
    assert run(["swarm", "traces", "--world", world, "--out", str(lines)]) == 0
    with lines.open(encoding="utf-8") as file:
        found = list(from_jsonl(file))
    assert {trace.meta["role"] for trace in found} == {"reader", "worker"}
    capsys.readouterr()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('kind = "lookup"', 'kind = "lokup"', "Did you mean 'lookup'"),
        ('name = "ann"', 'nam = "ann"', "Did you mean 'name'"),
        ('to = "wes"', 'to = "will"', "who is not described"),
        ('mode = "serial"', 'mode = "cereal"', "Did you mean 'serial'"),
        ("[model]", "[model", "is not TOML"),
        ('reads = ["http.md"]', 'reads = "http.md"', "It must be a list of text"),
        ('name = "wes"', 'name = "ann"', "several agents 'ann'"),
        ('name = "wes"', "", "[[agents]] has no 'name'"),
        ('role = "worker"', "role = 7", "It must be text"),
        ("[documents]", "[[channels]]\nmembers = []\n[documents]", "[[channels]] has no 'name'"),
        ("[documents]", "[channels]\n[documents]", "Write [[channels]]"),
        ('folder = "docs"', 'foler = "docs"', "Did you mean 'folder'"),
        ('question = "', 'subject = "', "[task] has no 'question'"),
    ],
)
def test_a_wrong_description_says_what_to_do(
    office_file: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, says: str
) -> None:
    text = FILE.replace(old, new, 1)
    if "no 'question'" in says:
        text = text.replace('subject = "http.md"\n', "")
    office_file.write_text(text, encoding="utf-8")
    assert run(["swarm", "run", str(office_file)]) == 2
    assert says in capsys.readouterr().err
