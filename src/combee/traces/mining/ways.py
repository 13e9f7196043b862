"""One call said in many ways: by an interpreter or a launcher, with `sudo` or a variable before it, from a folder.

`core` is what is called in the end, whatever leads to it: of `./a.sh x`, `bash a.sh x` and `sudo sh ./a.sh x` it is
`a.sh x`; of `python -m pytest -q`, `npx`, `uv run` and `docker exec db` what follows them. Only reads, runs nothing.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from posixpath import basename, normpath

from combee.redaction import Step, failed
from combee.traces.mining.attempts import Attempt
from combee.traces.mining.faults import printed
from combee.traces.mining.shell import Part, program_name, without_heredocs
from combee.traces.mining.words import CARRIERS, INTERPRETERS, LAUNCHERS

__all__ = [
    "call_hash",
    "called",
    "carried",
    "core",
    "folder",
    "in_another_way",
    "names",
    "other_options",
    "places",
    "ran",
    "same_call",
    "similar",
]

_INLINE = frozenset({"-c", "-e", "-r", "-E"})
_VALUED = frozenset({"-n", "-p", "-e", "-u", "-w", "--name", "--prefix", "--env", "--user", "--workdir", "--with"})
_NAMES_A_PLACE = frozenset({("docker", "exec"), ("docker-compose", "exec"), ("podman", "exec"), ("kubectl", "exec")})
_LIKE = 0.4
_WORD = re.compile(r"[\w.+-]+")
# What a shell runs from within a line: `$(...)`, backticks, `(...)`, `{ ...; }`, `! ...`, a function, `$PROGRAM`.
_RUN_WITHIN = re.compile(r"\$\(|`|\)\s*\{|(?:^|[;&|\n])\s*(?:[({!]|\$[\w{])")
_READ = 4000  # of a longer line not all parts are known


def core(part: Part) -> tuple[str, ...]:
    """Return the words of what a part calls in the end; the first is a name or a path without `./` and `.exe`."""
    return _core(part.words)


@lru_cache(maxsize=8192)
def _core(given: tuple[str, ...]) -> tuple[str, ...]:
    words = list(given)
    for _ in range(4):
        inner = _inside(words)
        if inner is None:
            break
        words = inner
    if not words:
        return ()
    return (_name(words[0]), *words[1:])


def _name(word: str) -> str:
    word = word.removesuffix(".exe") or word
    return normpath(word) if "/" in word else program_name(word)


def _inside(words: list[str]) -> list[str] | None:
    """Return what an interpreter or a launcher runs, or None where the words are the call itself."""
    if len(words) < 2:
        return None
    name = basename(words[0]).removesuffix(".exe")
    if (name, words[1]) in {("docker", "compose"), ("uv", "pip")}:
        return ["docker-compose" if name == "docker" else "pip", *words[2:]]
    if name == "java" and "-jar" in words[:-1]:
        return words[words.index("-jar") + 1 :]
    if program_name(name) in INTERPRETERS:
        return _script(words[1:])
    for length in (2, 1):
        if (name, *words[1:length]) in LAUNCHERS:
            inner = _past_options(words[length:])
            if (name, *words[1:length]) in _NAMES_A_PLACE:
                inner = [word for word in inner[1:] if word != "--"]
            return inner or None
    return None


def _script(rest: list[str]) -> list[str] | None:
    """Return the script or the module with its arguments; None where the code stands in the call itself."""
    for at, word in enumerate(rest):
        if word in _INLINE:
            return None
        if word == "-m":
            module = rest[at + 1 : at + 2]
            return [f"{each.replace('.', '/')}.py" if "." in each else each for each in module] + rest[at + 2 :] or None
        if not word.startswith("-"):
            return rest[at:]
    return None


def _past_options(rest: list[str]) -> list[str]:
    at = 0
    while at < len(rest) and rest[at].startswith("-"):
        at += 2 if rest[at] in _VALUED else 1
    return rest[at:]


def names(one: str, other: str) -> bool:
    """Whether two first words may name the same thing: the same path, or one without its folder."""
    bare = ("/" not in one or "/" not in other) and ".." not in {one[:2], other[:2]}
    return one == other or (bare and basename(one) == basename(other))


def called(part: Part, program: str) -> bool:
    """Whether a part calls a program by this very name; its spellings (python3 for python) do not count."""
    return bool(part.words) and basename(part.words[0]) == basename(program)


def same_call(one: Part, other: Part) -> bool:
    """Whether two parts call the same with the same arguments, in whatever way."""
    mine, theirs = core(one), core(other)
    return bool(mine and theirs) and mine[1:] == theirs[1:] and names(mine[0], theirs[0])


def call_hash(part: Part) -> int:
    """Return a hash that parts share which call the same with the same arguments, from whatever folder."""
    name, *rest = core(part)
    return hash((basename(name), *rest))


def similar(one: Part, other: Part) -> bool:
    """Whether two parts that call the same thing mean the same: most arguments, or all that are no options."""
    a, b = list(core(one)[1:]), list(core(other)[1:])
    if not a and not b:
        return True
    mine, theirs = ({word for word in words if not word.startswith("-")} for words in (a, b))
    alike = difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() >= _LIKE
    return alike or bool(mine and mine == theirs)


def other_options(one: Part, other: Part) -> bool:
    """Whether two parts that call the same thing give it nothing but options, each its own."""
    a, b = core(one)[1:], core(other)[1:]
    return bool(a and b) and all(word.startswith("-") for word in (*a, *b))


def ran(attempt: Attempt, part: Part) -> bool:
    """Whether a part of a call that worked did so itself: its end is the call's, or a pipe shows only what it said."""
    return part.sure or (
        attempt.fault is None
        and bool(printed(attempt.output).strip())
        and not failed(Step(0, "tool", attempt.output))
        and any(each.fed == part.text and each.sure for each in attempt.parts)
    )


def carried(attempt: Attempt, program: str, *, besides: Part | None = None) -> str:
    """Return the text of a call in which another program may run one (`su -c`, a loop); empty where it is not named.

    `besides` is a part that surely failed.
    """
    inside = _carries(attempt, besides)
    named = inside and re.search(rf"(?<![\w.-]){re.escape(basename(program))}(?![\w-])", inside)
    return inside if named else ""


def _carries(attempt: Attempt, besides: Part | None = None) -> str:
    if attempt.command is None:
        return ""
    rest = attempt.command if besides is None else attempt.command.replace(besides.text, "")
    carriers = [each for each in attempt.parts if each.program in CARRIERS and each is not besides]
    if not attempt.parts or (carriers and "<<" in rest):
        return rest
    own = without_heredocs(rest)  # what is only written to a file does not run
    if len(own) > _READ or _RUN_WITHIN.search(own):
        return own
    return " ".join(f"{each.fed} {each.text}" for each in carriers)


def places(row: Sequence[Attempt]) -> Mapping[str, Sequence[int]]:
    """Return by name where in a run something is called, or stands in a call that may run it; names without folders."""
    found: dict[str, list[int]] = defaultdict(list)
    for at, attempt in enumerate(row):
        seen = {basename(word) for part in attempt.parts for word in (core(part)[0], part.words[0])}
        seen |= {word.rstrip(".") for word in _WORD.findall(_carries(attempt))}
        for name in seen:
            found[name].append(at)
    return found


def folder(attempt: Attempt, part: Part) -> str:
    """Return the folder into which the line goes before a part of it; empty where it goes nowhere."""
    found = ""
    for each in attempt.parts:
        if each is part:
            break
        if each.program == "cd" and len(each.words) == 2:
            found = each.words[1]
    return found


def in_another_way(first: Attempt, part: Part, later: Attempt) -> tuple[Part, str] | None:
    """Return the part of a later call that is the same call in another way, with its text; None where it is not.

    Another way is one with other words before what is called (`sudo`, `npx`, `HOST=db`), or from another folder.
    """
    where = folder(first, part)
    for each in later.parts:
        if not ran(later, each) or not same_call(part, each):
            continue
        goes = folder(later, each)
        if goes and goes != where:
            return (each, f"cd {goes} && {each.text}") if not where else None
        if each.typed != part.typed:
            return each, each.text
    return None
