"""What the server serves and keeps: a playbook under a policy, and the runs and votes that agents report.

Reports go to `reported.jsonl` in the run's folder, redacted, in our own trace form: `combee learn --from` reads them.
A vote is a trace without steps: so votes and runs come into the next learning run by one door.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from combee.errors import StorageError, UsageError
from combee.kernel.guard import Policy, readable
from combee.kernel.journal import Journal
from combee.kernel.playbook import Playbook, from_json, load, to_text, view
from combee.redaction import Outcome, Redactor, Trace, to_jsonl
from combee.traces.mining import TraceFile, safe, vote_trace
from combee.traces.readers import read

REPORTED = "reported.jsonl"
_TRACES = ("traces.jsonl", REPORTED)
_MOST_BYTES = 8 << 20
_MOST_MESSAGES = 5000
_ID = re.compile(r"[\w.-]{1,80}")


@dataclass
class LessonStore:
    """One run's folder (or one playbook file) as an agent may see and feed it.

    Attributes:
        source: the folder of a run, or a playbook file.
        version: which version of a run: a label or a digest; looked up at each call, so a promotion takes effect.
        policy: who asks: bullets that rest on a source that this policy refuses, or does not know, are not shown.
        labels: put on every reported run; the client has no say in them.
        reports: where reports are kept; None: reports are refused.
        redactor: takes secrets out before anything is kept.
    """

    source: Path
    version: str = "best"
    policy: Policy = field(default_factory=Policy)
    labels: Mapping[str, str] = field(default_factory=dict)
    reports: Path | None = None
    redactor: Redactor = field(default_factory=Redactor)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        if self.reports is None and self.source.is_dir():
            self.reports = self.source / REPORTED

    def playbook(self) -> Playbook:
        """Return the whole book that the policy lets through.

        Raises:
            UsageError: the source or the version is not there.
        """
        book = self._whole()
        return book if self.policy.open else readable(book, self._labels(), self.policy)

    def lessons(self, task: str, max_tokens: int) -> str:
        """Return the lessons that fit a task best, as text; empty where there are none."""
        return to_text(view(self.playbook(), task, max_tokens), mark=False)

    def report(self, task: str, messages: Sequence[Mapping[str, Any]], *, success: bool | None) -> dict[str, Any]:
        """Keep a run that an agent reports; its own word on success is kept as a claim.

        Raises:
            UsageError: reports are not taken here, or this is no list of chat messages.
        """
        trace = _read_messages(task, messages)
        said = json.dumps([task, list(messages), success, dict(self.labels)], sort_keys=True)
        name = f"mcp-{hashlib.blake2b(said.encode(), digest_size=12).hexdigest()}"  # equal reports are one run
        outcome = None if success is None else Outcome(success=success, claimed=True, detail="stated by the agent")
        trace = replace(trace, id=name, outcome=outcome, labels=dict(self.labels), meta={"format": "mcp"})
        kept, counts = safe(trace, self.redactor)
        self._append(kept)
        return {"stored": kept.id, "steps": len(kept.steps), "redacted": dict(counts)}

    def vote(self, bullet: str, *, helpful: bool, session: str) -> dict[str, Any]:
        """Keep a vote; one a session, bullet and kind counts, however often it is sent.

        Raises:
            UsageError: no such bullet in what this client may see, or reports are not taken here.
        """
        if not _ID.fullmatch(bullet) or bullet not in self.playbook():
            raise UsageError(f"There is no bullet {bullet[:80]!r}.", hint="Give an id from get_playbook.")
        kind = "helpful" if helpful else "harmful"
        key = hashlib.blake2b(f"{session}/{bullet}/{kind}".encode(), digest_size=8).hexdigest()
        self._append(vote_trace(f"vote-{key}", bullet, kind, self.labels))
        return {"stored": f"vote-{key}", "bullet": bullet, "vote": kind}

    def _whole(self) -> Playbook:
        if self.source.is_file():
            return load(self.source)
        if not self.source.is_dir():
            raise UsageError(f"There is no {str(self.source)!r}.", hint="Name a run's folder or a playbook file.")
        with Journal.open(self.source, create=False, read_only=True) as journal:
            labels = journal.labels()
            version = self.version
            if version == "best" and "best" not in labels:
                version = "last"
            return from_json(journal.text(journal.resolve(version)))

    def _labels(self) -> dict[str, Mapping[str, str]]:
        """Return labels by reflection: of the traces that are kept in the run's folder; others are not known."""
        known: dict[str, Mapping[str, str]] = {}
        for name in _TRACES:
            path = self.source / name
            if self.source.is_dir() and path.is_file():
                known.update((sample.id, sample.labels) for sample in TraceFile(path).samples)
        sources = {source for bullet in self._whole() for source in bullet.sources}
        return {source: known.get(source.rpartition("~")[0], {}) for source in sources}

    def _append(self, trace: Trace) -> None:
        if self.reports is None:
            raise UsageError("Reports are not kept here.", hint="Serve a run's folder, or name a file with --reports.")
        line = "".join(to_jsonl([trace])).encode("utf-8", "replace")
        try:
            with self._lock, self.reports.open("ab+") as file:
                end = file.seek(0, os.SEEK_END)
                if end:
                    file.seek(end - 1)
                    if file.read(1) != b"\n":  # a line that was cut by a crash
                        line = b"\n" + line
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"{self.reports}: cannot be written: {error.strerror or error}") from error


def _read_messages(task: str, messages: Sequence[Mapping[str, Any]]) -> Trace:
    """Read chat messages with the reader of that format, so that every dialect it knows is known here."""
    text = json.dumps({"messages": list(messages)}, ensure_ascii=True)
    if not messages or len(messages) > _MOST_MESSAGES or len(text) > _MOST_BYTES:
        raise UsageError(
            f"A report has 1 to {_MOST_MESSAGES} messages and up to {_MOST_BYTES >> 20} MiB.",
            hint="Leave out long outputs that taught nothing.",
        )
    with tempfile.TemporaryDirectory(prefix="combee-") as folder:
        path = Path(folder) / "report.jsonl"
        path.write_text(text + "\n", encoding="utf-8")
        traces = list(read(path, "openai_chat"))
    if len(traces) != 1:
        raise UsageError("These are no chat messages.", hint='Like {"role": "assistant", "content": "..."}.')
    return replace(traces[0], task=task or traces[0].task)
