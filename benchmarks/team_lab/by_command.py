"""The team learns by `combee learn`, as a user's team does; the endpoint that reflects and writes rules is a script.

What it reads of a run is the transcript in its prompt. It words each fault that it finds there as a rule (by chance in
one of several ways), and adds rules that the playbook does not hold.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.team_lab.learning import faults
from benchmarks.team_lab.phrases import SEEN
from benchmarks.team_lab.repositories import Broken, write_repository
from benchmarks.team_lab.testing import JUNIT, TESTS, write_files
from combee.mock import MockServer
from combee.mock.script import whole_prompt
from combee.redaction import Step, Trace

__all__ = ["learn_by_command", "reply", "write_tasks"]

_STEP = re.compile(r"^ *\[\d+\] (?:system|user|assistant|tool)(?: \(([^)]*)\))?: ", re.MULTILINE)
_ITEM = re.compile(r"^(?:Record|<<<reflection) (\d+)(?:: *| \w+)$", re.MULTILINE)
_RULES = [rule for rules in SEEN.values() for rule in rules]
_SETTINGS = """\
[tasks]
source = "tasks"

[environment]
kind = "team"
program = {program}
test = {test}
junit = "{junit}"
in_flight = 2
minutes = 1
dollars = 0.01
"""


def write_tasks(folder: Path, train: Sequence[Broken], held_out: Sequence[Broken]) -> None:
    """Write repositories as tasks, with the tests that decide beside them, and the settings, into a folder."""
    for split, repositories in (("train", train), ("test", held_out)):
        for broken in repositories:
            place = folder / "tasks" / split / broken.name
            write_repository(broken, place / "repository")
            write_files(place / "hidden", broken.deciding)
            (place / "task.md").write_text("Repair the content pipeline until all tests pass.\n", encoding="utf-8")
    program = f"{sys.executable} {Path(__file__).with_name('program.py')} {{rules}}"
    settings = _SETTINGS.format(program=json.dumps(program), test=json.dumps(TESTS), junit=JUNIT)
    (folder / "combee.toml").write_text(settings, encoding="utf-8")


def learn_by_command(
    folder: Path, method: str, train: Sequence[Broken], held_out: Sequence[Broken], *more: str
) -> dict[str, Any]:
    """Let `combee learn` learn in a folder and `combee eval` score; return what the latter says as JSON."""
    if not (folder / "tasks").exists():
        write_tasks(folder, train, held_out)

    def combee(*words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "combee", *words, "--json"]
        env = {**os.environ, "OPENAI_API_KEY": "none"}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    async def work() -> dict[str, Any]:
        async with MockServer(reply=reply) as server:
            model = ("--model", "script", "--base-url", server.url)
            await asyncio.to_thread(combee, "learn", "--method", method, "--name", method, *model, *more)
        return await asyncio.to_thread(combee, "eval", method)

    return asyncio.run(work())


def reply(body: Mapping[str, Any]) -> str:
    """Return what the scripted endpoint says to a reflector's, a curator's or gepa's prompt."""
    prompt = whole_prompt(body)
    if '"key_insight"' in prompt:
        return json.dumps({"key_insight": "\n".join(_rules_for(prompt))})
    sources: dict[str, list[int]] = {}
    marks = _spans(_ITEM, prompt)
    for mark, text in marks:
        for rule in [rule for rule in _RULES if rule in text] or _rules_for(text):
            sources.setdefault(rule, []).append(int(mark[1]))
    known = prompt[: marks[0][0].start()] if marks else prompt
    adds = [
        {"type": "ADD", "section": "STRATEGIES", "content": rule, "bullet_ids": [], "sources": at}
        for rule, at in sources.items()
        if rule not in known
    ]
    return json.dumps({"reasoning": "", "operations": adds})


def _spans(pattern: re.Pattern[str], text: str) -> list[tuple[re.Match[str], str]]:
    """Return each match, with the text up to the next one."""
    marks = list(pattern.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return [(mark, text[mark.end() : end].strip()) for mark, end in zip(marks, ends, strict=False)]


def _rules_for(text: str) -> list[str]:
    """Return a rule for each fault in a transcript."""
    found = _spans(_STEP, text)
    steps = tuple(Step(at, "assistant", said, agent=mark[1]) for at, (mark, said) in enumerate(found))
    chance = random.Random(text)
    return [chance.choice(SEEN[fault, 1]) for fault in faults(Trace("shown", "", steps))] if steps else []
