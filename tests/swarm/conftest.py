"""A small office: readers who know documents, and a worker who asks them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from combee.swarm import Reply, View, World, publish, use


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World.open(tmp_path / "world.sqlite") as opened:
        with opened.step():
            for number in range(40):
                publish(opened, f"doc/{number:04d}", f"k{number:04d}=v{number * 7:04d} {'x' * 140}", "author")
        yield opened


def office(view: View) -> Reply | str:
    """Read what is told; look up what is asked; as a worker, ask whoever knows."""
    mail, text = view.mail, view.text()
    if mail.kind == "tell":
        return "read" if view.results() else Reply(calls=(use("read", path=mail.body),))
    if mail.kind in {"answer", "report"}:
        return mail.body
    if view.agent.role == "worker":
        if view.results():
            return "waiting"
        number = mail.body.split()[-1]
        return Reply(calls=(use("ask", question=f"value of {number}", subject=f"doc/{number}"),))
    key = f"k{mail.body.split()[-1]}="
    return text.split(key)[1][:5] if key in text else "unknown"
