"""A real model in this process through the commands, end to end: few rows, short prompts and replies, real weights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.errors import UsageError
from combee.kernel.journal import Journal
from combee.kernel.playbook import Playbook, save
from combee.model.local import find_weights

MODEL = ("--model", "local/smollm2")
TOKENS = 64
PROMPTS = {
    "generator": "{{playbook}}\n--- user ---\n{{task}}",
    "reflector": "Say what to remember.\n--- user ---\n{{bullets}}{{task}}{{answer}}{{outcome}}{{target}}",
    "curator": "{{playbook}}\n--- user ---\n{{reflections}}\n"
    'Write {"operations": [{"type": "ADD", "content": "a lesson"}]}',
}
# Our own forms do not fit into so few tokens: these hold what must be in them.
FORM = """
[model.{role}.extra.response_format]
type = "json_schema"
[model.{role}.extra.response_format.json_schema]
schema = {{ type = "object", required = ["{name}"], properties = {{ {name} = {value} }} }}
"""
TEXT = '{ type = "string", minLength = 8, maxLength = 16 }'
ADD = f'{{ type = {{ const = "ADD" }}, content = {TEXT} }}'
ADDS = f'{{ type = "array", minItems = 1, maxItems = 1, items = {{ type = "object", properties = {ADD}, REQUIRED }} }}'
VALUES = (
    ("generator", "final_answer", TEXT),
    ("reflector", "key_insight", TEXT),
    ("curator", "operations", ADDS.replace("REQUIRED", 'required = ["type", "content"]')),
)
SETTINGS = f"[model]\nmax_output_tokens = {TOKENS}\n[learn]\nsecond_chances = 0\n" + "".join(
    FORM.format(role=role, name=name, value=value) for role, name, value in VALUES
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "COMBEE_GGUF"):
        monkeypatch.delenv(name, raising=False)
    rows = [{"question": f"Name the code of gate {n}.", "answer": str(400 + n)} for n in range(3)]
    Path("gates.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


@pytest.fixture
def _weights() -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    try:
        find_weights()
    except UsageError as error:
        pytest.skip(str(error))
    folder = Path("prompts")
    folder.mkdir()
    for name, text in PROMPTS.items():
        (folder / f"{name}.md").write_text(f"--- system ---\n{text}", encoding="utf-8")
    Path("combee.toml").write_text(SETTINGS, encoding="utf-8")


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.timeout(600)  # real work on two cores that others may hold
@pytest.mark.usefixtures("_weights")
def test_learn_resume_and_eval_with_a_model_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    learn = ("learn", "gates.jsonl", "--train", "1", "--val", "0", "--test", "1", *MODEL, "--prompts", "prompts")
    limits = ("--no-guard", "--max-calls", "12", "--max-cost", "0.01", "--max-in-flight", "1")
    assert run([*learn, *limits, "--name", "a", "--json"]) == 0
    done = said(capsys)
    assert (done["reason"], done["steps"], done["model"]["cost"]) == ("completed", 1, 0.0)
    assert done["bullets"] >= 1
    with Journal.open(Path("runs/a"), create=False, read_only=True) as journal:
        calls = [row for row in journal.calls() if isinstance(row, dict)]
        results = {address.role for address, _ in journal.results()}
    assert {"generator", "reflector", "curator"} <= {str(row["role"]) for row in calls}
    assert {(row["model"], row["outcome"], row["cost"]) for row in calls} == {("local/smollm2", "ok", 0.0)}
    usages = [row["usage"] for row in calls if isinstance(row["usage"], dict)]
    assert len(usages) == len(calls) <= 12
    assert not any(usage["estimated"] for usage in usages)
    written = [int(str(usage["completion"])) for usage in usages]
    assert max(written) <= TOKENS, written
    assert results
    assert run(["resume", "runs/a", "--quiet", "--json"]) == 0
    assert said(capsys)["model"]["calls"] == 0
    assert run(["eval", "runs/a", "--json"]) == 0
    scored = said(capsys)
    assert (scored["total"], scored["errors"]) == (1, {})


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_weights")
def test_calibrate_asks_nobody_for_calls_that_are_free(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", *MODEL, "--prompts", "prompts", "--sizes", "1", "--repeats", "1", "--json"]) == 0
    shown = capsys.readouterr()
    assert "free" in shown.err
    assert json.loads(shown.out)["result"]["measured"][0][:4] == [1, 1, 0, 1]
    assert "local/smollm2" in Path("combee-calibration.json").read_text(encoding="utf-8")


def test_a_dry_run_needs_no_weights_and_costs_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMBEE_GGUF", "none.gguf")
    assert run(["learn", "gates.jsonl", "--train", "2", *MODEL, "--max-cost", "1", "--dry-run", "--json"]) == 0
    assert said(capsys)["cost"] == 0


@pytest.mark.parametrize("command", [["learn", "gates.jsonl"], ["calibrate"], ["refine", "book.json"], ["doctor"]])
def test_missing_weights_are_said_before_anything_is_made(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(Playbook(), Path("book.json"))
    monkeypatch.setenv("COMBEE_GGUF", "none.gguf")
    assert run([*command, *MODEL]) == (1 if command == ["doctor"] else 2)
    shown = capsys.readouterr()
    assert re.search(r"no model file \S*none\.gguf", shown.out + shown.err)
    assert not Path("runs").exists()


def test_options_of_an_endpoint_do_not_go_with_a_model_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "gates.jsonl", *MODEL, "--base-url", "http://127.0.0.1:9/v1"]) == 2
    assert "--base-url does nothing with local/smollm2" in capsys.readouterr().err
