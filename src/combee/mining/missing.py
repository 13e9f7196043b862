"""Missing programs and modules, and what brought them: the lessons that recur most."""

from __future__ import annotations

import re
from collections.abc import Sequence

from combee.mining.attempts import Attempt
from combee.mining.faults import Fault, quoted
from combee.mining.finding import MISTAKES, Finding
from combee.mining.shell import READERS, Part, base_package

__all__ = ["INSTALLERS", "find_missing", "installed"]

INSTALLERS = frozenset(
    {"pip install", "apt-get install", "npm install", "conda install", "uv pip", "uv add", "gem install",
     "cargo install", "yum install", "dnf install", "apk add", "brew install", "opam install", "go install"}
)  # fmt: skip
_ALIKE: tuple[frozenset[str], ...] = tuple(
    frozenset(group.split())
    for group in (
        "wget curl", "python python3", "netstat ss lsof", "vim vi nano", "telnet nc ncat", "ifconfig ip",
        "service systemctl", "xxd hexdump od file", "7z 7za 7zr p7zip unar", "docker podman", "nslookup dig host getent",
        "unzip python3 jar", "zip tar", "make cmake ninja", "node nodejs bun", "sudo su", "expect socat", "man info",
        "rsync cp scp", "tesseract python3", "gcc cc clang tcc", "crontab systemctl",
    )
)  # fmt: skip
_WINDOW = 12


def installed(part: Part) -> frozenset[str]:
    """Return the base names of the packages that a command installs."""
    if part.action not in INSTALLERS:
        return frozenset()
    skip_next, names = False, set()
    for word in part.arguments:
        if skip_next:
            skip_next = False
        elif word in {"-r", "-i", "--index-url", "--extra-index-url", "-c", "-t", "--target", "-f", "--find-links"}:
            skip_next = True
        elif not word.startswith("-") and re.fullmatch(r"[\w.+@/<>=!~\[\],;-]+", word) and word != "install":
            names.add(base_package(word))
    return frozenset(names - {"pip", "setuptools", "wheel"})


def find_missing(row: Sequence[Attempt]) -> list[Finding]:
    """Return for each missing program or module what brought it in this run, verified by a later use that worked."""
    found: dict[str, Finding] = {}
    for place, attempt in enumerate(row):
        fault = attempt.fault
        if fault is None or fault.kind not in {"command", "module"} or fault.about in found:
            continue
        finding = _brought(fault, place, row) or _alternative(fault, place, row)
        if finding is not None:
            found[fault.about] = finding
    return list(found.values())


def _brought(fault: Fault, place: int, row: Sequence[Attempt]) -> Finding | None:
    later = row[place + 1 :]
    for offset, attempt in enumerate(later):
        if attempt.worked is False:
            continue
        for part in attempt.parts:
            if not (part.sure and installed(part)) or attempt.fault is not None:
                continue
            proof = _used(fault, later[offset:], part)
            if proof is not None:
                command = _shown(part)
                what = "The program" if fault.kind == "command" else "The Python module"
                return Finding(
                    "missing",
                    f"missing/{fault.kind}/{fault.about}/{part.action}",
                    f"{what} `{fault.about}` may be missing ({quoted(_said(fault))}): {quoted(command)} brought it.",
                    (row[place].step, attempt.step, proof),
                    MISTAKES,
                )
    return None


def _said(fault: Fault) -> str:
    if fault.kind == "command":
        return f"{fault.about}: command not found"
    return f"No module named '{fault.about}'"


def _shown(part: Part) -> str:
    """Return the command in words: wrappers and redirections are not part of the lesson."""
    return " ".join(part.words)


def _named(fault: Fault, part: Part) -> bool:
    """Whether the packages of an install plausibly hold what was missing: the name is in one of them."""
    name = fault.about.casefold().replace("_", "-")
    return any(name == package or name in package.split("-") or package in name for package in installed(part))


def _used(fault: Fault, rest: Sequence[Attempt], part: Part) -> int | None:
    """Return the step in which the missing thing was used without the fault; None where it was not, or failed again.

    The same command line may use it at once (`apt-get install jq && jq ...`). An install whose packages do not bear the
    name counts only where the use comes right after it.
    """
    for distance, attempt in enumerate(rest[: _WINDOW if _named(fault, part) else 3]):
        again = attempt.fault
        if again is not None and again.kind == fault.kind and again.about == fault.about:
            return None
        if attempt.worked is not True:
            continue
        if fault.kind == "command":
            uses = [each for each in attempt.parts if each.program == fault.about and each.sure]
        else:
            pattern = re.compile(rf"\b(?:import|from)\s+{re.escape(fault.about)}\b")
            uses = [each for each in attempt.parts if pattern.search(attempt.command or "")]
            uses = [each for each in uses if each.program in {"python3", "python"} and each.sure]
        if uses and (distance or any(each is not part for each in uses)):
            return attempt.step
    return None


def _alternative(fault: Fault, place: int, row: Sequence[Attempt]) -> Finding | None:
    """Return another program of the same kind that did the same at once: `wget URL` for a missing `curl`."""
    if fault.kind != "command":
        return None
    wanted = [part for part in row[place].parts if part.program == fault.about]
    if not wanted:
        return None
    for attempt in row[place + 1 : place + 3]:
        if attempt.worked is not True or attempt.fault is not None:
            continue
        for part in attempt.parts:
            alike = any({fault.about, part.program} <= group for group in _ALIKE)
            shared = wanted[0].targets & part.targets or not wanted[0].targets
            if alike and shared and part.sure and part.program != fault.about and part.program not in READERS - {"od"}:
                return Finding(
                    "missing",
                    f"missing/command/{fault.about}/{part.program}",
                    f"The program `{fault.about}` may be missing ({quoted(_said(fault))}): `{part.program}` did it "
                    f"instead, as in {quoted(_shown(part), 120)}.",
                    (row[place].step, attempt.step),
                    MISTAKES,
                )
    return None
