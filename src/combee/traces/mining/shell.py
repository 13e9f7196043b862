"""A command line taken apart: the simple commands in it, which of them surely ran, and what each calls in the end.

It reads text, it runs nothing. What it cannot take apart is one command of unknown intent, which teaches nothing.
`core` is what is called whatever leads to it: of `./a.sh x`, `bash a.sh x` and `sudo sh ./a.sh x` it is `a.sh x`; of
`python -m pytest -q`, `npx`, `uv run` and `docker exec db` what follows them.
"""

from __future__ import annotations

import difflib
import re
import shlex
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from posixpath import basename, normpath

from combee.traces.mining.programs import (
    FIX_ALWAYS,
    FIXERS,
    FIXES,
    INTERPRETERS,
    KEYWORDS,
    LAUNCHERS,
    PROJECT_TOOLS,
    SETS_UP,
    SETS_UP_BY,
    TWO_WORDS,
    WITH_VERB,
    WRAPPERS,
)

_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)([A-Za-z_][\w.-]*+)\1")
_WRITES = re.compile(r"(?<![0-9&<>])>{1,2}[ \t]*([\w./~+-]+)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_MATTER = frozenset({"sudo", "doas", "env"})
_SAME = {
    "python": "python3",
    "pip3": "pip",
    "apt": "apt-get",
    "nodejs": "node",
    "egrep": "grep",
    "bsdtar": "tar",
    "docker-compose": "docker",
}
_MOST = 4000


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One simple command.

    `words` are without wrappers (sudo, env) and assignments; `typed` has those of them that may matter; `text` is as
    typed; `sure` says that the exit code of the whole line speaks for this part too; `fed` is what stands before it in
    a pipe; `background` says that `&` follows.
    """

    text: str
    words: tuple[str, ...]
    sure: bool
    fed: str = ""
    background: bool = False
    typed: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The name of the program, one name for its spellings (python3, pip, apt-get)."""
        return program_name(self.words[0]) if self.words else ""

    @property
    def line(self) -> str:
        """The command in words, without wrappers and redirections: what a lesson shows."""
        return " ".join(self.words)

    @property
    def verbs(self) -> tuple[str, ...]:
        """The words of the sub-command, of programs that have them."""
        if self.program not in WITH_VERB:
            return ()
        found = [word for word in _past_options(list(self.words[1:7])) if not word.startswith("-") and "=" not in word]
        return tuple(found[: 2 if found and found[0] in TWO_WORDS else 1])

    @property
    def action(self) -> str:
        """Program and sub-command: `git merge`, `pip install`, `tar`."""
        return " ".join((self.program, *self.verbs))

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows the program and its sub-command."""
        rest = list(self.words[1:])
        for word in self.verbs:
            rest.remove(word)
        return tuple(rest)

    @property
    def targets(self) -> frozenset[str]:
        """The arguments that are no options."""
        return frozenset(word for word in self.arguments if not word.startswith("-"))


@lru_cache(maxsize=8192)
def program_name(word: str) -> str:
    """Return the name under which a program is filed."""
    name = basename(word) if not word.startswith("./") else word
    name = re.sub(r"^(python)[23](?:\.\d+)?$", r"\g<1>3", name)
    name = re.sub(r"^pip3?(?:\.\d+)?$", "pip", name)
    return _SAME.get(name, name)


def base_package(word: str) -> str:
    """Return a package's name without version, extras and the distribution's prefix: `python3-numpy` is `numpy`."""
    name = re.split(r"[<>=!~\[;@]", word, maxsplit=1)[0].strip().casefold().replace("_", "-")
    return re.sub(r"^(?:python3?-|lib(?=.*-dev$))", "", name)


def without_heredocs(command: str) -> str:
    """Return the command with the bodies of here-documents taken out: they are data for a program, not commands."""
    if "<<" not in command:
        return command.rstrip("\n")
    lines = command.split("\n")
    ends: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        ends[line.strip(" \t")].append(number)
    kept: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        for match in _HEREDOC.finditer(line):
            later = ends.get(match[2], [])
            if (place := bisect_right(later, at)) < len(later):
                at = later[place]  # of two on one line the second begins where the first ends
                line = line.replace(match[0], f"<<{match[2]}", 1)
        kept.append(line)
        at += 1
    return "\n".join(kept).rstrip("\n")


def here_documents(command: str) -> list[str]:
    """Return the end words of the here-documents in a command, those inside others too, in order."""
    return [match[2] for match in _HEREDOC.finditer(command)]


def written_files(command: str) -> frozenset[str]:
    """Return the base names of files that a command writes by redirection."""
    return frozenset(basename(name) for name in _WRITES.findall(without_heredocs(command)) if name != "/dev/null")


@lru_cache(maxsize=4096)
def parts(command: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands of a line, in order; empty where the line cannot be read."""
    command = without_heredocs(command[:_MOST]).strip()
    pieces = _split(command)
    if not pieces:
        return ()
    found: list[SimpleCommand] = []
    after = [joint for _, joint in pieces[1:]] + ["&" if command.endswith("&") and command[-2:] != "&&" else ""]
    chained = True
    sure: list[bool] = []
    for joint in reversed(after):
        chained = joint == "" or (joint == "&&" and chained)  # what && leads to, up to the end of the line
        sure.append(chained)
    fed = ""
    for (text, _), joint, vouched in zip(pieces, after, reversed(sure), strict=True):
        typed, words = _words(text)
        if words:
            found.append(SimpleCommand(text.strip(), words, vouched, fed, joint == "&", typed))
        fed = text.strip() if joint == "|" else ""
    if any(part.program in KEYWORDS for part in found):
        return ()  # loops and conditions: what ran is not known
    return tuple(found)


_PLAIN_WORDS = re.compile(r"[^\\'\"#]*")
_SIGNS = re.compile(r"[\\'\"`(){}|;&\n]")


def _split(command: str) -> list[tuple[str, str]] | None:
    """Return (text, the joint before it) of each simple command, minding quotes and brackets."""
    out: list[tuple[str, str]] = []
    start, past, joint, quote, depth = 0, 0, "", "", 0
    for match in _SIGNS.finditer(command):  # what lies between the signs says nothing
        at, char = match.start(), match[0]
        if at < past:
            continue
        if char == "\\":
            past = at + 2 if quote not in {"'", "`"} else past
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"`":
            quote = char
        elif char in "({":
            depth += 1
        elif char in ")}":
            depth -= 1
        elif depth <= 0 and (found := _joint(command, at)):
            out.append((command[start:at], joint))
            joint = found
            start = past = at + len(found)
    if quote or depth:
        return None
    out.append((command[start:], joint))
    return _without_blanks(out)


def _without_blanks(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Drop empty pieces and comments; of two joints that meet then, the one that says more stays (`&` and a line)."""
    kept: list[tuple[str, str]] = []
    dropped = ""
    for text, before in pieces:
        joint = dropped if dropped and before in {";", "\n"} else before
        if text.strip() and not text.strip().startswith("#"):
            kept.append((text, joint if kept else ""))
            dropped = ""
        else:
            dropped = joint
    return kept


def _joint(command: str, at: int) -> str:
    two = command[at : at + 2]
    if two in {"&&", "||"}:
        return two
    char = command[at]
    if char == "&" and (command[at - 1 : at] in {">", "<"} or two == "&>"):
        return ""
    return char if char in "|;&\n" else ""


def _words(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a simple command with the wrappers and variables that may matter, and without any."""
    if _PLAIN_WORDS.fullmatch(text):
        words = text.split()
    else:
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            return (), ()
    words = [word for word in words if not re.fullmatch(r"(?:\d?>{1,2}|<|&>|\d>&\d|<<\w*)", word)]
    before: list[str] = []
    wrapper = ""
    while words:
        name = basename(words[0])
        taken = 1
        if name in WRAPPERS:
            wrapper = name
        elif words[0].startswith("-") and wrapper:
            taken = 2 if words[0] in WRAPPERS[wrapper] else 1
        elif wrapper == "timeout":
            wrapper = "exec"  # the time, given once
            taken = 1
        elif not _ASSIGNMENT.match(words[0]):
            break
        if wrapper in _MATTER or _ASSIGNMENT.match(words[0]):
            before += words[:taken]
        words = words[taken:]
    typed = (*before, *words)
    if words[:3] and program_name(words[0]) == "python3" and words[1:3] == ["-m", "pip"]:
        words = ["pip", *words[3:]]
    return typed, tuple(words)


INLINE = frozenset({"-c", "-e", "-r", "-E"})
_OPTIONS_WITH_VALUE = """
-n -p -e -u -w -C -c -R --name --prefix --env --user --workdir --with --context --namespace --filter --project --profile
--region --kubeconfig --cwd --git-dir --project-name
"""
_VALUED = frozenset(_OPTIONS_WITH_VALUE.split())
_NAMES_A_PLACE = frozenset({("docker", "exec"), ("docker-compose", "exec"), ("podman", "exec"), ("kubectl", "exec")})
_LIKE = 0.4
_MOST_ADDED = 4


def core(part: SimpleCommand) -> tuple[str, ...]:
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
    if words[:2] == ["yarn", "workspace"]:
        return ["yarn", *words[3:]]
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
        if word in INLINE:
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


def called(part: SimpleCommand, program: str) -> bool:
    """Whether a part calls a program by this very name; its spellings (python3 for python) do not count."""
    return bool(part.words) and basename(part.words[0]) == basename(program)


def same_call(one: SimpleCommand, other: SimpleCommand) -> bool:
    """Whether two parts call the same with the same arguments, in whatever way."""
    mine, theirs = core(one), core(other)
    return bool(mine and theirs) and mine[1:] == theirs[1:] and names(mine[0], theirs[0])


def call_hash(part: SimpleCommand) -> int:
    """Return a hash that parts share which call the same with the same arguments, from whatever folder."""
    name, *rest = core(part)
    return hash_of(basename(name), *rest)


def hash_of(*words: str) -> int:
    """Return a hash of words that is the same in every process."""
    return int.from_bytes(blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=8).digest())


def similar(one: SimpleCommand, other: SimpleCommand) -> bool:
    """Whether two parts that call the same thing mean the same: most arguments, or all that are no options."""
    a, b = list(core(one)[1:]), list(core(other)[1:])
    if not a or not b:
        return all(word.startswith("-") for word in (*a, *b))
    mine, theirs = ({word for word in words if not word.startswith("-")} for words in (a, b))
    alike = difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() >= _LIKE
    return alike or bool(mine and (mine == theirs or (mine < theirs and len(b) - len(a) <= _MOST_ADDED)))


def other_options(one: SimpleCommand, other: SimpleCommand) -> bool:
    """Whether two parts that call the same thing give it nothing but options, each its own."""
    a, b = core(one)[1:], core(other)[1:]
    return bool(a and b) and all(word.startswith("-") for word in (*a, *b))


_BARE = frozenset(
    {
        "yarn",
        "bundle",
        "make",
        "gmake",
        "configure",
        "autogen.sh",
        "autoreconf",
        "cmake",
        "meson",
        "ninja",
        "tsc",
        "pnpm",
    }
)
_GIT = frozenset({"submodule", "lfs"})
_DOCKER = frozenset({"build", "compose", "pull", "up", "network", "volume", "create", "start", "buildx"})
_SCRIPT = re.compile(
    r"(?:setup|bootstrap|install(?:[-_]?deps)?|init(?:[-_]?db)?|configure|build|generate|codegen|migrate|deps)(?:\.\w+)?"
)
_VENV = re.compile(
    r"(?:\S*/)?python[\d.]* -m venv\b|uv venv\b|virtualenv\b|(?:source|\.) \S*(?:activate|nvm\.sh|\.sh|env)\b"
)


def sets_up_project(part: SimpleCommand) -> bool:
    """Whether a command sets a project up for what follows: installs, syncs, migrates, builds, generates, starts."""
    words = core(part)
    if not words:
        return False
    name, rest = basename(words[0]), [word for word in words[1:6] if not word.startswith("-") and "=" not in word]
    if _VENV.match(part.text) or ("/" in words[0] and name not in PROJECT_TOOLS and _SCRIPT.fullmatch(name)):
        return True
    if name in FIXERS and (not FIXES.isdisjoint(words[1:4]) or (name in FIX_ALWAYS and "--check" not in words)):
        return True
    if name not in PROJECT_TOOLS:
        return False
    if name == "git":
        return bool(rest) and rest[0] in _GIT
    if name in {"docker", "docker-compose", "podman"}:
        return bool(_DOCKER & set(rest[:2]))
    if not rest or name in {"cmake", "protoc", "configure"}:
        return name in _BARE or name == "protoc"
    return any(word in SETS_UP or word.startswith(SETS_UP_BY) for word in rest[:3])
