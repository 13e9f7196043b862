"""`learn` and `doctor` against each provider's shapes, from the settings file to the playbook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from combee.kernel.journal import Journal
from combee.mock import PROVIDERS, MockConfig, MockServer
from combee.mock.providers import THOUGHT
from tests.cli.gauges import FILE, SPLIT, combee, gauges_here, student


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges_here(tmp_path, monkeypatch)
    monkeypatch.setenv("MY_KEY", "k-made-up")


def write(settings: str) -> None:
    Path("combee.toml").write_text(settings, encoding="utf-8")


def learned_text() -> str:
    return Path("runs/a/playbook.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("like", sorted(PROVIDERS))
async def test_a_run_learns_the_same_from_every_provider(like: str, capsys: pytest.CaptureFixture[str]) -> None:
    header = 'api_key_header = "api-key"' if like == "azure" else ""
    async with MockServer(MockConfig(like=like, key="k-made-up"), student()) as server:
        model = f'name = "student"\nbase_url = "{server.url}"\napi_key_env = "MY_KEY"\n{header}\n'
        write(f'[agent]\nkind = "ace"\n\n[model]\n{model}')
        assert await combee("doctor") == 0
        assert "answered in" in capsys.readouterr().out
        assert await combee("learn", FILE, *SPLIT, "--name", "a", "--quiet", "--json") == 0
        learned = json.loads(capsys.readouterr().out)
        stats = server.stats
    assert (learned["bullets"], learned["reason"]) == (6, "completed")
    playbook = learned_text()
    assert "G-00" in playbook
    assert THOUGHT not in playbook
    assert "think" not in playbook
    with Journal.open(Path("runs/a"), create=False, read_only=True) as journal:
        rows = cast("list[dict[str, Any]]", list(journal.calls()))
    booked = [row["usage"] for row in rows if row["usage"] is not None]
    assert sum(usage["completion"] for usage in booked) <= stats.completion  # doctor's calls are in the other book
    assert all(not usage["estimated"] for usage in booked)
