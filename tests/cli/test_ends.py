"""How commands end for scripts: one JSON object, also after Ctrl-C; full or closed streams cost no work."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from combee.cli import run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals and closes numbered streams")

COMBEE = [sys.executable, "-m", "combee"]
FEW = ("learn", "tags", "--train", "20", "--val", "4", "--test", "2", "--batch", "10")
KEYS = {"run", "reason", "detail", "bullets", "tokens", "steps", "unlearned", "validation", "calls", "batch", "model"}
KEYS |= {"alerts", "unused", "baselines", "contradictions", "rows"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line in which $C is the command."""
    text = f"C={shlex.quote(shlex.join(COMBEE))}; {line}"
    return subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run named one."""
    folder = tmp_path_factory.mktemp("finished")
    assert run([*FEW, "--out", str(folder / "runs" / "one"), "--quiet"]) == 0
    return folder


@pytest.fixture
def slow_mock() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A mock endpoint that takes long enough for a run to be stopped in its middle, and its address."""
    arguments = [*COMBEE, "mock", "--port", "0", "--student", "tags", "--latency", "0.2", "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server, json.loads(server.stdout.readline())["url"]
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("end", "before"),
    [
        pytest.param(signal.SIGINT, [], id="ctrl-c"),
        pytest.param(signal.SIGTERM, [], id="a supervisor"),
        pytest.param(signal.SIGTERM, ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh"], id="in the background"),
    ],
)
def test_a_stop_with_json_prints_the_one_object_of_any_end_and_the_mock_ends_with_its_counts(
    slow_mock: tuple[subprocess.Popen[str], str],
    capsys: pytest.CaptureFixture[str],
    end: signal.Signals,
    before: list[str],
) -> None:
    server, url = slow_mock
    arguments = ["learn", "tags", "--train", "200", "--val", "2", "--test", "2", "--batch", "5", "--name", "one"]
    model = ["--model", "m", "--base-url", url, "--json"]
    with subprocess.Popen(
        [*before, *COMBEE, *arguments, *model], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and not _stepped(capsys):
            time.sleep(0.1)
        it.send_signal(end)
        out, err = it.communicate(timeout=60)
    assert it.returncode == 130
    told = json.loads(out)
    assert set(told) == KEYS
    assert told["reason"] == "interrupted"
    assert told["steps"] >= 1
    assert told["bullets"] > 0
    assert told["model"]["calls"] > 0
    assert "resume runs/one" in err

    server.send_signal(signal.SIGTERM)
    rest, _ = server.communicate(timeout=60)
    assert server.returncode == 0
    assert json.loads(rest)["requests"] >= told["model"]["calls"] - 64  # one object; calls in flight were cut off


def _stepped(capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether the run has a step in its journal."""
    if not Path("runs/one/journal.sqlite").exists() or run(["versions", "one", "--json"]) != 0:
        capsys.readouterr()
        return False
    return len(json.loads(capsys.readouterr().out)) > 2  # the event of the last one may be under way


def test_a_run_to_its_end_has_the_same_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*FEW, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == KEYS


def test_ctrl_c_anywhere_else_is_one_object_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("combee.cli.calibrate.make_plan", stop)
    assert run(["plan", "8", "--json"]) == 130
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["kind"] == "Interrupted"
    assert err.strip() == "Stopped."


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@needs_full
@pytest.mark.parametrize("how", ["2>/dev/full", "2>&- <&-"])
def test_progress_that_cannot_be_written_costs_no_work(how: str) -> None:
    done = shell(f"$C {shlex.join(FEW)} --name one --json {how}; echo $?; $C show nope --json {how}; echo $?")
    told, code, error, failed = done.stdout.splitlines()
    assert (code, failed) == ("0", "2")
    assert json.loads(told)["reason"] == "completed"
    assert Path("runs/one/playbook.md").stat().st_size > 0
    assert json.loads(error)["error"]["kind"] == "UsageError"


@needs_full
@pytest.mark.parametrize("how", [">/dev/full", ">&- 2>&- <&-"])
def test_a_result_that_cannot_be_written_is_exit_code_1_and_the_work_is_kept(how: str) -> None:
    done = shell(f"$C {shlex.join(FEW)} --name one {how}")
    assert done.returncode == 1
    assert Path("runs/one/playbook.md").stat().st_size > 0
    assert "Exception ignored" not in done.stderr
    assert "Traceback" not in done.stderr
    assert ("standard output" in done.stderr) == ("2>" not in how)


@needs_full
@pytest.mark.parametrize("command", ["show one", "diff one one", "why one ctx-00001", "init x", "mock --port 0"])
def test_other_commands_fail_alike_where_standard_output_is_full(command: str, finished: Path) -> None:
    done = shell(f"cd {shlex.quote(str(finished))} && $C {command} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "error: standard output cannot be written, what was done is kept: No space left on device\n"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = shell("{ $C plan 4000; echo $? >&2; } | true")
    assert done.stderr == "0\n"


def test_both_lines_of_the_mock_are_told_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mock", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert 'JSON lines: {"url": ...}' in told
    assert "two lines of JSON" in told
