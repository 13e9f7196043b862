"""Telling a program of the user's about an alert: JSON on its standard input, never a reason for the run to stop."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress

from combee.kernel.guard import Notified


def notify(
    command: str | Sequence[str], payload: Mapping[str, object], *, timeout: float = 10.0, shell: bool = False
) -> Notified:
    """Run the user's command with the payload as one JSON object on its standard input.

    A text is split as a shell would split words but runs without a shell, unless `shell` is asked for. After `timeout`
    seconds the command and all that it started in its session are killed. Nothing is raised: what went wrong is in the
    result. Blocks; call it through `asyncio.to_thread` from a loop.
    """
    try:
        words = command if shell or not isinstance(command, str) else shlex.split(command)
        if not words:
            return Notified(ok=False, code=None, detail="the alert command is empty")
        body = json.dumps(payload, default=str).encode() + b"\n"
        return _run(words, body, timeout, shell=shell)
    except (OSError, ValueError, TypeError, RecursionError, subprocess.SubprocessError) as error:
        return Notified(ok=False, code=None, detail=f"the alert command did not run: {error}")


def _run(words: str | Sequence[str], body: bytes, timeout: float, *, shell: bool) -> Notified:
    # Files, not pipes: a command that never reads, or leaves a child holding a pipe open, cannot make us wait.
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as errors:
        source.write(body)
        source.seek(0)
        process = subprocess.Popen(  # noqa: S603  # the user named this command
            words if isinstance(words, str) else list(words),
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            shell=shell,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            return Notified(ok=False, code=None, detail=f"the alert command was killed after {timeout:g} s")
        finally:
            _end(process)
        errors.seek(0)
        said = errors.read(2000).decode(errors="replace").strip()
    return Notified(ok=code == 0, code=code, detail=said or f"exit code {code}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the command and its children, and reap it."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
