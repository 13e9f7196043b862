"""A world at work is watched: in the terminal, on a page, beside those who write it; nothing of it is changed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from combee.cli import run
from combee.report.live import page_server
from combee.swarm import World
from combee.swarm.commands import _shown
from combee.swarm.knowledge import lease, open_issue, take_issue
from combee.swarm.mail import send
from combee.swarm.watching import head_of, look

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "live.sqlite"
    with World.open(path) as world, world.step():
        for name in ("ann", "bob", "eve"):
            world.spawn(name, role=f"role of {name}")
        world.spawn("cay", mode="outside")
        world.set_meta("guest/cay", json.dumps([time.time() - 300, 120]))
        for number in range(30):
            sender, recipient = ("ann", "bob") if number % 2 else ("bob", "cay")
            text = f"Where is <b>case {number}</b>?"
            send(world, key=f"k{number}", kind="ask", sender=sender, recipient=recipient, body=text)
        open_issue(world, "Mend <script>alert(1)</script>", "", "ann", key="1")
        open_issue(world, "Another", "", "ann", key="2")
        take_issue(world, 1, "bob")
        bob = world.agent("bob")
        assert bob is not None
        lease(world, "src/", bob, 600)
        world.record("paid", "bob", dollars=0.25)
        world.record("paid", "eve", dollars=None)
    return path


def test_what_is_seen(place: Path) -> None:
    with World.open(place, read_only=True) as world:
        sight = look(world)
    assert [(one.row.name, one.asks, one.what.split(",")[0]) for one in sight.agents] == [
        ("ann", 15, "live"), ("bob", 15, "live"), ("eve", 0, "live"), ("cay", 0, "outside"),
    ]  # fmt: skip
    assert [(one.title[:7], one.owner) for one in sight.issues] == [("Mend <s", "bob"), ("Another", None)]
    assert [(one.path, one.agent) for one in sight.leases] == [("src", "bob")]
    assert [message[0] for message in sight.messages] == list(range(30, 10, -1))
    assert (sight.waiting, sight.dollars, sight.unsaid) == (15, 0.25, 1)
    assert {(a, b) for a, b, _ in sight.edges} == {("ann", "bob"), ("bob", "cay")}


def test_the_quieter_of_many_agents_are_counted(place: Path) -> None:
    with World.open(place) as world, world.step():
        for number in range(100):
            world.spawn(f"quiet-{number}")
    with World.open(place, read_only=True) as world:
        sight = look(world)
    assert (len(sight.agents), sight.others) == (40, 64)
    assert {"ann", "bob"} <= {one.row.name for one in sight.agents}


def test_the_terminal_shows_it_once_where_it_is_none(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    before = hashlib.sha256(place.read_bytes()).hexdigest()
    assert run(["swarm", "watch", str(place)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^cay +peer +outside, seen 5 min ago", shown, re.MULTILINE)
    assert "Mend <script>alert(1)</script>" in shown
    assert hashlib.sha256(place.read_bytes()).hexdigest() == before
    assert run(["swarm", "watch", str(place), "--port", "80"]) == 2
    assert run(["swarm", "watch", str(place.with_name("none.sqlite"))]) == 2


@pytest.fixture
def url(place: Path) -> Iterator[str]:
    with page_server(partial(_shown, place)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as reply:  # noqa: S310 - our own address
        return str(reply.read().decode())


def test_the_page_is_fresh_while_others_write(url: str, place: Path) -> None:
    text = get(url)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert "case 99" not in text
    with World.open(place) as world:
        send(world, key="late", kind="tell", sender="ann", recipient="eve", body="case 99")
        assert "case 99" not in get(f"{url}head")  # not committed
        world.flush()
        assert "case 99" in get(f"{url}head")
    place.unlink()
    with pytest.raises(urllib.error.HTTPError, match="503"):
        get(f"{url}head")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [1200, 500])
def test_the_page_in_a_browser(url: str, tmp_path: Path, width: int) -> None:
    picture = tmp_path / "page.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={tmp_path / 'p'}"]
    flags.append("--enable-logging=stderr")
    done = subprocess.run(
        [
            str(CHROMIUM),
            *flags,
            "--enable-logging=stderr",
            f"--screenshot={picture}",
            f"--window-size={width},1500",
            url,
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    data = picture.read_bytes()
    assert int.from_bytes(data[16:20]) == width
    assert len(data) > 20_000


def test_an_empty_world_is_shown(tmp_path: Path) -> None:
    with World.open(tmp_path / "w.sqlite") as world:
        assert "Who asks whom" not in "".join(map(str, head_of(look(world))))
