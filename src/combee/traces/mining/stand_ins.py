"""What stood in for a missing program or module: another program of its kind, code, or the same call in another way.

It is named only where the evidence is clear: soon after, with the same call, files or input, and it worked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from combee.traces.mining.attempts import Attempt
from combee.traces.mining.changes import world_changed
from combee.traces.mining.faults import Fault, quotable, quoted
from combee.traces.mining.finding import Finding
from combee.traces.mining.shell import Part
from combee.traces.mining.ways import called, in_another_way
from combee.traces.mining.words import ALIKE, CODE, ONLY_ASKS, READERS

__all__ = ["said", "stand_in"]

_SOON = 3
_LONGEST = 160
_CODED = frozenset({"python3", "node", "perl", "ruby", "php"})
_THING = re.compile(r"[\w-]+\.\w+|/\w")


def said(fault: Fault) -> str:
    """Return the fault as a lesson names it: without what differs from shell to shell."""
    if fault.kind == "command":
        return f"{fault.about}: command not found"
    if "requires the" in fault.line:
        return f"requires the {fault.about} library but it was not found"
    return f"No module named '{fault.about}'"


def stand_in(fault: Fault, place: int, row: Sequence[Attempt]) -> Finding | None:
    """Return what did the same job without what was missing; None where nothing clearly did."""
    if fault.kind == "command" and fault.about == "sudo":
        return _without_sudo(fault, place, row)
    found = _other_program(fault, place, row) if fault.kind == "command" else None
    return found or _other_way(fault, place, row)


def _other_way(fault: Fault, place: int, row: Sequence[Attempt]) -> Finding | None:
    """Return the same call in another way: `npx tsc` for `tsc`, `PYTHONPATH=src python a.py` for `python a.py`."""
    first = row[place]
    if fault.kind == "command":
        wanted = [part for part in first.parts if called(part, fault.about)]
    else:
        wanted = [part for part in first.parts if first.worked is False and part.program not in READERS]
    if len(wanted) != 1:
        return None
    for offset, attempt in enumerate(row[place + 1 : place + 1 + _SOON], place + 1):
        if attempt.worked is not True or attempt.fault is not None:
            continue
        found = in_another_way(first, wanted[0], attempt)
        if found is None:
            continue
        part, shown = found
        if len(shown) > _LONGEST or not quotable(shown) or world_changed(row[place + 1 : offset]):
            return None
        what = "program" if fault.kind == "command" else "Python module"
        return Finding(
            "missing",
            f"missing/{fault.kind}/{fault.about}/{part.typed[0]}",
            f"The {what} `{fault.about}` may be missing ({quoted(said(fault))}): the same call worked as "
            f"{quoted(shown)}.",
            (first.step, attempt.step),
        )
    return None


def _other_program(fault: Fault, place: int, row: Sequence[Attempt]) -> Finding | None:
    """Return a program of the same kind, or code, that did the same soon after: `wget URL` for a missing `curl`."""
    wanted = [part for part in row[place].parts if called(part, fault.about)]
    for attempt in row[place + 1 : place + 1 + _SOON] if wanted else ():
        if attempt.worked is not True or attempt.fault is not None:
            continue
        for part in attempt.parts:
            if len(part.text) > 120 or not (_alike(fault, wanted[0], part) or _by_code(fault, wanted[0], part)):
                continue
            return Finding(
                "missing",
                f"missing/command/{fault.about}/{part.program}",
                f"The program `{fault.about}` may be missing ({quoted(said(fault))}): `{part.program}` stood "
                f"in for it, as in {quoted(part.text if part.program in _CODED else part.line, 120)}.",
                (row[place].step, attempt.step),
            )
    return None


def _alike(fault: Fault, wanted: Part, part: Part) -> bool:
    alike = any({fault.about, part.program} <= group for group in ALIKE)
    shared = wanted.targets & part.targets or not wanted.targets or not part.targets
    asks = not ONLY_ASKS.isdisjoint(part.words) and ONLY_ASKS.isdisjoint(wanted.words)  # that it is there is no use
    return bool(alike and shared) and part.program != fault.about and not asks


def _by_code(fault: Fault, wanted: Part, part: Part) -> bool:
    """Whether a line of code does what the program does, with the same input: a file that it names, or the pipe."""
    code = " ".join(part.words[1:])
    things = {word for word in wanted.targets if _THING.search(word)}
    same = any(thing in code for thing in things) if things else bool(part.fed) and part.fed == wanted.fed
    if part.program not in _CODED or not part.sure or not same:
        return False
    for thing in things:
        code = code.replace(thing, "")  # `json` in the name of a file is no sign of what reads it
    return any(re.search(rf"\b{re.escape(name)}\b", code) for name in CODE.get(fault.about, ()))


def _without_sudo(fault: Fault, place: int, row: Sequence[Attempt]) -> Finding | None:
    actions = {part.action for part in row[place].parts if part.text.startswith("sudo ")}
    for attempt in row[place + 1 : place + 4]:
        hit = [part for part in attempt.parts if part.action in actions and not part.text.startswith("sudo ")]
        if hit and attempt.worked and hit[0].sure:
            return Finding(
                "missing",
                "missing/command/sudo/none",
                f"The program `sudo` may be missing ({quoted(said(fault))}) where the agent is root: the same command "
                f"without it worked, as in {quoted(hit[0].line, 100)}.",
                (row[place].step, attempt.step),
            )
    return None
