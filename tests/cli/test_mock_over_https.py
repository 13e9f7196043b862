"""An https URL that leads to the mock, which speaks http: said at once, as a real server would."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from combee.cli import run
from combee.mock import MockServer

if TYPE_CHECKING:
    import pytest


async def test_an_https_url_of_the_mock_is_an_error_and_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    async with MockServer() as server:
        url = server.url.replace("http:", "https:")
        assert await asyncio.to_thread(run, ["doctor", "--model", "m", "--base-url", url]) == 1
        for _ in range(100):  # the server sees the end of a connection a moment later
            if not server.connections:
                break
            await asyncio.sleep(0.02)
        assert not server.connections
    assert "TLS to 127.0.0.1 failed" in capsys.readouterr().out
