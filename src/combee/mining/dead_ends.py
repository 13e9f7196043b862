"""Dead ends: what failed again and again with the same fault, and never worked in the run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from combee.mining.attempts import Attempt
from combee.mining.faults import Fault, quoted
from combee.mining.finding import STRATEGIES, Finding
from combee.mining.missing import installed
from combee.mining.repairs import culprit
from combee.mining.shell import Part, written_files
from combee.mining.words import READERS

__all__ = ["find_dead_ends", "find_unmended"]

_LEAST = 3
_LEAST_INSTALLS = 2
_GENERAL = frozenset({"python3", "node", "bash", "sh", "gcc", "g++", "make", "cargo", "ruby", "perl", "java"})
_TOLD = frozenset({"command", "module"})


def find_dead_ends(row: Sequence[Attempt]) -> list[Finding]:
    """Return the calls that a run tried again and again in vain: three times, or two ways to install one thing."""
    tried: dict[tuple[str, str], list[tuple[Attempt, str]]] = defaultdict(list)
    worked: set[str] = set()
    for attempt in row:
        if attempt.worked:
            worked |= {_thing(part, name) for part in attempt.parts for name in installed(part) or ("",)}
        part, fault = _culprit(attempt)
        if part is not None and fault is not None:
            for name in installed(part) or ("",):
                tried[_thing(part, name), fault.signature].append((attempt, " ".join(part.words)))
    found = [
        finding
        for (thing, sign), failures in tried.items()
        if thing not in worked and (finding := _dead_end(thing, sign, failures)) is not None
    ]
    return sorted(found, key=lambda finding: finding.steps)


def find_unmended(row: Sequence[Attempt], handled: Sequence[Finding]) -> list[Finding]:
    """Return failures of calls that the run did not write itself: of use where many runs have the very same."""
    told = {step for finding in handled for step in finding.steps}
    written = {name for attempt in row if attempt.command for name in written_files(attempt.command)}
    good = {part.words for attempt in row if attempt.worked for part in attempt.parts}
    found: dict[str, Finding] = {}
    for attempt in row:
        part, fault = _culprit(attempt)
        if part is None or fault is None or attempt.step in told or part.words in good:
            continue
        line = " ".join(part.words)
        if any(name in line for name in written) or part.program in {"python3", "node"}:
            continue
        text = f"{quoted(line)} failed with {quoted(fault.line)} in run after run; no run got past it that way."
        key = f"unmended/{line}/{fault.signature}"
        found.setdefault(key, Finding("unmended", key, text, (attempt.step,), STRATEGIES, hash(part.words)))
    return list(found.values())


def _culprit(attempt: Attempt) -> tuple[Part | None, Fault | None]:
    fault = attempt.fault
    if not attempt.failed or fault is None or fault.kind in _TOLD:
        return None, None
    part = culprit(attempt)
    if part is None or len(part.text) > 160 or "\n" in part.text or part.program in READERS:
        return None, None
    return part, fault


def _thing(part: Part, package: str) -> str:
    return f"{part.action} {package}".strip()


def _dead_end(thing: str, sign: str, failures: Sequence[tuple[Attempt, str]]) -> Finding | None:
    texts = list(dict.fromkeys(text for _, text in failures))
    fault = failures[-1][0].fault
    installing = " install " in f" {thing} " or "uv add" in thing
    enough = len(texts) >= _LEAST_INSTALLS if installing else len(failures) >= _LEAST
    if not enough or fault is None or (not installing and thing.split(maxsplit=1)[0] in _GENERAL):
        return None
    variants = ", then ".join(quoted(text, 90) for text in texts[:3])
    times = "tried twice or more" if installing else "tried three times or more"
    return Finding(
        "dead_end",
        f"dead end/{thing}/{sign}",
        f"A dead end: `{thing}`, {times} in one run, failed each time with {quoted(fault.line, 120)} and never worked "
        f"there ({variants}).",
        tuple(attempt.step for attempt, _ in failures),
        STRATEGIES,
    )
