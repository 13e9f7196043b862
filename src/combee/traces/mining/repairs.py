"""Failure and fix: a call that failed, and the later one of the same intent that worked.

Three shapes are lessons: the call was changed in a few words (`repair`), the same call worked after one other command
(`until`), or the shell itself refused a form that a later call did without (`shell`). What changed in many places at
once teaches nothing that could be said in a line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from posixpath import basename

from combee.traces.mining.attempts import (
    Attempt,
    acts,
    changed_files,
    changes_the_world,
    denies,
    edits_in_place,
    folder,
    made_files,
    ran,
    sets_up,
    touched_files,
    world_changed,
)
from combee.traces.mining.faults import ErrorLine
from combee.traces.mining.lesson import MinedLesson
from combee.traces.mining.missing import INSTALLERS, installed
from combee.traces.mining.programs import ALIKE, JUDGES, ONLY_ASKS, READERS, RUNNERS
from combee.traces.mining.quoting import quotable, quoted
from combee.traces.mining.shell import (
    INLINE,
    SimpleCommand,
    core,
    here_documents,
    names,
    other_options,
    program_name,
    same_call,
    sets_up_project,
    similar,
    without_heredocs,
    written_files,
)

_WINDOW = 8
_MOST_CHANGED = 4
_SOON_AFTER = 3
_LONGEST = 200
_QUOTES = re.compile(r"[\"'\\]")
_BY_SHELL = re.compile(r"^(?:sudo )?(?:ba|z)sh -l?c ")
_BY_QUOTES = re.compile(r"(?:\w+\.)*(?:Syntax|Name|Indentation|JSONDecode|Json)\w*Error")
_FILE = re.compile(r"/|\.[A-Za-z]\w{0,5}$")
_HIDES = re.compile(r"(?:\d|&)?>{1,2}(?:/dev/null|&\d)|/dev/null")
_OPTION = re.compile(r"-|\w+=")
_NOT_THERE = re.compile(r"not found|no such|unrecognized|no tests", re.IGNORECASE)
_SPEAKER = re.compile(r"([\w./+-]{1,60})(?![\w-])[^\n]{0,20}:")
_NUMBER = re.compile(r"[\d.:,kKmMgGbBsi%]+")
_SPELLED_ALIKE = 0.6
_NO_OPTION = re.compile(
    r"([\w.+-]{1,40}): (?:\d+: )?(?:\"[^\"\n]{0,80}\": )?(?:invalid|illegal|unrecognized|unknown|extra|missing|bad) "
    r"(?:option|command|argument|operand|expression|directive|predicate|format|mode)"
)
_NO_SUCH_WORD = re.compile(
    r"no rule|unknown|missing script|no such|not found|invalid choice|unrecogni[sz]ed|does not exist|doesn't exist|"
    r"did you mean|is not a|isn't|not a valid|no task|could not find|couldn't find|did not match|error: 404",
    re.IGNORECASE,
)
_SELECTS = frozenset(
    {"-x", "--lf", "--ff", "-k", "-m", "-v", "-vv", "-q", "-s", "--maxfail", "--bail", "--verbose", "--silent", "-t"}
)
_HANDLED = frozenset({"command", "module"})  # told by `missing`


def culprit(attempt: Attempt) -> SimpleCommand | None:
    """Return the simple command that failed, or None where more than one may have."""
    fault = attempt.fault
    telling = [part for part in attempt.parts if part.program not in READERS]
    if len(telling) == 1:
        return telling[0]
    if fault is None:
        return None
    if not telling and (form := _NO_OPTION.match(fault.line)):  # a reader that refuses its own options tells, too
        return next((part for part in attempt.parts if part.program == form[1]), None)
    speaker = _SPEAKER.match(fault.line)
    named = [part for part in telling if speaker is not None and part.program == speaker[1]]
    if len(named) == 1:
        return named[0]
    for start, actions in (("E: ", {"apt-get install", "apt-get update"}), ("externally-managed", {"pip install"})):
        hit = [part for part in telling if part.action in actions and start in fault.line]
        if len(hit) == 1:
            return hit[0]
    return None


def find_repairs(row: Sequence[Attempt]) -> list[MinedLesson]:
    """Return the repairs of one run, each failure mended once."""
    found: list[MinedLesson] = []
    mended: set[tuple[str, str]] = set()
    for place, attempt in enumerate(row):
        fault = attempt.fault
        if not attempt.failed or fault is None or attempt.command is None:
            continue
        finding = (_requoted if fault.kind in _HANDLED else _shell)(place, row, fault)
        if finding is None or _undone(finding, row):
            continue
        if (finding.key, finding.text) not in mended:
            mended.add((finding.key, finding.text))
            found.append(finding)
    return found


def _undone(finding: MinedLesson, row: Sequence[Attempt]) -> bool:
    """Whether the rest of the run shows that what worked did not: it failed alike later, or its result was denied."""
    at = next((at for at, attempt in enumerate(row) if attempt.step == finding.steps[-1]), len(row))
    fixed = row[at] if at < len(row) else None
    if fixed is None:
        return False
    failed = next(attempt.fault for attempt in row if attempt.step == finding.steps[0])
    rest = row[at + 1 :]
    again = any(
        attempt.command == fixed.command
        and attempt.failed
        and attempt.fault
        and failed
        and attempt.fault.signature == failed.signature
        for attempt in rest
    )
    own = any(part.program in RUNNERS or part.program.startswith("./") for part in fixed.parts)
    return again or (own and any(denies(attempt.output) for attempt in rest[:_SOON_AFTER]))


def _shell(place: int, row: Sequence[Attempt], fault: ErrorLine) -> MinedLesson | None:
    part = culprit(row[place])
    if part is None or len(part.text) > _LONGEST or "\n" in part.text:
        return _requoted(place, row, fault)
    for offset, attempt in enumerate(row[place + 1 : place + 1 + _WINDOW], place + 1):
        if attempt.command is None or attempt.worked is None:
            continue
        refused = _NO_OPTION.match(fault.line) is not None
        same = [
            each
            for each in attempt.parts
            if _alike(part, each)
            and _only_asks(part) == _only_asks(each)  # `--help` mends nothing: what was made of it comes later
            and (
                _same_intent(part, each)
                or (refused and part.targets & each.targets)
                or _another_word(part, each, fault)
            )
        ]
        if attempt.worked is False:
            if any(same_call(each, part) for each in same):
                return None  # it failed again, whatever led to it: the next failure is looked at on its own
            continue
        same = [each for each in same if ran(attempt, each) and len(each.text) <= _LONGEST and "\n" not in each.text]
        if not same or (attempt.fault is not None and attempt.fault.signature == fault.signature):
            continue
        if same[0].typed == part.typed and not _elsewhere(row[place], part, attempt, same[0]):
            return _until(place, offset, row, part, fault)
        return _changed(place, offset, row, part, same[0], fault)
    return _requoted(place, row, fault)


def _another_word(part: SimpleCommand, fix: SimpleCommand, fault: ErrorLine) -> bool:
    """Whether the error says that a word of the call is not known, and only that word was changed."""
    out, into = _changes(part, fix)
    if (
        len(out) != 1
        or len(into) != 1
        or re.search(r"[./\\]", out[0] + into[0])
        or not _NO_SUCH_WORD.search(fault.line)
    ):
        return False
    return re.search(rf"(?<![\w-]){re.escape(out[0])}(?![\w-])", fault.line) is not None


def _alike(one: SimpleCommand, other: SimpleCommand) -> bool:
    mine, theirs = core(one), core(other)
    if same_call(one, other):
        return True
    if mine and theirs and names(mine[0], theirs[0]) and mine[0] not in RUNNERS:
        return one.verbs == other.verbs or not (one.verbs and other.verbs)
    return one.action == other.action or any({one.program, other.program} <= group for group in ALIKE)


def _same_intent(one: SimpleCommand, other: SimpleCommand) -> bool:
    if same_call(one, other):
        return True
    mine, theirs = installed(one), installed(other)
    if mine or theirs:
        return bool(mine & theirs)
    if RUNNERS & {core(one)[0], core(other)[0]}:  # the code stands in the call
        return one.arguments[:1] == other.arguments[:1] and one.arguments[:1] not in {(), ("-c",), ("-e",), ("-r",)}
    if RUNNERS & {one.program, other.program}:
        return names(core(one)[0], core(other)[0])
    return similar(one, other) or other_options(one, other)


def _elsewhere(first: Attempt, part: SimpleCommand, later: Attempt, fix: SimpleCommand) -> str:
    """Return the folder into which the later line went before the call, where the first line went nowhere."""
    return folder(later, fix) if not folder(first, part) else ""


def _other_work(one: SimpleCommand, other: SimpleCommand) -> bool:
    """Whether the later call sets something up and the failed one was to do something else with the same tool."""
    return sets_up_project(other) and core(one)[1:2] != core(other)[1:2]


def _changes(one: SimpleCommand, other: SimpleCommand) -> tuple[list[str], list[str]]:
    """Return the words that were taken out, and those that were put in, with what stands before the call."""
    out: list[str] = []
    into: list[str] = []
    matcher = difflib.SequenceMatcher(None, one.typed, other.typed, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            out += one.typed[a:b]
            into += other.typed[c:d]
    return out, into


def _changed(  # noqa: PLR0917 - what one pair is, passed by one caller
    place: int, offset: int, row: Sequence[Attempt], part: SimpleCommand, fix: SimpleCommand, fault: ErrorLine
) -> MinedLesson | None:
    if (
        (part.program in READERS and not _NO_OPTION.match(fault.line))
        or _other_work(part, fix)
        or (fault.kind == "timeout" and len(fix.text) > 120)
    ):
        return None
    out, into = _changes(part, fix)
    if (out or into) and _means_nothing(part, fix):
        return None
    goes = _elsewhere(row[place], part, row[offset], fix)
    into += ["cd", goes] if goes else []
    if not 0 < len(out) + len(into) <= _MOST_CHANGED or _only_hides(out, into):
        return None
    if not goes and not same_call(part, fix) and _is_other_work(part, fix, fault, out, into):
        return None
    tests = basename(core(part)[0]) in JUDGES
    if tests and goes == "" and not _NOT_THERE.search(fault.line) and not all(map(_OPTION.match, out + into)):
        return None  # other tests, other files to judge
    if tests and all(word.partition("=")[0] in _SELECTS for word in out + into):
        return None  # fewer tests, or another look at them
    fewer = installed(part) - installed(fix)
    if fewer and installed(fix) and not any(name in fault.line for name in fewer):
        return None  # a part of the packages came: that says nothing of the others
    if world_changed(row[place + 1 : offset]) or _wrote_first(row[offset], fix):
        return None
    if not row[place].form.strip("… .:") and not (goes or all(map(_OPTION.match, out + into))):
        return None  # without a reason other words say nothing
    shown = f"cd {goes} && {fix.text}" if goes else fix.text
    change = " ".join([*(f"-{word}" for word in out), *(f"+{word}" for word in into)])
    return _repaired(row[place], row[offset], (part.action, part.text, shown), fault, change)


def _is_other_work(
    part: SimpleCommand, fix: SimpleCommand, fault: ErrorLine, out: Sequence[str], into: Sequence[str]
) -> bool:
    """Whether the same was done to another thing: another package, test, host, record, or value of the same option.

    It is not where the error names the option or its value, or says that a word is unknown and the new one is like it.
    """
    if part.typed[:1] != fix.typed[:1] or not out or not into:
        return False
    pairs = [_value_of(words, changed) for words, changed in ((part.typed, out), (fix.typed, into))]
    (option, old), (same, new) = pairs
    if option != same or old is None or new is None:
        return False
    named = {old.casefold(), option.strip("-").casefold()} & set(re.findall(r"[\w.:/-]*\w", fault.line.casefold()))
    if option and (named or (_NUMBER.fullmatch(old) and _NUMBER.fullmatch(new))):
        return False
    if _NO_SUCH_WORD.search(fault.line) is None or re.sub(r"\d+", "", old) == re.sub(r"\d+", "", new):
        return True
    alike = difflib.SequenceMatcher(None, old.casefold(), new.casefold(), autojunk=False).ratio() >= _SPELLED_ALIKE
    return not (alike or basename(old) in new)


def _value_of(words: Sequence[str], changed: Sequence[str]) -> tuple[str, str | None]:
    """Return the option to which what was changed belongs (empty: an operand), and the value; None: an option."""
    value = " ".join(changed)
    option, joined, rest = value.partition("=")
    if joined and option.startswith("-"):
        return option, rest
    if any(map(_OPTION.match, changed)):
        return "", None
    before = words[words.index(changed[0]) - 1]
    return (before if before.startswith("-") and "=" not in before else "", value)


def _repaired(
    first: Attempt, later: Attempt, said: tuple[str, str, str], fault: ErrorLine, change: str
) -> MinedLesson | None:
    action, failed, worked = said
    if not (quotable(failed) and quotable(worked)):
        return None
    return MinedLesson(
        "repair",
        f"repair/{action}/{fault.signature}/{change}",
        f"{quoted(failed)} failed{_with(first)}; {quoted(worked)} worked.",
        (first.step, later.step),
    )


def _with(attempt: Attempt) -> str:
    return f" with {attempt.said()}" if attempt.form.strip("… .:") else ""


def _wrote_first(attempt: Attempt, part: SimpleCommand) -> bool:
    """Whether the line wrote a file before the call: that may be what mended it."""
    before = (attempt.command or "").partition(part.text)[0]
    return bool(written_files(before)) or any(map(edits_in_place, attempt.parts[: attempt.parts.index(part)]))


def _requoted(place: int, row: Sequence[Attempt], fault: ErrorLine) -> MinedLesson | None:
    """Return that the next call was the same line with other quotes or by `bash -c`, and worked."""
    first, later = row[place], next(iter(row[place + 1 : place + 2]), None)
    if later is None or not later.worked or later.fault is not None or not first.command or not later.command:
        return None
    if max(len(first.command), len(later.command)) > _LONGEST or not _QUOTES.search(later.command):
        return None
    if first.command == later.command or _bare(first.command) != _bare(later.command):
        return None
    inline = any(part.program in RUNNERS and not INLINE.isdisjoint(part.words) for part in first.parts)
    if inline and fault.kind != "shell" and not _BY_QUOTES.match(fault.line):
        return None  # code was changed, not what the shell made of it
    return _repaired(first, later, ("quotes", first.command, later.command), fault, later.command)


def _bare(line: str) -> str:
    return _QUOTES.sub("", _BY_SHELL.sub("", line))


def _only_hides(out: Sequence[str], into: Sequence[str]) -> bool:
    """Whether all that was changed is that the output is not shown."""
    return not out and all(map(_HIDES.fullmatch, into))


def _means_nothing(part: SimpleCommand, fix: SimpleCommand) -> bool:
    """Whether a change of words says nothing: another spelling of a program, another file given to a script, a look.

    An option, its value (`--workers 8`) and what stands before the call (`HOST=db`, `sudo`) do say something.
    """
    if same_call(part, fix):
        return _spelled(part) == _spelled(fix)
    if not RUNNERS & {part.program, fix.program}:
        return False
    one, other = core(part), core(fix)
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    changed = [(one, at) for tag, a, b, _, _ in matcher.get_opcodes() if tag != "equal" for at in range(a, b)]
    changed += [(other, at) for tag, _, _, c, d in matcher.get_opcodes() if tag != "equal" for at in range(c, d)]
    if any(words[at].startswith("-") for words, at in changed):
        return False
    return not all(
        at and words[at - 1].startswith("-") and words[at - 1] not in INLINE and not _FILE.search(words[at])
        for words, at in changed
    )


def _only_asks(part: SimpleCommand) -> bool:
    return not ONLY_ASKS.isdisjoint(part.words) or part.words[-1] == "-h"


def _spelled(part: SimpleCommand) -> list[str]:
    return [word if "/" in word else program_name(word) for word in part.typed]


def _writes(attempt: Attempt) -> bool:
    """Whether a call changed something other than by a command that can be named (`sed -i`, `export`)."""
    named = {basename(part.words[-1]) for part in attempt.parts if edits_in_place(part)}
    return bool(changed_files(attempt) - named) or (sets_up(attempt) and not acts(attempt))


def _until(
    place: int, offset: int, row: Sequence[Attempt], part: SimpleCommand, fault: ErrorLine
) -> MinedLesson | None:
    """The same call failed and then worked: a lesson where one command stands between, and no file was written."""
    between = [attempt for attempt in row[place + 1 : offset] if attempt.worked is not False]
    done: list[SimpleCommand] = [act for attempt in between for act in acts(attempt)]
    here = list(row[offset].parts)
    done += filter(changes_the_world, here[: [each.words for each in here].index(part.words)])
    wrote = any(attempt.command is None or _writes(attempt) for attempt in between)
    if wrote or len(done) != 1 or len(done[0].text) > _LONGEST or not quotable(done[0].text):
        return None
    act = done[0]
    if act.words == part.words or act.program in RUNNERS - {"bash"}:
        return None
    if (act.action in INSTALLERS and not installed(act)) or _is_the_work(act, part, row[:place], row[:offset]):
        return None
    return MinedLesson(
        "until",
        f"until/{part.action}/{fault.signature}/{act.action}",
        f"{quoted(part.text)} failed{_with(row[place])} until {quoted(act.text)} was run; then it worked.",
        (row[place].step, row[offset].step),
    )


_UNDOES = frozenset({"git checkout", "git restore", "git stash", "git reset", "git revert", "git apply", "git clean"})
_NOT_OURS = re.compile(
    r"(?:/usr/(?!src/)|/etc/|/opt/|/var/|~/\.)|.*(?:(?:site|dist)-packages|node_modules)/|.*\.(?:toml|cfg|ini|conf|ya?ml|"
    r"json|env|properties|gradle|kts|xml|csproj|lock|mod|npmrc)$|.*(?:Makefile|Dockerfile|Gemfile|requirements\S*\.txt)$"
)


def _is_the_work(
    act: SimpleCommand, part: SimpleCommand, earlier: Sequence[Attempt], before: Sequence[Attempt]
) -> bool:
    """Whether a command only goes on with what the run writes, or undoes it: no other run will have that to mend."""
    if act.action in _UNDOES:
        return True
    made = made_files(before)
    own = {name for attempt in earlier for name in touched_files(attempt)}
    if edits_in_place(act):
        return basename(act.words[-1]) in made | own or _NOT_OURS.match(act.words[-1]) is None
    return act.program in {"rm", "touch"} and any(basename(word) in made for word in (*part.words, *act.targets))


_FORMS = (
    ('"(" unexpected', re.compile(r"[<>]\([^()\n]{1,80}\)"), "the shell is no bash and does not know"),
    ("Bad sub", re.compile(r"\$\{[^{}\n]{0,80}[\[(\"' ][^{}\n]{0,80}\}"), "in double quotes the shell reads"),
)


def find_quoting(row: Sequence[Attempt]) -> list[MinedLesson]:
    """Return what the shell could not read, where the run shows how to say it."""
    found: dict[str, MinedLesson] = {}
    for place, attempt in enumerate(row):
        fault, command = attempt.fault, attempt.command
        if attempt.worked is not False or fault is None or command is None:
            continue
        later = [each for each in row[place + 1 : place + 1 + _SOON_AFTER] if each.worked and each.command]
        if fault.kind == "shell":
            finding = _form(attempt, command, fault, later)
        else:
            finding = _nested(attempt, command, fault, later) if fault.kind == "command" else None
        if finding is not None:
            found.setdefault(finding.key, finding)
    return list(found.values())


def _form(attempt: Attempt, command: str, fault: ErrorLine, later: Sequence[Attempt]) -> MinedLesson | None:
    for said, pattern, why in _FORMS:
        form = pattern.search(command) if said in fault.line else None
        if form is None:
            continue
        program = _before(command[: form.start()])
        for other in later:
            again = other.command or ""
            if program and re.search(rf"\b{re.escape(program)}\b", again) and not pattern.search(again):
                shown = f"{quoted(form[0].strip(), 60)} in a call of `{program}`"
                text = f"{attempt.said(80)}: {why} {shown}; without it the call worked."
                return MinedLesson("shell", f"shell/{said}", text, (attempt.step, other.step))
    return None


def _before(command: str) -> str:
    """Return the program whose arguments end here."""
    words = re.split(r"&&|[|;&\n]", re.split("[\"']", command, maxsplit=1)[0])[-1].split()
    return words[0] if words and re.fullmatch(r"[\w.+-]{2,40}", words[0]) else ""


def _nested(attempt: Attempt, command: str, fault: ErrorLine, later: Sequence[Attempt]) -> MinedLesson | None:
    if here_documents(command).count(fault.about) < 2:
        return None
    for other in later:
        again = other.command or ""
        outer = here_documents(without_heredocs(again))
        inner = [word for word in here_documents(again) if word not in outer]
        if outer and inner and written_files(again) & written_files(command):
            text = (
                f"A here-document inside another one needs an end word of its own: with `{fault.about}` for both the "
                f"shell said {attempt.said(80)}; with `{outer[0]}` and `{inner[0]}` it worked."
            )
            return MinedLesson("shell", "shell/nested here-document", text, (attempt.step, other.step))
    return None
