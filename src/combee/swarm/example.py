"""A described swarm to learn with, written into a folder: no model, seconds, and everything it does hangs on its views.

Some desks answer questions from handbooks that were moved. An agent looks where the handbook used to lie, then
guesses a shelf twice, then gives up. What one finds is in its trace; what all need is in the view: the policy knows no
place but those that the text before it names. Real agents get the same texts.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

from combee.errors import StorageError, UsageError
from combee.swarm.agents import Reply, View, use
from combee.swarm.briefing import LESSONS

__all__ = ["agent", "write_rehearsal"]

DESKS = ("billing", "cargo", "customs", "energy", "fleet", "harbour", "permits", "weather")
BOOKS = ("fees", "hours", "limits", "owners", "routes")
CASES = 7  # of each handbook
SHELVES = ("archive", "cellar", "depot", "ledger", "loft", "vault")
GUESSES = 2
TRAIN, VAL = 3, 2  # questions of each handbook; those on its other cases are the test
WINDOW, VIEW = 2_000, 160  # tokens

_LESSON = re.compile(r"\[([^\]\s]+)\] The tool `read` failed.*? when `path` was `([^`]+)` instead of `([^`]+)`")
_QUESTION = re.compile(r"Look into the (\w+): what holds for case (\d+)\?")
_SELF = "combee.swarm.example:agent"


def agent(view: View) -> Reply | str:
    """Do what a desk does: read where the lessons say, else where the handbook used to lie, else guess."""
    asked = _QUESTION.search(view.mail.body)
    if asked is None:
        return "I answer questions of the form: Look into the fees: what holds for case 1234?"
    book, case = asked[1], asked[2]
    path = f"{view.agent.role}/{book}.md"
    results = [entry.text for entry in view.entries if entry.role == "tool"]
    if results and not results[-1].startswith("error: "):
        named = [text for entry in view.entries for text in re.findall(r"As \[(\S+)\] says", entry.text)]
        found = re.search(rf"^case {case}: (.+)$", results[-1], re.MULTILINE)
        return (found[1] if found else "It is not in there.") + "".join(f" [{one}]" for one in named)
    if len(results) > GUESSES:
        return "I do not know."
    if results:
        tried = [json.loads(call.arguments)["path"] for entry in view.entries for call in entry.calls]
        chance = random.Random(view.text())  # whatever stands before the agent moves its guess
        left = [place for shelf in SHELVES if (place := _place(shelf, view.agent.role, book)) not in tried]
        return Reply(calls=(use("read", path=chance.choice(left)),))
    for entry in view.entries:
        for name, new, old in _LESSON.findall(entry.text) if entry.kind == LESSONS else ():
            if old == path:
                return Reply(f"As [{name}] says.", (use("read", path=new),))
    return Reply(calls=(use("read", path=path),))


def _place(shelf: str, desk: str, book: str) -> str:
    return f"{shelf}/{desk}/{book}.md"


def write_rehearsal(folder: Path, *, seed: int = 0, desks: Sequence[str] = DESKS) -> Path:
    """Write the description, the handbooks and the tasks; returns the description's path.

    Raises:
        UsageError: There is something in the folder already.
        StorageError: It cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already", hint="Name a new folder.")
    draw = random.Random(f"rehearsal {seed}")
    rows: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    cases = iter(draw.sample(range(1000, 10_000), len(desks) * len(BOOKS) * CASES))
    for desk in desks:
        for book in BOOKS:
            facts = {next(cases): f"{draw.randrange(10_000, 100_000)}" for _ in range(CASES)}
            text = "".join(f"case {case}: {value}\n" for case, value in facts.items())
            _write(folder / "docs" / _place(draw.choice(SHELVES), desk, book), text)
            for number, (case, value) in enumerate(facts.items()):
                split = "train" if number < TRAIN else "val" if number < TRAIN + VAL else "test"
                question = f"@{desk} Look into the {book}: what holds for case {case}?"  # whose book, the role says
                rows[split].append(json.dumps({"id": f"case-{case}", "question": question, "answer": value}))
    for split, lines in rows.items():
        _write(folder / "tasks" / f"{split}.jsonl", "\n".join(lines) + "\n")
    path = folder / "swarm.toml"
    _write(path, _DESCRIPTION + "".join(_AGENT.format(desk=desk, window=WINDOW) for desk in desks))
    return path


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        hint = "Name a folder that you may write to."
        raise StorageError(f"{path} cannot be written: {error.strerror}", hint=hint) from error


_DESCRIPTION = f"""\
# Desks whose handbooks were moved. Learn with:  combee swarm learn swarm.toml --controls

[model]
kind = "script"                 # scripted agents; real ones: kind = "endpoint" or "pydantic-ai"
name = "{_SELF}"

[documents]
folder = "docs"

[tasks]
source = "tasks"                # a folder with train, val and test, or one file; @name says who is asked

[learn]
view_tokens = {VIEW}               # of the playbook, with each question
epochs = 4

"""
_AGENT = """\
[[agents]]
name = "{desk}"
role = "{desk}"
window = {window}
returns = "none"

"""
