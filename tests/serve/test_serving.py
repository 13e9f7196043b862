"""Trials over HTTP, tokens and tenants."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from combee.errors import UsageError
from combee.serve.access import create_token, list_tokens, revoke_token
from combee.serve.store import ServiceStore
from combee.terminal.options import listening
from tests.serve.conftest import Client, Start, lines, mended_run


def _learned(client: Client, number: int, program: str, stand_in: str) -> str:
    trace = mended_run(number, program, stand_in)
    client("POST", "/v1/runs", lines(trace))
    return str(client.settled(trace.id)["version"])


def test_no_answer_waits_until_its_head_is_acknowledged() -> None:
    with listening("127.0.0.1", 0, "") as bound, socket.create_connection(bound.getsockname()[:2]):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def _token(folder: Path, name: str, tenant: str, *scopes: str) -> str:
    given = [word for scope in scopes for word in ("--scope", scope)]
    words = ["token", "create", str(folder), name, "--tenant", tenant, *given]
    done = subprocess.run([sys.executable, "-m", "combee", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_version_is_tried_on_some_units_and_rolled_back_when_they_fail(start: Start) -> None:
    client = start(share=0.5)
    stable = _learned(client, 1, "jq", "python3 -m json.tool")
    client("POST", "/v1/outcomes", {"unit": "first", "version": stable, "pass": True})
    canary = _learned(client, 2, "yq", "python3 -m yaml")
    arms = {}
    for number in range(200):
        answer = client("GET", f"/v1/playbook?unit=u{number}")
        arms[f"u{number}"] = (answer.headers["combee-arm"], answer.headers["combee-version"])
        assert ("`yq`" in answer.data.decode()) == (answer.headers["combee-arm"] == "canary")
    assert set(arms.values()) == {("stable", stable), ("canary", canary)}
    assert client("GET", "/v1/playbook?unit=u7").headers["combee-arm"] == arms["u7"][0]
    outcomes = [{"id": u, "unit": u, "version": v, "pass": arm == "stable"} for u, (arm, v) in arms.items()]
    assert client("POST", "/v1/outcomes", outcomes).json == {"accepted": 200, "new": 200}
    assert client("POST", "/v1/outcomes", outcomes).json == {"accepted": 200, "new": 0}
    trial = client.until(lambda: [t for t in client("GET", "/v1/versions").json["trials"] if t["ended"]])[0]
    assert (trial["state"], trial["version"]) == ("rolled back", canary)
    assert trial["evidence"]["worse"] >= 100
    assert client("GET", "/v1/playbook?unit=u7").headers["combee-version"] == stable
    assert "fails more often" in client("GET", "/v1/status").json["alerts"][0]["text"]


def test_no_tenant_sees_anothers_and_a_token_does_what_its_scopes_say(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "service"
    acme, other = _token(folder, "a", "acme", "ingest", "read"), _token(folder, "b", "other", "read", "ingest")
    only = _token(folder, "c", "acme", "read")
    client = start(token=acme)
    trace = mended_run(1)
    client("POST", "/v1/runs", lines(trace))
    version = client.settled(trace.id)["version"]
    assert "`jq`" in client("GET", "/v1/playbook").data.decode()

    client.token = other
    assert client("GET", f"/v1/receipts/{trace.id}").status == 404
    assert client("GET", "/v1/playbook").data == b"\n" or "`jq`" not in client("GET", "/v1/playbook").data.decode()
    assert trace.id not in client("GET", "/v1/status").data.decode()
    assert client("POST", "/v1/outcomes", {"unit": "u", "version": version, "pass": True}).status == 400
    assert client("POST", "/v1/promote", {"version": version}).status == 403

    client.token = only
    assert client("POST", "/v1/runs", lines(trace)).status == 403
    client.token = "cmb_wrong"  # noqa: S105
    assert client("GET", "/v1/playbook").status == 401
    assert acme.encode() not in (folder / "serve.sqlite").read_bytes() + (folder / "log").read_bytes()


def test_without_tokens_other_machines_and_pages_of_elsewhere_are_refused(start: Start, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "combee", "serve", str(tmp_path / "open"), "--host", "0.0.0.0"]  # noqa: S104
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "combee token create" in done.stderr
    client = start()
    assert client("GET", "/v1/status", Host="evil.example").status == 403
    assert client("POST", "/v1/rollback", {}, Origin="http://evil.example").status == 403
    second = subprocess.run(
        [sys.executable, "-m", "combee", "serve", str(client.folder), "--port", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 1
    assert "Traceback" not in second.stderr


def test_the_page_shows_what_is_learned_in_a_browser(start: Start) -> None:
    client = start()
    _learned(client, 1, "jq", "python3 -m json.tool")
    page = client("GET", "/")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert client("GET", "/page/app.py").status == 404
    lesson = client("GET", "/v1/lessons").json["lessons"][0]
    assert len(lesson["sources"]) == 1
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("there is no Chromium here")
    words = [browser, "--headless", "--no-sandbox", "--virtual-time-budget=8000", "--dump-dom", client.url]
    shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    assert lesson["text"].partition("`")[0] in shown
    assert lesson["sources"][0].partition("~")[0] in shown


def test_many_first_requests_of_a_tenant_at_once_are_all_answered(start: Start) -> None:
    client = start(wait=600)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: client("POST", "/v1/runs", lines(mended_run(number))), range(48)))
    assert {answer.status for answer in answers} == {202}
    assert client("GET", "/v1/status").json["backlog"]["waiting"] == 48


def test_a_body_that_hangs_its_reader_costs_no_other(start: Start) -> None:
    client = start(**{"max_seconds": 3, "wait": 600, "patterns.mine": "(x+x+)+y"})
    assert client("POST", "/v1/runs", lines(mended_run(1, text="x" * 60))).status == 503
    assert client("POST", "/v1/runs", lines(mended_run(2))).status == 202


def test_what_is_too_large_or_too_much_is_refused_with_a_number(start: Start) -> None:
    client = start(max_body=2000, max_backlog=2, wait=600)
    assert client("POST", "/v1/runs", b"x" * 3000).status == 413
    client("POST", "/v1/runs", lines(mended_run(1)))
    client("POST", "/v1/runs", lines(mended_run(2)))
    full = client("POST", "/v1/runs", lines(mended_run(3)))
    assert full.status == 429
    assert int(full.headers["retry-after"]) > 0
    backlog = client("GET", "/v1/status").json["backlog"]
    assert (backlog["waiting"], backlog["learning"]) == (2, 0)
    assert backlog["oldest"] > 0


def test_that_the_last_token_is_revoked_opens_nothing(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "service"
    client = start(folder)
    assert client("GET", "/v1/status").status == 200  # there never was a token, and this is the loopback
    store = ServiceStore(folder)
    try:
        client.token = create_token(store, "only", "default", ("read",))
        client.until(lambda: Client(client.url, client.process, folder)("GET", "/v1/status").status == 401)
        assert client("GET", "/v1/status").status == 200
        revoke_token(store, "only")
        assert store.submit(list_tokens).result() == []
        client.until(lambda: client("GET", "/v1/status").status == 401)
        client.token = "none left"  # noqa: S105 - what stands in the place of a hash
        assert client("GET", "/v1/status").status == 401
        with pytest.raises(UsageError, match="no token 'only'"):
            revoke_token(store, "only")
        client.token = create_token(store, "only", "default", ("read",))
        client.until(lambda: client("GET", "/v1/status").status == 200)
    finally:
        store.close()


def test_sigterm_ends_a_service_in_order(start: Start) -> None:
    client = start()
    assert client("POST", "/v1/runs", lines(mended_run(1))).status == 202
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(30) == 0
    again = start(client.folder)
    assert again("GET", f"/v1/receipts/{mended_run(1).id}").json["receipts"] != []
    unknown = again("GET", "/v1/receipts/nothing")
    assert (unknown.status, unknown.json["error"]) == (404, "nothing came under this id")
