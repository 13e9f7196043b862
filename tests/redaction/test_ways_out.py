"""No way out of a run on traces holds a password of a command: files, lessons, exports, a report over MCP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.errors import UsageError
from combee.export import FORMS, export
from combee.kernel.guard import screen
from combee.kernel.playbook import Add, Bullet, Playbook, delta_of, load
from combee.mcp import REPORTED, LessonStore
from combee.redaction import find_secrets
from tests.swarm.test_swarm_cli import FILE as OFFICE

COMMANDS = [
    "curl -f -u admin:{} http://h/x",
    "redis-cli -a {} ping",
    "sshpass -p {} ssh bob@h ls",
    "docker login -u bob -p {} registry.local",
    "mysql -uroot -p{} -e 'select 1'",
    "curl -f -H 'Cookie: session={}' http://h/y",
    "psql --pass {} -h db",
    "vault kv put secret/x pw={}",
    "az login -u bob -p {}",
]
SECRETS = [f"Kq7zv{number}hunter" for number in range(len(COMMANDS))]


def chat(command: str, number: int) -> list[dict[str, Any]]:
    """A run that fails with the command and mends it: what a lesson quotes."""
    said = f"my password is {SECRETS[number % len(SECRETS)]}\nerror: unrecognized option '--retrry'"
    rows = [(f"{command} --retrry", said, 1), (f"{command} --retry", "ok", 0)]
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Run step {number} with {command}"}]
    for at, (said, output, code) in enumerate(rows):
        call = {"name": "bash", "arguments": json.dumps({"command": said})}
        tool = {"id": f"c{at}", "type": "function", "function": call}
        messages.append({"role": "assistant", "content": "", "tool_calls": [tool]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": f"{output}\nexit code: {code}"})
    return messages


def clean(data: str | bytes) -> bool:
    """Whether no secret stands in what was written."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    return not any(secret in text for secret in SECRETS)


def test_no_file_of_a_run_no_lesson_and_no_export_holds_a_password_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [
        {"messages": chat(command.format(secret), number)}
        for number in range(3)
        for command, secret in zip(COMMANDS, SECRETS, strict=True)
    ]
    Path("x.jsonl").write_text("\n".join(map(json.dumps, runs)), encoding="utf-8")
    Path("repo").mkdir()
    assert run(["traces", "x.jsonl", "--out", "all.jsonl"]) == 0
    assert run(["learn", "--from", "x.jsonl", "--name", "one"]) == 0
    book = load(Path("runs/one/playbook.json"))
    lessons = " ".join(bullet.text for bullet in book.bullets)
    said = capsys.readouterr()
    held_back = [command for command in COMMANDS if command.split()[0] not in lessons]
    assert {command.split()[0] for command in held_back} <= {"curl"}  # it sends something out
    assert all(f"`{command.split()[0]} " in said.out + said.err for command in held_back)
    for form in ("prompt", "skill", "ace", "agents", "cursor", "json"):
        assert run(["export", "one", "--to", form, "--out", f"out/{form}", "--accept-risky"]) == 0
    assert run(["apply", "one", "repo", "--yes", "--accept-risky"]) == 0
    assert run(["why", "one", book.bullets[0].id]) == 0
    Path("x.jsonl").unlink()
    assert clean("".join([*said, *capsys.readouterr()]))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"all.jsonl", "traces.jsonl", "journal.sqlite", "report.html", "AGENTS.md"} <= {path.name for path in files}
    assert [path for path in files if not clean(path.read_bytes())] == []


@pytest.mark.parametrize(("command", "secret"), list(zip(COMMANDS, SECRETS, strict=True)))
def test_a_lesson_with_such_a_command_is_neither_learned_nor_exported(command: str, secret: str) -> None:
    text = f"Before the tests run `{command.format(secret)}`."
    kept, refused = screen(delta_of([Add("OTHERS", text, ("r1",))]), None, find_secrets=find_secrets)
    assert (len(kept), len(refused)) == (0, 1)
    assert clean(refused[0][1])
    for form in FORMS:
        with pytest.raises(UsageError, match="holds a secret") as caught:
            export(Playbook((Bullet("oth-00001", "OTHERS", text),)), form, name="x")
        assert clean(str(caught.value))


def test_a_run_reported_over_mcp_is_kept_without_its_passwords(tmp_path: Path) -> None:
    store = LessonStore(tmp_path / "playbook.md", reports=tmp_path / REPORTED)
    (tmp_path / "playbook.md").write_text("", encoding="utf-8")
    for number, (command, secret) in enumerate(zip(COMMANDS, SECRETS, strict=True)):
        store.report(f"run {command.format(secret)}", chat(command.format(secret), number), success=False)
    assert clean((tmp_path / REPORTED).read_bytes())


def test_the_traces_of_a_swarm_are_written_without_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    said = f"The retry limit of the HTTP client is 7 with `curl -u bob:{SECRETS[0]} http://h`."
    Path("docs/http.md").write_text(said, encoding="utf-8")
    Path("office.toml").write_text(OFFICE, encoding="utf-8")
    assert run(["swarm", "run", "office.toml"]) == 0
    assert SECRETS[0] in capsys.readouterr().out
    assert run(["swarm", "traces"]) == 0
    assert clean(Path("traces.jsonl").read_bytes())
    assert b"curl -u bob:[redacted:password]" in Path("traces.jsonl").read_bytes()
