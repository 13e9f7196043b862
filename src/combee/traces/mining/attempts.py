"""A trace as a row of attempts: what was called, whether it worked, what went wrong, and what it changed.

A call whose result is not recorded, or whose result does not say how it ended, is an attempt of unknown end.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from posixpath import basename

from combee.redaction import Step, ToolCall, Trace, failed
from combee.traces.mining.faults import (
    ErrorLine,
    fault_of,
    last_line,
    own_fault,
    printed,
    reply_error,
    said_shortly,
    unwrapped,
)
from combee.traces.mining.programs import CARRIERS, LOOKING, ONLY_ASKS, READERS
from combee.traces.mining.quoting import error_form, is_identifier, own_words, quoted
from combee.traces.mining.shell import SimpleCommand, core, parts, same_call, without_heredocs, written_files

LOOKS = re.compile(
    r"(?!.*(?:replace|write|edit|insert))(?:[\w-]{1,40}?(?:__|[./:])){0,3}"
    r"(?:(?i:read|open|view|cat|show|grep|search|find|list|glob|get|fetch)(?![a-z])|(?i:ls)$)"
)
"""Tools that are no shell and only show something, by the beginning of their names (after a server's: `mcp__fs__`)."""

_SHELL = re.compile(
    r"(?:[\w-]{1,40}(?:__|[./:])){0,3}(?:bash|shell|terminal|exec|execute_bash|run_command|run_shell_command|local_shell|"
    r"swe_agent_action|command|run_terminal_cmd|run_in_terminal|computer_terminal|cmd|exec_command|shell_command|"
    r"execute_command|run_bash_command|bash_tool|execute_shell_command|unified_exec|run_shell|bash_command)",
    re.IGNORECASE,
)
_KEYS = ("command", "cmd", "raw_action", "script", "code_block")
_EXIT = re.compile(  # a code ends its line; "exit status 1 if it differs" is a manual speaking
    r"<returncode>\s*(-?\d+)|(?:exit(?:ed with)? code|Exit code|exit status|exited with code)[:\s]{1,3}(-?\d+)"
    r"(?=[\].)}\"',;: ]{0,3}$| (?:in|after) \d| \()",
    re.MULTILINE,
)
_LONGEST = 20_000
_DENIED_IN = 4_000
_DENIES = re.compile(
    r"^[^\w\n]{0,6}(?:[\w ]{0,30}\b(?:match(?:es|ed|ing)?|equals?|identical|success(?:ful(?:ly)?)?|succeeded|valid|"
    r"passed|pass|ok|correct|verified|works?|solved|same)\s*[:=]+\s*(?:false|no|not|fail(?:ed|ure)?|error|invalid|"
    r"incorrect|wrong|0|none|mismatch)\b[^\w\n]*$|"
    r"(?:FAIL|FAILED|FAILURE|MISMATCH|NOT OK|WRONG(?: ANSWER)?|INCORRECT)\b(?!\w)|not ok \d)|^\s*[✗✘❌]|"
    r"\b[1-9]\d{0,5} (?:failed|failing|failures?)\b",
    re.IGNORECASE | re.MULTILINE,
)
_SHORT = 30
_LAST_LINES = 3
_NUMBERED = re.compile(r"^[^\S\n]*\d+[:|→\t].*\n?", re.MULTILINE)
_EDIT = re.compile(r"edit (\d+):(\d+)\n")
_STOPS = frozenset({"exception", "module", "command", "shell", "syntax"})
_STARTS_AN_AGENT = re.compile(
    r"(?:\w+=\S*\s+)*(?:[\w./-]*/)?"
    r"(?:mini|openhands|claude|codex|aider|goose|gemini|python3? -m openhands\.core\.main)\s"
)


@dataclass(frozen=True)
class Attempt:
    """One call and its result. `command` is set for shells; `worked` is None where nothing tells how it ended."""

    step: int
    tool: str
    arguments: str
    command: str | None
    output: str
    worked: bool | None
    agent: str | None = None

    @cached_property
    def fault(self) -> ErrorLine | None:
        """What the output says went wrong; an output can hold one although the call as a whole worked."""
        found = _fault(self.output, self.command)
        if found is not None and self.command is not None and _only_shows(self.command, found):
            return None
        if found is not None or self.worked is not False:
            return found
        if self.command is None:
            return said_shortly(self.output, first=True)
        if self.parts and {part.program for part in self.parts} <= READERS:
            return last_line(self.output)  # what they show is no word of theirs
        return last_line(self.output) or said_shortly(self.output)

    @cached_property
    def parts(self) -> tuple[SimpleCommand, ...]:
        """The simple commands of a shell call."""
        return parts(self.command) if self.command is not None else ()

    @cached_property
    def fields(self) -> dict[str, str]:
        """The arguments of a call of another tool, as texts by name."""
        edit = _edit(self.arguments)
        if edit is not None:  # SWE-agent's command, as its function of the same name has it
            body = edit.string[edit.end() :].rstrip().removesuffix("\nend_of_edit")
            return {"replacement_text": body, "start_line": edit[1], "end_line": edit[2]}
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return {"": self.arguments}
        if not isinstance(value, dict):
            return {"": self.arguments}
        return {str(key): item if isinstance(item, str) else json.dumps(item) for key, item in value.items()}

    @cached_property
    def own(self) -> frozenset[str]:
        """The words of the call itself: what the agent wrote."""
        return own_words((self.tool, self.arguments) if self.command is None else (self.command,))

    @property
    def form(self) -> str:
        """What of the error may be quoted."""
        if self.fault is None:
            return ""
        about = self.fault.about
        return error_form(
            self.fault.line, self.own | {about.casefold()} if about and is_identifier(about) else self.own
        )

    def said(self, limit: int = 160) -> str:
        """Return what of the error may be quoted, as inline code."""
        return quoted(self.form, limit)

    @property
    def failed(self) -> bool:
        """Whether it surely failed, and says why."""
        return self.worked is False and self.fault is not None


def attempts(trace: Trace) -> tuple[Attempt, ...]:
    """Return the calls of a trace with their results, in order."""
    answers: dict[str, Step] = {}
    for step in trace.steps:
        if step.answers is not None:
            answers.setdefault(step.answers, step)
    return tuple(_attempts(trace, answers))


def failed_calls(trace: Trace) -> int:
    """Return how many calls of a trace surely failed: the same rule by which lessons are found."""
    return sum(attempt.worked is False for attempt in attempts(trace))


def _attempts(trace: Trace, answers: dict[str, Step]) -> Iterator[Attempt]:
    used: dict[str, int] = {}
    for place, step in enumerate(trace.steps):
        for call in step.tool_calls if step.role == "assistant" else ():
            result = answers.get(call.id) if call.id else None
            if result is None or used.get(call.id, step.index) != step.index or result.index < step.index:
                # ids that are used again (seen in recorded runs): the result is the next step that answers
                result = next((s for s in trace.steps[place + 1 : place + 3] if s.answers == call.id), None)
            used[call.id] = step.index
            command = _command(call)
            if command is not None and _STARTS_AN_AGENT.match(command.strip()):
                continue  # the line that starts the recorded agent itself
            output, code = ("", None) if result is None else unwrapped(result.text[-_LONGEST:])
            command = command and command[:_LONGEST]
            tool = "edit" if command is None and _edit(call.arguments) is not None else call.name
            worked = None if result is None else _worked(result, command, tool, code)
            yield Attempt(step.index, tool, call.arguments[:_LONGEST], command, output, worked, step.agent)


def _edit(arguments: str) -> re.Match[str] | None:
    """Return SWE-agent's command to edit lines of the open file (`edit 3:5`), where a call is one."""
    if "edit " not in arguments[:60]:
        return None
    text = arguments.lstrip()
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        text = next((str(value[key]) for key in _KEYS if key in value), "") if isinstance(value, dict) else ""
    return _EDIT.match(text)


def _command(call: ToolCall) -> str | None:
    """Return the command line of a call, or None where the tool is no shell."""
    text = call.arguments.strip()
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        found = next((value[key] for key in _KEYS if key in value), None) if isinstance(value, dict) else None
        if isinstance(found, list) and all(isinstance(word, str) for word in found):
            found = found[-1] if found[:2] in (["bash", "-lc"], ["bash", "-c"], ["sh", "-c"]) else " ".join(found)
        known = _SHELL.fullmatch(call.name) is not None
        wanted = known or (isinstance(value, dict) and not {"command", "cmd"}.isdisjoint(value) and "path" not in value)
        return found if isinstance(found, str) and wanted and not _EDIT.match(found) else None
    if _EDIT.match(text):
        return None
    return text if _SHELL.fullmatch(call.name) else None


def _fault(output: str, command: str | None) -> ErrorLine | None:
    found = fault_of(output)
    if found is None and command is not None:
        return own_fault(output, {basename(word) for part in parts(command) for word in part.words[:2]})
    return found


def _worked(result: Step, command: str | None, tool: str, code_beside: int | None) -> bool | None:
    """Return how a call ended: by the recorded flag, an exit code, or the sign of a failure in the output."""
    said = None if result.is_error is None else not result.is_error
    if said is None and code_beside is not None:
        said = code_beside == 0
    if said is None:
        ends = result.text if len(result.text) <= 800 else f"{result.text[:400]}\n{result.text[-400:]}"
        code = next((match[1] or match[2] for match in _EXIT.finditer(ends)), None)
        said = None if code is None else code == "0"
    if said is not None:
        return None if said and command is not None and denies(result.text) else said
    told = _NUMBERED.sub("", result.text)  # the lines of a file that a tool shows are not its own words
    found = _fault(told, command)
    if found is None:
        return None if failed(replace(result, text=told)) else True
    if told.count("\n") > _SHORT and found.kind != "timeout" and not _ends_with(told, found):
        return None  # a long output may hold any text
    if command is None:  # a tool that reads says first that it could not; what comes later is what it read
        first = found.line in " ".join(told.split())[: 2 * len(found.line)] or reply_error(told)[1]
        return None if LOOKS.match(tool) and not first else False
    return None if _only_shows(command, found) else False


def denies(output: str) -> bool:
    """Whether an output says that what was asked for is not so, whatever the exit code: `Match: False`, `2 failed`."""
    return _DENIES.search(output[-_DENIED_IN:]) is not None


def _ends_with(output: str, fault: ErrorLine) -> bool:
    """Whether a fault of a kind that stops a program stands at the end of an output."""
    last = [" ".join(line.split()) for line in printed(output).rstrip().splitlines()[-_LAST_LINES:]]
    return fault.kind in _STOPS and fault.line in last


def _only_shows(command: str, fault: ErrorLine) -> bool:
    """Whether a call only shows texts (`cat`, `grep`), and the fault is not its own but stands in what it shows."""
    programs = {part.program for part in parts(command)}
    speaker = _SPEAKS.match(fault.line)
    own = speaker is not None and speaker[1] in programs
    return bool(programs) and programs <= READERS and not own and fault.kind not in {"timeout", "shell"}


_SPEAKS = re.compile(r"(?:\S*sh: (?:line )?(?:\d+: )?)?([^\s:]+): ")
_IN_PLACE = re.compile(r"-[nErsuz]*i.*|--in-place(?:=.*)?")
_PATHS = ("path", "file_path", "filename")
_SETS_UP = re.compile(
    r"\b(?:source|activate|export|declare|conda|mamba|micromamba|venv|virtualenv|pip[\d.]*|pipx|pipenv|poetry|uv|pyenv|"
    r"easy_install|apt|apt-get|yum|dnf|apk|brew|npm|yarn|pnpm|setup\.py|make install|site-packages|\w*PATH=)"
    r"(?![\w-])|(?<![=/])\bPATH=|(?:^|[;&|(]\s?)\.[ \t]",
    re.MULTILINE,
)
_GOES = re.compile(r"\s*cd(?:[ \t]+[^\s;&|]+)?\s*")
_CHANGERS = frozenset({"mkdir", "touch", "chmod", "chown", "rm", "cp", "mv", "ln", "export", "source", "kill", "pkill"})


def edits_in_place(part: SimpleCommand) -> bool:
    """Whether a command is a `sed` that writes the file; without `-i` it only reads it."""
    return part.program == "sed" and any(map(_IN_PLACE.fullmatch, part.arguments))


def changed_files(attempt: Attempt) -> set[str]:
    """Return the base names of the files that a call wrote, by a shell or by a tool that edits."""
    if attempt.worked is False:
        return set()
    if attempt.command is not None:
        edited = {basename(part.words[-1]) for part in attempt.parts if edits_in_place(part)}
        teed = {basename(word) for part in attempt.parts if part.program == "tee" for word in part.targets}
        return edited | teed | written_files(attempt.command)
    if LOOKS.match(attempt.tool) or attempt.fields.get("command") == "view":
        return set()
    path = next((attempt.fields[key] for key in _PATHS if key in attempt.fields), None)
    if path is not None:
        return {basename(path)}
    return {"the open file"} if "text" in attempt.fields else set()


def touched_files(attempt: Attempt) -> set[str]:
    """Return the base names of the files that a call wrote, or may have before something else in it failed."""
    if attempt.command is None:
        return changed_files(attempt)
    return changed_files(replace(attempt, worked=None))


def made_files(row: Sequence[Attempt]) -> set[str]:
    """Return the base names of the files that calls made: of a run's own scripts it is not said what they need."""
    made: set[str] = set()
    for attempt in row:
        if attempt.command is not None:
            made |= written_files(attempt.command)
            made |= {basename(part.words[-1]) for part in attempt.parts if part.program == "create"}  # SWE-agent's
        elif {"content", "file_text"} & attempt.fields.keys():
            made |= {basename(attempt.fields[key]) for key in _PATHS if key in attempt.fields}
    return made


def sets_up(attempt: Attempt) -> bool:
    """Whether a call may make later calls work by itself: it installs, sets a variable, or goes to another folder."""
    command = attempt.command
    if command is None:
        return False
    return _SETS_UP.search(without_heredocs(command)) is not None or _GOES.fullmatch(command) is not None


def changes_the_world(part: SimpleCommand) -> bool:
    """Whether a command may change something: it is none that only looks."""
    if edits_in_place(part) or part.program not in READERS:
        return not only_looks(part)
    return part.program in _CHANGERS


def only_looks(part: SimpleCommand) -> bool:
    """Whether a program that may do much is only asked: `docker compose ps`, `git status`, `kubectl get --help`."""
    words = core(part)
    if words[1:] and words[-1] in {"--help", "--usage", "-h"}:
        return True
    asked = LOOKING.get(basename(words[0]) if words else "", frozenset())
    verbs = [word for word in words[1:4] if not word.startswith("-")]
    return (bool(asked) and bool(verbs) and verbs[0] in asked) or (not verbs and not ONLY_ASKS.isdisjoint(words))


def acts(attempt: Attempt) -> list[SimpleCommand]:
    """Return the commands of a call that may change something."""
    return [part for part in attempt.parts if changes_the_world(part)]


def world_changed(between: Sequence[Attempt]) -> bool:
    """Whether something other than the next call may have mended it; of several commands the first may have worked."""
    return any(
        len(acts(attempt)) > 1
        or (attempt.worked is not False and (acts(attempt) or changed_files(attempt) or sets_up(attempt)))
        for attempt in between
    )


_WORD = re.compile(r"[\w.+-]+")
# What a shell runs from within a line: `$(...)`, backticks, `(...)`, `{ ...; }`, `! ...`, a function, `$PROGRAM`.
_RUN_WITHIN = re.compile(r"\$\(|`|\)\s*\{|(?:^|[;&|\n])\s*(?:[({!]|\$[\w{])")
_READ = 4000  # of a longer line not all parts are known


def ran(attempt: Attempt, part: SimpleCommand) -> bool:
    """Whether a part of a call that worked did so itself: its end is the call's, or a pipe shows only what it said."""
    return part.sure or (
        attempt.fault is None
        and bool(printed(attempt.output).strip())
        and not failed(Step(0, "tool", attempt.output))
        and any(each.fed == part.text and each.sure for each in attempt.parts)
    )


def carried(attempt: Attempt, program: str, *, besides: SimpleCommand | None = None) -> str:
    """Return the text of a call in which another program may run one (`su -c`, a loop); empty where it is not named.

    `besides` is a part that surely failed.
    """
    inside = _carries(attempt, besides)
    return inside if inside and _names(inside, basename(program)) else ""


def _names(text: str, name: str) -> bool:
    """Whether a text holds a name as a word of its own; a path before it is one."""
    at = text.find(name) if name else -1
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before in {"_", ".", "-"}) and not (after.isalnum() or after in {"_", "-"}):
            return True
        at = text.find(name, at + 1)
    return False


def _carries(attempt: Attempt, besides: SimpleCommand | None = None) -> str:
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


def folder(attempt: Attempt, part: SimpleCommand) -> str:
    """Return the folder into which the line goes before a part of it; empty where it goes nowhere."""
    found = ""
    for each in attempt.parts:
        if each is part:
            break
        if each.program == "cd" and len(each.words) == 2:
            found = each.words[1]
    return found


def in_another_way(first: Attempt, part: SimpleCommand, later: Attempt) -> tuple[SimpleCommand, str] | None:
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
