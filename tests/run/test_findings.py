"""What the guard alerted of, and what of a curator's replies was not used, stands in output, JSON and report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from combee.cli import run
from combee.mock import MockServer
from tests.cli.gauges import combee, gauges_here, learn, student

if TYPE_CHECKING:
    import pytest

ODD = (
    {"type": "FROB", "content": "Turn it off and on again.", "sources": [1]},
    {"type": "MERGE", "bullet_ids": ["misc-77777", "misc-88888"], "content": "Both at once.", "sources": [1]},
)


def sloppy(body: Mapping[str, Any]) -> str:
    """A curator that also sends what nobody asked for."""
    text = student()(body)
    reply = json.loads(text)
    if "operations" not in reply:
        return text
    extra = {"consolidation_operations": [{"type": "MERGE"}, {"type": "MERGE"}], "notes": []}
    return json.dumps(reply | extra | {"operations": [*reply["operations"], *ODD]})


async def test_parts_of_replies_that_were_not_used_are_counted_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gauges_here(tmp_path, monkeypatch)
    async with MockServer(reply=sloppy) as server:
        assert await combee(*learn(server.url, "--name", "a", "--json")) == 0
        problems = json.loads(capsys.readouterr().out)["unused"]["problems"]
        assert sorted(problems.values()) == [1, 1, 2]
        extra = problems.pop("an entry under the key 'consolidation_operations', which nobody asked for")
        assert extra == 2
        assert await combee(*learn(server.url, "--name", "b", "--batch", "3")) == 0
    out = capsys.readouterr().out
    assert all(f"unused     2 × {what}\n" in out for what in problems)
    page = await asyncio.to_thread(Path("runs/b/report.html").read_text, encoding="utf-8")
    assert "8 parts of replies were not used" in page
    assert "FROB" in page


def test_a_collapse_is_alerted_in_the_output_and_in_the_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    naive = ["learn", "tags", "--train", "120", "--val", "0", "--test", "0", "--aggregate", "naive", "--batch", "120"]
    assert run([*naive, "--forget", "10", "--quiet", "--json", "--name", "a"]) == 0
    alerts = json.loads(capsys.readouterr().out)["alerts"]
    assert alerts[0]["step"] == 0
    assert "reflections" in alerts[0]["reasons"][0]
    assert run([*naive, "--forget", "10", "--quiet", "--name", "b"]) == 0
    assert f"alert      step 0: {alerts[0]['reasons'][0]}" in capsys.readouterr().out


def test_a_run_without_alerts_says_nothing_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["learn", "tags", "--train", "40", "--val", "0", "--test", "0", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "alert " not in out
    assert "unused " not in out
