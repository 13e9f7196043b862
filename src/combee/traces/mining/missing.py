"""Missing programs and modules, and what brought them or stood in for them: the lessons that recur most.

What stood in is named only where the evidence is clear: soon after, with the same call, files or input, and it worked.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from posixpath import basename

from combee.traces.mining.attempts import (
    Attempt,
    carried,
    changed_files,
    in_another_way,
    made_files,
    places,
    sets_up,
    world_changed,
)
from combee.traces.mining.faults import ErrorLine
from combee.traces.mining.lesson import MinedLesson
from combee.traces.mining.programs import ALIKE, BRINGS, CODE, ONLY_ASKS, READERS, RUNNERS
from combee.traces.mining.quoting import is_identifier, quotable, quoted
from combee.traces.mining.shell import (
    SimpleCommand,
    base_package,
    called,
    core,
    here_documents,
    names,
    parts,
    same_call,
)

INSTALLERS = frozenset(
    {"pip install", "apt-get install", "npm install", "conda install", "uv pip", "uv add", "gem install",
     "cargo install", "yum install", "dnf install", "apk add", "brew install", "opam install", "go install"}
)  # fmt: skip
_WINDOW = 12
_CHAIN = 3
_NAME = re.compile(r"(?![A-Z]{4,}\Z)[\w./+~-]*[\w+]\Z")
_TRACED = re.compile(r"^[ \t]*File \"([^\"\n]{1,200}\.py)\", line \d", re.MULTILINE)


def installed(part: SimpleCommand) -> frozenset[str]:
    """Return the base names of the packages that a command installs."""
    if part.action not in INSTALLERS:
        return frozenset()
    skip_next, names = False, set()
    for word in part.arguments:
        if skip_next:
            skip_next = False
        elif word in {"-r", "-i", "--index-url", "--extra-index-url", "-c", "-t", "--target", "-f", "--find-links"}:
            skip_next = True
        elif (
            not word.startswith(("-", ".", "/")) and re.fullmatch(r"[\w.+@/<>=!~\[\],;-]+", word) and word != "install"
        ):
            names.add(base_package(word))
    return frozenset(names - {"pip", "setuptools", "wheel"})


def find_missing(row: Sequence[Attempt]) -> list[MinedLesson]:
    """Return for each missing program or module what brought it in this run, verified by a later use that worked."""
    found: dict[str, MinedLesson] = {}
    for place, attempt in enumerate(row):
        fault = attempt.fault
        if fault is None or fault.kind not in {"command", "module"} or fault.about in found:
            continue
        if not is_name(fault.about) or not is_identifier(fault.about, attempt.own):
            continue
        finding = _brought(fault, place, row) or stand_in(fault, place, row) or _without(fault, place, row)
        if finding is not None:
            found[fault.about] = finding
    return _joined(list(found.values()), row)


def _joined(found: list[MinedLesson], row: Sequence[Attempt]) -> list[MinedLesson]:
    """Say a chain (one call that stopped at one missing module after the other) once, with all that it took."""
    command = {attempt.step: attempt.command for attempt in row}
    chains: dict[str, list[MinedLesson]] = defaultdict(list)
    for finding in found:
        if finding.quotes and finding.key.startswith("missing/module/"):  # not what something stood in for
            chains[command[finding.steps[0]] or ""].append(finding)
    out = list(found)
    for line, links in chains.items():
        part = next((part for part in parts(line) if part.program not in READERS), None)
        if len(links) < _CHAIN or part is None or len(part.text) > 100:
            continue
        names = [link.key.split("/")[2] for link in links]
        installs = [each for link in links for each in link.quotes]
        packages = " ".join(word for each in installs for word in each.split()[2:] if not word.startswith("-"))
        bare = " after installs with `--no-deps`" if all("--no-deps" in each for each in installs) else ""
        text = (
            f"{quoted(part.line)} stopped at one missing module after the other{bare} "
            f"({', '.join(f'`{name}`' for name in names)}): all that it took was {quoted(packages, 300)}."
        )
        out = [each for each in out if each not in links]
        steps = (links[0].steps[0], links[-1].steps[-1])
        out.append(MinedLesson("missing", f"missing/chain/{part.line}", text, steps))
    return out


def _brought(fault: ErrorLine, place: int, row: Sequence[Attempt]) -> MinedLesson | None:
    later = row[place + 1 :]
    for offset, attempt in enumerate(later):
        if attempt.worked is False:
            continue
        for part in attempt.parts:
            if not installed(part) or not (part.sure or _named(fault, part)) or attempt.fault is not None:
                continue
            proof = _used(fault, row[place], later[offset:], part)
            if proof is not None:
                what = "The program" if fault.kind == "command" else "The Python module"
                return MinedLesson(
                    "missing",
                    f"missing/{fault.kind}/{fault.about}/{part.action}",
                    f"{what} `{fault.about}` may be missing ({quoted(said(fault))}): {quoted(part.line)} brought it.",
                    (row[place].step, attempt.step, proof),
                    quotes=(part.line,),
                )
    return None


def _named(fault: ErrorLine, part: SimpleCommand) -> bool:
    """Whether the packages of an install plausibly hold what was missing."""
    return _bears(fault.about, installed(part))


def _bears(thing: str, packages: frozenset[str]) -> bool:
    """Whether the name of a program or module is in one of the packages' names, or known to come with one."""
    name = thing.casefold().replace("_", "-")
    known = BRINGS.get(thing, frozenset()) | {name}
    return any(package in known or name in package.split("-") for package in packages)


def is_name(word: str) -> bool:
    """Whether a word can be the name of a program: `find.`, `cd..` and `DISCUSSION` are slips of the pen."""
    return _NAME.match(word) is not None


def _used(fault: ErrorLine, first: Attempt, rest: Sequence[Attempt], part: SimpleCommand) -> int | None:
    """Return the step in which the missing thing was used without the fault; None where it was not, or failed again.

    The same command line may use it at once (`apt-get install jq && jq ...`). An install whose packages do not bear the
    name counts only where it is of one package and the use comes right after it.
    """
    named = _named(fault, part)
    if not named and (fault.kind == "module" or len(installed(part)) > 1):
        return None
    for distance, attempt in enumerate(rest[: _WINDOW if named else 2]):
        again = attempt.fault
        if again is not None and again.kind == fault.kind and again.about == fault.about:
            return None
        same_line = bool(distance) and attempt.command is not None and attempt.command == first.command
        if same_line and (attempt.worked or (again is not None and again.kind in {"module", "exception", "disk"})):
            return attempt.step
        if attempt.worked is not True:
            continue
        if fault.kind == "command":
            uses = [each for each in attempt.parts if _calls(each, fault.about) and each.sure]
        else:
            pattern = re.compile(rf"\b(?:import|from)\s+{re.escape(fault.about)}\b")
            uses = [each for each in attempt.parts if pattern.search(attempt.command or "")]
            uses = [each for each in uses if each.program in {"python3", "python"} and each.sure]
        if uses and (distance or any(each is not part for each in uses)):
            return attempt.step
    return None


def _without(fault: ErrorLine, place: int, row: Sequence[Attempt]) -> MinedLesson | None:
    """Return that the same call worked without the module, after the code was changed and nothing was installed."""
    first = row[place]
    if fault.kind != "module" or first.worked is not False or not _asked_for(fault, first):
        return None
    scripts, changed = _scripts(first), False
    if _is_of_the_run(fault.about, row):
        return None
    still = re.compile(rf"^\s*(?:import|from)\s+{re.escape(fault.about)}\b", re.MULTILINE)
    for attempt in row[place + 1 : place + 1 + _WINDOW]:
        if sets_up(attempt) or fault.about in attempt.output:
            return None
        if attempt.command == first.command and attempt.worked and changed and len(first.command or "") <= 100:
            text = (
                f"The Python module `{fault.about}` may be missing ({quoted(said(fault))}): with the code changed to "
                f"do without it, {quoted(first.command or '')} worked."
            )
            return MinedLesson("missing", f"without/{fault.kind}/{fault.about}", text, (first.step, attempt.step))
        files = changed_files(attempt)
        if f"{fault.about}.py" in files or "sys.path" in (written := attempt.command or attempt.arguments):
            return None  # the module was made or found, not done without
        if files & scripts:
            changed = "except" in written or not still.search(written)
    return None


def _is_of_the_run(module: str, row: Sequence[Attempt]) -> bool:
    """Whether the run itself speaks of a module as of a folder, a file or an application of its own."""
    name = re.escape(module)
    own = re.compile(rf"(?<![\w-]){name}(?:/|\.py\b)|['\"]{name}[.'\"]")
    return any(own.search(attempt.command or attempt.arguments) for attempt in row)


def _scripts(attempt: Attempt) -> set[str]:
    """Return the base names of the code that a call runs: its script or module, and what a traceback names."""
    found = set(_TRACED.findall(attempt.output))
    for part in attempt.parts:
        if part.program == "python3":
            found |= {word for word in part.arguments if word.endswith(".py")}
            if part.arguments[:1] == ("-m",):
                found |= {f"{word.rpartition('.')[2]}.py" for word in part.arguments[1:2]}
    return set(map(basename, found))


def find_absent(row: Sequence[Attempt], handled: Sequence[MinedLesson]) -> tuple[list[MinedLesson], set[str]]:
    """Return what was missing and what nothing in the run brought: of use where many runs say so.

    With them come the keys of what the run did get past, or may have: then it must not be said that no run did.
    """
    past = {f"absent/{'/'.join(finding.key.split('/')[1:3])}" for finding in handled}
    found: dict[str, MinedLesson] = {}
    where = places(row)
    same = _places_of_lines(row)
    made = made_files(row)
    tried = frozenset(name for attempt in row for part in attempt.parts for name in installed(part))
    for place, attempt in enumerate(row):
        fault = attempt.fault
        if fault is None or fault.kind not in {"command", "module"} or not is_name(fault.about):
            continue
        key = f"absent/{fault.kind}/{fault.about}"
        if key not in past:
            names = {basename(core(part)[0]) for part in attempt.parts} | {basename(fault.about)}
            others = {at for name in names for at in where.get(name, ())}.union(same[attempt.command])
            # a script that worked before may not have asked for the module yet
            since = -1 if fault.kind == "command" else place
            if _got_past(fault, attempt, [row[at] for at in sorted(others) if at > since]):
                past.add(key)
        if key in found or not _asked_for(fault, attempt) or not is_identifier(fault.about, attempt.own):
            continue
        if fault.kind == "module" and _scripts(attempt) & made and not _bears(fault.about, tried):
            continue  # a name that only the run's own script knows, which nobody took for a package
        what = "program" if fault.kind == "command" else "Python module"
        text = (
            f"The {what} `{fault.about}` was missing ({quoted(said(fault))}) in run after run, and none of them "
            "brought it: plan without it."
        )
        found[key] = MinedLesson("absent", key, text, (attempt.step,))
    return [each for key, each in found.items() if key not in past], past


def _places_of_lines(row: Sequence[Attempt]) -> Mapping[str | None, Sequence[int]]:
    found: dict[str | None, list[int]] = defaultdict(list)
    for at, attempt in enumerate(row):
        found[attempt.command].append(at)
    return found


def _got_past(fault: ErrorLine, first: Attempt, others: Sequence[Attempt]) -> bool:
    """Whether the same call may have worked in the run, in whatever way, or the program that was missing did.

    A call whose end is not known, or that the time limit killed, may have: what is said of all runs must be sure.
    """
    if fault.kind == "command":
        wanted = [part for part in first.parts if called(part, fault.about) or fault.about in part.typed]
    else:
        wanted = [part for part in first.parts if part.program == "python3"]
    return any(
        ((other.worked is not False and other.fault is None) or (other.fault and other.fault.kind == "timeout"))
        and (
            (first.command is not None and other.command == first.command)
            or any(same_call(mine, part) for mine in wanted for part in other.parts)
            or (fault.kind == "command" and _may_use(other, fault.about))
        )
        for other in others
    )


def _may_use(attempt: Attempt, program: str) -> bool:
    return bool(carried(attempt, program)) or any(_calls(part, program) for part in attempt.parts)


def _calls(part: SimpleCommand, program: str) -> bool:
    """Whether a part calls a program, by this name, from a path or by a launcher."""
    return called(part, program) or basename(core(part)[0]) == basename(program)


def _asked_for(fault: ErrorLine, attempt: Attempt) -> bool:
    """Whether the call itself wanted the missing thing, not something that printed beside it."""
    if fault.kind == "command":
        if fault.about in here_documents(attempt.command or ""):
            return False  # the end word of a here-document, read as a command
        given = [part for part in attempt.parts if attempt.worked is False and part.program not in READERS]
        itself = any(called(part, fault.about) for part in attempt.parts)
        return itself or any(fault.about in part.typed for part in given)
    return attempt.worked is False and any(part.program == "python3" for part in attempt.parts)


_SOON = 3
_LONGEST = 160
_CODED = frozenset({"python3", "node", "perl", "ruby", "php"})
_THING = re.compile(r"[\w-]+\.\w+|/\w")


def said(fault: ErrorLine) -> str:
    """Return the fault as a lesson names it: without what differs from shell to shell."""
    if fault.kind == "command":
        return f"{fault.about}: command not found"
    if "requires the" in fault.line:
        return f"requires the {fault.about} library but it was not found"
    return f"No module named '{fault.about}'"


def stand_in(fault: ErrorLine, place: int, row: Sequence[Attempt]) -> MinedLesson | None:
    """Return what did the same job without what was missing; None where nothing clearly did."""
    if fault.kind == "command" and fault.about == "sudo":
        return _without_sudo(fault, place, row)
    return _other_program(fault, place, row) or _other_way(fault, place, row)


def _other_way(fault: ErrorLine, place: int, row: Sequence[Attempt]) -> MinedLesson | None:
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
        return MinedLesson(
            "missing",
            f"missing/{fault.kind}/{fault.about}/{part.typed[0]}",
            f"The {what} `{fault.about}` may be missing ({quoted(said(fault))}): the same call worked as "
            f"{quoted(shown)}.",
            (first.step, attempt.step),
        )
    return None


def _other_program(fault: ErrorLine, place: int, row: Sequence[Attempt]) -> MinedLesson | None:
    """Return a program of the same kind, or code, that did the same soon after: `wget URL` for a missing `curl`."""
    wanted = [part for part in row[place].parts if called(part, fault.about) or core(part)[0] == fault.about]
    what = "program" if fault.kind == "command" else "Python module"
    for attempt in row[place + 1 : place + 1 + _SOON] if wanted else ():
        if attempt.worked is not True or attempt.fault is not None:
            continue
        for part in attempt.parts:
            alike = fault.kind == "command" and (_alike(fault, wanted[0], part) or _by_code(fault, wanted[0], part))
            if len(part.text) > 120 or not (alike or _given_the_same(wanted[0], part)):
                continue
            name = part.words[0].removeprefix("./") if "/" in part.words[0] else part.program
            return MinedLesson(
                "missing",
                f"missing/{fault.kind}/{fault.about}/{name.replace('/', ':')}",
                f"The {what} `{fault.about}` may be missing ({quoted(said(fault))}): `{name}` stood "
                f"in for it, as in {quoted(part.text if part.program in _CODED else part.line, 120)}.",
                (row[place].step, attempt.step),
            )
    return None


def _alike(fault: ErrorLine, wanted: SimpleCommand, part: SimpleCommand) -> bool:
    alike = any({fault.about, basename(part.program)} <= group for group in ALIKE)
    mine, theirs = wanted.targets, part.targets
    shared = mine & theirs or not (mine and theirs) or any(len(a) > 2 and a in b for a in mine for b in theirs)
    asks = not ONLY_ASKS.isdisjoint(part.words) and ONLY_ASKS.isdisjoint(wanted.words)  # that it is there is no use
    return bool(alike and shared) and part.program != fault.about and not asks


def _given_the_same(wanted: SimpleCommand, part: SimpleCommand) -> bool:
    """Whether another program, of the project or installed, was given the very same arguments, a file among them."""
    mine, theirs = core(wanted), core(part)
    shows = part.program in READERS and "/" not in part.words[0]
    same = mine[1:] == theirs[1:] and any(map(_THING.search, mine[1:]))
    return same and not names(mine[0], theirs[0]) and not shows and part.program not in RUNNERS


def _by_code(fault: ErrorLine, wanted: SimpleCommand, part: SimpleCommand) -> bool:
    """Whether a line of code does what the program does, with the same input: a file that it names, or the pipe."""
    code = " ".join(part.words[1:])
    things = {word for word in wanted.targets if _THING.search(word)}
    same = any(thing in code for thing in things) if things else bool(part.fed) and part.fed == wanted.fed
    if part.program not in _CODED or not part.sure or not same:
        return False
    for thing in things:
        code = code.replace(thing, "")  # `json` in the name of a file is no sign of what reads it
    return any(re.search(rf"\b{re.escape(name)}\b", code) for name in CODE.get(fault.about, ()))


def _without_sudo(fault: ErrorLine, place: int, row: Sequence[Attempt]) -> MinedLesson | None:
    actions = {part.action for part in row[place].parts if part.text.startswith("sudo ")}
    for attempt in row[place + 1 : place + 4]:
        hit = [part for part in attempt.parts if part.action in actions and not part.text.startswith("sudo ")]
        if hit and attempt.worked and hit[0].sure:
            return MinedLesson(
                "missing",
                "missing/command/sudo/none",
                f"The program `sudo` may be missing ({quoted(said(fault))}) where the agent is root: the same command "
                f"without it worked, as in {quoted(hit[0].line, 100)}.",
                (row[place].step, attempt.step),
            )
    return None
