"""A run is shown on the loopback address while it goes on: read-only, and to this machine only."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import combee
from combee.report.live import HEAD, live_server
from tests.report.pages import Page, read_page

ROWS = [(f"Which account takes the {word} of case {n}?", word.upper()) for n in range(20) for word in ("rent", "tax")]


def ask(port: int, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str, str | None]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        reply = connection.getresponse()
        return reply.status, reply.read().decode(), reply.getheader("X-Done")
    finally:
        connection.close()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    combee.learn(ROWS, batch=12, folder=tmp_path / "one")
    with live_server(tmp_path / "one") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_the_page_and_its_head_are_served_and_nothing_else(port: int) -> None:
    status, text, done = ask(port, "/")
    assert (status, done) == (200, "1")
    assert "Playbook" in read_page(text).text
    status, text, done = ask(port, HEAD)
    assert (status, done) == (200, "1")
    assert "steps done" in Page(text).text
    assert ask(port, "/../../etc/passwd")[0] == 404
    assert ask(port, "/", method="POST")[0] == 501
    assert ask(port, "/", host="elsewhere.example:80")[0] == 403


def test_a_run_that_goes_on_keeps_its_head_fresh(tmp_path: Path) -> None:
    from combee.report.read import RunRecord
    from combee.report.run import run_page

    assert 'data-at="/head"' in run_page(RunRecord("one"), live=HEAD)
    assert "data-at" not in run_page(RunRecord("one")).split("<script>")[0]
