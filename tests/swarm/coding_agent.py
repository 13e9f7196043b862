"""Programs that behave like coding agents of the command line: `coding_agent.py claude|codex|plain|... [words]`.

Each keeps its sessions as files where it works, and answers with what it remembers and what it was told last.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def answer(session: str, prompt: str) -> str:
    """Remember a prompt; say how many were heard in this session, and the last line."""
    path = Path(f"{session}.session")
    heard = [*(path.read_text().split("\0") if path.exists() else []), prompt]
    path.write_text("\0".join(heard))
    return f"heard {len(heard)}: {prompt.splitlines()[-1].strip()}"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main(how: str, *words: str) -> None:  # noqa: C901, PLR0912 - a case for each program
    with Path("calls").open("a") as calls:
        calls.write(f"{how} {' '.join(word for word in words if len(word) < 40)}\n")
    if how == "hurried":
        sys.stdin.close()
        say("answered unread")
        return
    prompt = sys.stdin.read()
    resumed = words[words.index("--resume") + 1] if "--resume" in words else ""
    session = resumed or f"s{os.getpid()}"
    if how == "claude":
        said = {"type": "result", "is_error": False, "result": answer(session, prompt), "session_id": session}
        say(json.dumps({**said, "total_cost_usd": 0.25, "usage": {"input_tokens": 10, "output_tokens": 4}}))
    elif how == "codex":
        for event in (
            {"type": "thread.started", "thread_id": session},
            {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
            {"type": "item.completed", "item": {"type": "agent_message", "text": answer(session, prompt)}},
            {"type": "turn.completed", "usage": {"input_tokens": 7, "output_tokens": 2}},
        ):
            say(json.dumps(event))
    elif how == "argument":
        Path("heard").write_text(words[0])
        say(answer(session, words[0]))
    elif how == "tool":
        call = {"tool": "issue", "arguments": {"title": "from a program"}}
        used = json.dumps({"text": "I open it.", "calls": [call]})
        say(json.dumps({"result": "done" if "[result of issue]" in prompt else used, "session_id": session}))
    elif how == "error":
        say(json.dumps({"type": "result", "is_error": True, "result": "I lost the thread"}))
    elif how == "limit":
        say(json.dumps({"type": "turn.failed", "error": {"message": "usage limit reached"}}))
    elif how == "crash":
        sys.stderr.write("Traceback: it broke\n")
        sys.exit(3)
    elif how == "broken":
        say('{"type": "result", "result": "half')
    elif how in {"hang", "deaf", "leaves", "escapes"}:
        deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" if how == "deaf" else ""
        child = f"import time\n{deaf}\ntime.sleep({12 if how == 'escapes' else 600})"
        subprocess.Popen([sys.executable, "-c", child, f"left-over-{Path.cwd()}"], start_new_session=how == "escapes")
        exec(deaf)  # noqa: S102 - the words above
        if how in {"hang", "deaf"}:
            Path("hanging").touch()
            time.sleep(600)
        say("left a child")
    elif how == "floods":
        while True:
            sys.stdout.write("x" * 65_536)
    elif how == "binary":
        sys.stdout.buffer.write(bytes(range(256)))
    elif how == "attack":
        asked = {"type": "result", "result": answer(session, prompt), "session_id": words[-1]}
        say(json.dumps({**asked, "total_cost_usd": float("nan"), "usage": {"input_tokens": -5, "output_tokens": "x"}}))
    elif how == "forgets":
        if resumed:
            sys.stderr.write(f"No conversation found with session ID {resumed}\n")
            sys.exit(1)
        say(json.dumps({"type": "result", "result": answer(session, prompt), "session_id": session}))
    elif how == "limit-2":
        sys.stderr.write("usage limit reached\n")
        sys.exit(1)
    elif how != "silent":
        say(answer(session, prompt))


main(*sys.argv[1:])
