"""`combee config`: what is in force, where it comes from, and the schema for editors; no key is ever shown."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.kernel.learn import LearnConfig

FILE = """[learn]
epochs = 3

[model]
name = "gpt-4.1"
[model.curator]
name = "c"
api_key_env = "CURATOR_KEY"

[prices]
"gpt-4.1" = { input = 1, output = 2 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "COMBEE_DATA"):
        monkeypatch.delenv(name, raising=False)
    Path("combee.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(["config", *arguments]) == 0
    return capsys.readouterr().out


def test_every_value_is_shown_with_where_it_comes_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COMBEE_DATA", str(tmp_path))
    found: dict[str, Any] = json.loads(told(capsys, "show", "--json", "--set", "near=0.5"))
    assert found["learn"]["epochs"] == {"value": 3, "from": "combee.toml:2"}
    assert found["learn"]["near"] == {"value": 0.5, "from": "--set near=0.5"}
    assert found["learn"]["batch"] == {"value": LearnConfig().batch, "from": "default"}
    assert found["tasks"]["data_dir"] == {"value": str(tmp_path), "from": "$COMBEE_DATA"}
    assert found["model.curator"].keys() == {"name", "api_key_env"}
    assert found["prices"]["gpt-4.1"]["from"] == "combee.toml:11"


def test_what_is_shown_is_a_settings_file_that_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(capsys, "show")
    assert tomllib.loads(shown)["model"]["curator"]["name"] == "c"
    Path("again.toml").write_text(shown, encoding="utf-8")
    first = json.loads(told(capsys, "show", "--json"))
    again = json.loads(told(capsys, "show", "--json", "--config", "again.toml"))
    for table, rows in first.items():
        assert {key: one["value"] for key, one in rows.items()} == {k: v["value"] for k, v in again[table].items()}


def test_no_key_and_no_login_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://user:hunter2-login@h.example/v1?api-key=hunter2-query")
    for form in ([], ["--json"]):
        shown = told(capsys, "show", *form)
        assert "hunter2" not in shown
        assert "https://h.example/v1" in shown
    rows = json.loads(told(capsys, "show", "--json"))
    assert rows["model"]["api_key_env"]["from"] == "default, a variable that is set"
    assert rows["model.curator"]["api_key_env"]["from"] == "combee.toml:8, a variable that is not set"


def test_the_schema_names_every_key_of_the_file_that_init_writes(capsys: pytest.CaptureFixture[str]) -> None:
    schema: dict[str, Any] = json.loads(told(capsys, "schema"))
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["additionalProperties"] is False
    quorum = schema["$defs"]["LearnTable"]["properties"]["quorum"]
    assert (quorum["type"], quorum["exclusiveMinimum"], quorum["maximum"], quorum["default"]) == ("number", 0, 1, 1.0)
    assert quorum["description"].startswith("Share of a step's samples")
    assert set(schema["properties"]) == {
        "tasks",
        "agent",
        "model",
        "learn",
        "budget",
        "prices",
        "environment",
        "guard",
        "start",
        "workers",
    }


def test_help_of_learn_shows_what_most_need_and_the_rest_still_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "--help"]) == 0
    help_text = capsys.readouterr().out
    assert sum(line.startswith("  -") for line in help_text.splitlines()) <= 22
    assert "--quorum" not in help_text
    Path("combee.toml").unlink()
    few = ["--train", "8", "--val", "4", "--test", "4", "--json"]
    assert run(["learn", "tags", "--aggregate", "naive", "--set", "learn.batch=4", *few]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2
