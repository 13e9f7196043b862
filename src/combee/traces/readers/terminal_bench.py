"""Terminal-Bench 1: trial folders (`results.json`, `sessions/`, `panes/`, `commands.txt`), and results of a whole run.

The transcript is what the terminal showed, cut at the prompts into commands and their output. The tests that ran after
the agent are left out of it: their verdict is the outcome.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from combee.redaction import Outcome, ToolCall, Trace, clean_text
from combee.traces.readers.draft import TraceDraft
from combee.traces.readers.messages import Piece
from combee.traces.readers.source import Source
from combee.traces.readers.swe_agent import BLOCK
from combee.traces.readers.values import flag, objects, table, text, when

_PROMPT = re.compile(r"^(?:\([\w.-]{1,40}\) )?[\w.-]{1,40}@[\w.-]{1,64}:[^\n#$]{0,200}[#$] ?", re.MULTILINE)
_WAIT = re.compile(r"; tmux wait -S done\s*$")
_HARNESS = ("asciinema rec", "clear", "source /installed-agent/", "tmux wait")
_TESTS = ("run-tests.sh", "/tests/run-tests")
_KEYS = re.compile(r"(?:C-[a-z]|M-.|Enter|Escape|Up|Down|Left|Right|Tab|BSpace)\Z")
_MINI_STEP = re.compile(
    r"^mini-swe-agent \(step (\d{1,6}), [^)\n]{0,40}\):\n(.*?)(?=^mini-swe-agent \(step |\Z)", re.MULTILINE | re.DOTALL
)
_CODE = re.compile(r"^<returncode>\s*(-?\d{1,10})", re.MULTILINE)
_LOG_BYTES = 16 << 20
_RUN_LOG = (b"Starting harness run", b"\nRunning task: ")
_RESULT_BYTES = 64 << 20


class TerminalBenchReader:
    """Reads one trial a folder, or every trial of a run's `results.json` (outcomes without transcripts)."""

    name = "terminal_bench"
    fields = ("task_id", "trial_name", "is_resolved", "parser_results")

    def sniff(self, source: Source) -> float:
        """Look for a trial's verdict with its parsed tests."""
        if source.folder:
            if "results.json" not in source.names:
                return 0.0
            return 1.0 if _is_trial(_quiet_results(source)) else 0.0
        if source.kind == "other" and source.path.name == "run.log":
            log = source.quiet().read_bytes(_LOG_BYTES) or b""
            return 0.9 if any(mark in log for mark in _RUN_LOG) else 0.0
        for value in source.first:
            record = table(value)
            if _is_trial(record) or any(_is_trial(trial) for trial in list(objects(record.get("results")))[:3]):
                return 0.95
            if "dataset_name" in record and "run_id" in record and "task_ids" in record:
                return 0.8
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the trial of a folder, or the trials of a run."""
        if source.folder:
            yield from _trial(source, _quiet_results(source), transcript=True)
            return
        if source.kind == "other":
            source.note("the log of a run: what its agents did is read from the trials' own folders")
            source.belongs = True
        for line, value in source.records():
            record = table(value)
            if "task_ids" in record and "results" not in record:
                source.skip("metadata of a run: holds no trace", line)
            for result in [record] if _is_trial(record) else objects(record.get("results")):
                if _has_folder(source, result):
                    source.note("trials that are read from their own folders", line)
                    source.belongs = True
                else:
                    yield from _trial(source, result, transcript=False)


def _is_trial(record: dict[str, object]) -> bool:
    return "is_resolved" in record and "parser_results" in record


def _has_folder(source: Source, result: dict[str, object]) -> bool:
    task, trial = text(result.get("task_id")), text(result.get("trial_name"))
    if not task or not trial or any(mark in task + trial for mark in ("/", "\\", "\0")) or ".." in {task, trial}:
        return False
    try:
        return (source.path.parent / task / trial / "results.json").is_file()
    except OSError:  # a name that is too long for a file
        return False


def _quiet_results(source: Source) -> dict[str, object]:
    return table(source.child("results.json").quiet().read_json(_RESULT_BYTES))


def _trial(source: Source, result: dict[str, object], *, transcript: bool) -> Iterator[Trace]:
    draft = TraceDraft(source)
    instruction = text(result.get("instruction"))
    draft.run = text(result.get("uuid")) or text(result.get("id")) or text(result.get("trial_name"))
    draft.add(Piece("user", instruction), timestamp=when(result.get("agent_started_at")))
    if transcript:
        log = _log(source)
        if log is None or not _add_terminal(draft, log, instruction):
            _add_commands(draft, source)
    if len(draft.steps) < 2:
        source.note("a trial without transcript: only its task and outcome")
    meta = {
        "task_id": text(result.get("task_id")),
        "trial": text(result.get("trial_name")),
        "failure_mode": _mode(result),
    }
    yield from draft.trace(task=instruction, outcome=_outcome(result), meta=meta)


def _mode(result: dict[str, object]) -> str:
    mode = text(result.get("failure_mode"))
    return "" if mode in {"unset", "none"} else mode


def _outcome(result: dict[str, object]) -> Outcome:
    tests = {name: text(verdict) == "passed" for name, verdict in table(result.get("parser_results")).items()}
    resolved = flag(result.get("is_resolved"))
    return Outcome(
        success=resolved, score=None if resolved is None else float(resolved), tests=tests, detail=_mode(result)
    )


def _log(source: Source) -> str | None:
    for name in ("sessions/agent.log", "panes/post-agent.txt"):
        entry = source.child(name)
        if entry.path.is_file() and (data := entry.read_bytes(_LOG_BYTES)):
            return clean_text(data.decode("utf-8", "replace"))
    return None


def _add_terminal(draft: TraceDraft, log: str, instruction: str) -> bool:
    """Add each command with what it printed; return whether there was one that is the agent's."""
    starts = list(_PROMPT.finditer(log))
    added = 0
    for at, prompt in enumerate(starts):
        shown = log[prompt.end() : starts[at + 1].start() if at + 1 < len(starts) else len(log)]
        command, _, output = shown.partition("\n")
        command = _WAIT.sub("", command).strip()
        if any(mark in command for mark in _TESTS):
            break
        if not command or command.startswith(_HARNESS):
            continue
        call = ToolCall(f"command-{added}", "terminal", command)
        draft.add(Piece("assistant", calls=(call,)))
        output = _WAIT.sub("", output.replace(instruction, "[the task]") if instruction else output)
        turns = list(_MINI_STEP.finditer(output))
        draft.add(Piece("tool", output[: turns[0].start() if turns else len(output)].strip("\n"), answers=call.id))
        for turn in turns:
            _add_turn(draft, f"command-{added}-{turn[1]}", turn[2])
        added += 1
    return added > 0


def _add_turn(draft: TraceDraft, name: str, shown: str) -> None:
    """Add one turn of mini-swe-agent as it shows itself on the terminal: thought, command, what the command printed."""
    said, _, seen = shown.partition("\nUser:\n")
    block = BLOCK.search(said)
    call = ToolCall(name, "bash", block[1]) if block else None
    draft.add(Piece("assistant", said.strip(), calls=(call,) if call else ()))
    code = _CODE.search(seen)  # what the agent itself logged may stand before it
    seen = seen.strip().rstrip("\u2500").rstrip()
    if call is not None and seen:
        draft.add(Piece("tool", seen, answers=name, is_error=None if code is None else code[1] != "0"))


def _add_commands(draft: TraceDraft, source: Source) -> None:
    """Add what was typed, where no terminal log shows more."""
    entry = source.child("commands.txt")
    data = entry.read_bytes(_LOG_BYTES) if "commands.txt" in source.names else None
    for number, line in enumerate((data or b"").decode("utf-8", "replace").splitlines(), 1):
        try:
            keys = ast.literal_eval(line)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            entry.skip("not a list of keys", number)
            continue
        typed = (
            "".join(key for key in keys if isinstance(key, str) and not _KEYS.match(key))
            if isinstance(keys, list)
            else ""
        )
        if any(mark in typed for mark in _TESTS):
            return
        if typed.strip() and not typed.startswith(_HARNESS):
            call = ToolCall(f"command-{number}", "terminal", typed.strip())
            draft.add(Piece("assistant", calls=(call,)), line=number)
