"""The whole path: a run goes in, a lesson comes out, and every command reaches through the history."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from combee.redaction import Step, ToolCall, Trace, trace_id
from tests.serve.conftest import Start, lines, mended_run, packed


def _combee(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "combee", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _children(pid: int) -> list[str]:
    """Return the processes that a process started, where the system tells."""
    task = Path(f"/proc/{pid}/task/{pid}/children")
    return task.read_text(encoding="utf-8").split() if task.exists() else []


def test_what_runs_teach_is_served_and_every_command_reaches_through_the_generations(start: Start) -> None:
    client = start()
    first, second = mended_run(1), mended_run(2, "yq", "python3 -m yaml")
    assert client("POST", "/v1/runs", packed(lines(first)), Content_Encoding="gzip").json["new"] == 1
    receipt = client.settled(first.id)
    assert receipt["state"] == "learned"
    assert client("POST", "/v1/runs", lines(first)).json == {"accepted": [first.id], "new": 0, "skipped": []}
    client("POST", "/v1/runs", lines(second))
    other = client.settled(second.id)
    assert other["version"] != receipt["version"]

    served = client("GET", "/v1/playbook?unit=u1&task=count+rows")
    assert "`jq` may be missing" in served.data.decode()
    assert "`yq` may be missing" in served.data.decode()
    assert served.headers["combee-version"] == other["version"]
    assert served.headers["combee-arm"] == "stable"
    again = client("GET", "/v1/playbook?unit=u1&task=count+rows", If_None_Match=served.headers["etag"])
    assert (again.status, again.data) == (304, b"")

    book = str(client.folder / "tenants" / "default")
    for trace, found in ((first, receipt), (second, other)):
        why = _combee("why", book, found["lessons"][0])
        assert trace.id in why
        assert "steps 1, 3" in why
    assert "+ [" in _combee("diff", f"{book}@{receipt['version'][:12]}", book)
    assert [row["generation"] for row in client("GET", "/v1/versions").json["versions"]] == [0, 1, 2]

    made = client("POST", "/v1/forget", {"traces": [first.id]}).json["stable"]
    text = client("GET", "/v1/playbook").data.decode()
    assert "`jq`" not in text
    assert "`yq`" in text
    assert client.receipt(first.id)["state"] == "forgotten"
    assert client("POST", "/v1/rollback").json["stable"] == other["version"] != made


def test_a_run_of_another_format_is_read_and_one_that_is_none_is_refused_with_a_reason(start: Start) -> None:
    client = start()
    chat = {"messages": [{"role": "user", "content": "Say hello"}, {"role": "assistant", "content": "hello"}]}
    answer = client("POST", "/v1/runs?id=mine", chat)
    assert answer.status == 202
    assert client.settled("mine")["state"] == "taught nothing"
    refused = client("POST", "/v1/runs", b"what is this")
    assert refused.status == 400
    assert "no reader knows this format" in refused.json["error"] or "not JSON" in refused.json["error"]


def test_a_killed_service_loses_nothing_it_acknowledged_and_learns_nothing_twice(start: Start) -> None:
    acknowledged: list[str] = []
    client = start()
    for kill in range(3):
        for number in range(20):
            trace = mended_run(100 * kill + number)
            assert client("POST", "/v1/runs", lines(trace)).status == 202
            acknowledged.append(trace.id)
        children = _children(client.process.pid)
        client.process.send_signal(signal.SIGKILL)
        client.process.wait()
        client = start()
    client.until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
    receipts = [client.settled(name) for name in acknowledged]
    assert {receipt["state"] for receipt in receipts} == {"learned"}
    kept = (client.folder / "tenants" / "default" / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    counts = Counter(json.loads(line)["id"] for line in kept)
    assert set(counts) == set(acknowledged)
    assert set(counts.values()) == {1}
    book = _combee("show", str(client.folder / "tenants" / "default"), "--json")
    sources = [source for bullet in json.loads(book)["bullets"] for source in bullet["sources"]]
    assert sorted(sources) == sorted(f"{name}~0" for name in acknowledged)


def test_a_generation_that_cannot_be_learned_is_given_up_with_a_reason_and_can_be_tried_again(start: Start) -> None:
    client = start(attempts=1)
    settings = client.folder / "combee.toml"
    settings.write_text('[agent]\nkind = "nonsense"\n', encoding="utf-8")
    trace = mended_run(1)
    client("POST", "/v1/runs", lines(trace))
    receipt = client.settled(trace.id)
    assert receipt["state"] == "failed"
    assert "nonsense" in receipt["why"]
    assert [alert["kind"] for alert in client("GET", "/v1/status").json["alerts"]] == ["failed"]
    settings.unlink()
    assert client("POST", "/v1/retry").json == {"traces": 1}
    assert client.settled(trace.id)["state"] == "learned"


def test_what_three_runs_met_is_seen_across_generations_and_one_that_got_past_it_counts(start: Start) -> None:
    """Each run is a generation of its own: that nobody got past a failure is said of all runs, not of one."""
    client = start()

    def run(number: int, program: str, *, there: bool = False) -> Trace:
        said = "4.2" if there else f"bash: {program}: command not found"
        steps = (
            Step(0, "user", f"Convert chart {number}"),
            Step(1, "assistant", "", (ToolCall("a", "bash", f"{program} --version"),)),
            Step(2, "tool", said, answers="a", is_error=not there),
            Step(3, "assistant", "I give up."),
        )
        return Trace(trace_id("chart", steps, None, str(number)), "Convert a chart", steps)

    traces = [run(number, "plotconv") for number in range(3)]
    traces += [run(10, "drawconv", there=True), *(run(number, "drawconv") for number in range(11, 14))]
    for trace in traces:
        client("POST", "/v1/runs", lines(trace))
        client.settled(trace.id)
    text = client("GET", "/v1/playbook").data.decode()
    assert "`plotconv`" in text
    assert "no run got past" in text or "in run after run" in text
    assert not [line for line in text.splitlines() if "drawconv" in line and "no run" in line]


def test_a_generation_begins_again_when_what_is_stable_was_changed_meanwhile(start: Start) -> None:
    client = start()
    empty = client("GET", "/v1/playbook").headers["combee-version"]
    first = mended_run(1)
    client("POST", "/v1/runs", lines(first))
    client.settled(first.id)
    settings = client.folder / "combee.toml"
    settings.write_text('[agent]\nkind = "nonsense"\n', encoding="utf-8")
    second = mended_run(2, "yq", "python3 -m yaml")
    client("POST", "/v1/runs", lines(second))
    client.until(lambda: client("GET", "/v1/status").json["generations"][0]["attempts"] == 1)
    assert client("POST", "/v1/promote", {"version": empty}).json == {"stable": empty}
    settings.unlink()
    assert client.settled(second.id)["state"] == "learned"
    text = client("GET", "/v1/playbook").data.decode()
    assert "`yq`" in text
    assert "`jq`" not in text


def test_what_is_older_than_it_is_kept_goes_and_lessons_receipts_and_history_stay(start: Start) -> None:
    client = start(keep_days=2 / 86_400)
    book = client.folder / "tenants" / "default"
    first, second = mended_run(1), mended_run(2, "yq", "python3 -m yaml")
    client("POST", "/v1/runs", lines(first))
    receipt = client.settled(first.id)
    client.until(lambda: first.id not in (book / "traces.jsonl").read_text(encoding="utf-8"))
    client.until(lambda: not list((book / "generations").iterdir()))
    client("POST", "/v1/runs", lines(second))
    assert client.settled(second.id)["state"] == "learned"
    assert client.receipt(first.id) == receipt
    assert client("POST", "/v1/runs", lines(first)).json["new"] == 0  # it is known for good
    text = client("GET", "/v1/playbook").data.decode()
    assert "`jq`" in text
    assert "`yq`" in text
    assert first.id in _combee("why", str(book), receipt["lessons"][0])
    client("POST", "/v1/forget", {"traces": [first.id]})
    assert "`jq`" not in client("GET", "/v1/playbook").data.decode()
