"""Dead ends: the same kind of call that failed three times or more with the same fault, and never worked in the run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from combee.mining.attempts import Attempt
from combee.mining.faults import quoted
from combee.mining.finding import STRATEGIES, Finding
from combee.mining.missing import INSTALLERS, installed
from combee.mining.repairs import culprit
from combee.mining.shell import READERS

__all__ = ["find_dead_ends"]

_LEAST = 3
_GENERAL = frozenset({"python3", "node", "bash", "sh", "gcc", "make", "cargo", "ruby", "perl", "java"})


def find_dead_ends(row: Sequence[Attempt]) -> list[Finding]:
    """Return the calls that a run tried again and again in vain."""
    tried: dict[tuple[str, str], list[tuple[Attempt, str]]] = defaultdict(list)
    worked: set[str] = set()
    for attempt in row:
        if attempt.command is None:
            if attempt.worked:
                worked.add(attempt.tool)
            continue
        worked |= {part.action for part in attempt.parts if attempt.worked and part.sure and not installed(part)}
        part, fault = culprit(attempt), attempt.fault
        if attempt.failed and part is not None and fault is not None and fault.kind not in {"command", "module"}:
            if len(part.text) <= 160 and "\n" not in part.text:
                tried[part.action, fault.signature].append((attempt, part.text))
    found: list[Finding] = []
    for (action, sign), failures in tried.items():
        program = action.split()[0]
        texts = list(dict.fromkeys(text for _, text in failures))
        fault = failures[-1][0].fault
        if len(failures) < _LEAST or action in worked or program in READERS | _GENERAL or fault is None:
            continue
        others = ", ".join(quoted(text, 80) for text in texts[1:4])
        variants = f", then {others}" if others else ""
        what = "every install" if action in INSTALLERS else f"`{action}`"
        found.append(
            Finding(
                "dead_end",
                f"dead end/{action}/{sign}",
                f"A dead end: {what} failed {len(failures)} times with {quoted(fault.line, 120)} "
                f"({quoted(texts[0], 80)}{variants}) and never worked in the run; take another way after the second.",
                tuple(attempt.step for attempt, _ in failures),
                STRATEGIES,
            )
        )
    return found
