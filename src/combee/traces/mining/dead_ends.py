"""What never worked in a run: calls that failed again and again, and commands that did not come back.

Of a command that hung it is said what fed it, put it in the background, or wrote the file instead; where nothing
brought it back, what it waited for: a prompt at the end of its output is a question.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from posixpath import basename

from combee.redaction.orders import orders
from combee.traces.mining.attempts import Attempt, carried, places, ran, touched_files
from combee.traces.mining.faults import ErrorLine, printed
from combee.traces.mining.lesson import MinedLesson
from combee.traces.mining.missing import installed, is_name
from combee.traces.mining.programs import JUDGES, READERS, RUNNERS
from combee.traces.mining.quoting import prompt_form, quoted
from combee.traces.mining.repairs import culprit
from combee.traces.mining.shell import (
    SimpleCommand,
    call_hash,
    core,
    hash_of,
    names,
    other_options,
    similar,
    written_files,
)

_LEAST = 3
_LEAST_INSTALLS = 2
_LONGEST_SHOWN = 240
_GENERAL = frozenset({"python3", "node", "bash", "sh", "gcc", "g++", "make", "cargo", "ruby", "perl", "java"})
_SPECIFIC = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception): .*['\"`(\d]|^ERROR: .{30}|^No space left")
_TOLD = frozenset({"command", "module", "said"})
_MENDED = frozenset({"missing", "repair", "until", "shell", "hang"})


def find_dead_ends(row: Sequence[Attempt]) -> list[MinedLesson]:
    """Return the calls that a run tried again and again in vain: three times, or two ways to install one thing."""
    tried: dict[tuple[str, str], list[tuple[Attempt, str]]] = defaultdict(list)
    worked: set[str] = set()
    own_sources = False  # the run itself changed from where packages come: what then fails is its own doing
    for attempt in row:
        if attempt.worked:
            worked |= {_thing(part, name) for part in attempt.parts for name in installed(part) or ("",)}
            worked |= {basename(core(part)[0]) for part in attempt.parts}
        own_sources = own_sources or any(name.endswith((".list", ".repo")) for name in touched_files(attempt))
        part, fault = _culprit(attempt)
        if part is not None and fault is not None and not (own_sources and installed(part)) and not _moved(part, fault):
            for name in installed(part) or ("",):
                tried[_thing(part, name), fault.signature].append((attempt, part.line))
    found = [
        finding
        for (thing, sign), failures in tried.items()
        if not {thing, basename(thing)} & worked and (finding := _dead_end(thing, sign, failures)) is not None
    ]
    return sorted(found, key=lambda finding: finding.steps)


def _moved(part: SimpleCommand, fault: ErrorLine) -> bool:
    """Whether the shell looked for the program where the run itself had put it: `/repo/jdk/bin/javac: No such file`."""
    speaker, _, said = fault.line.rpartition(": ")
    path = speaker.rpartition(" ")[2]
    return said == "No such file or directory" and path.startswith("/") and basename(path) == part.words[0]


def find_unmended(row: Sequence[Attempt], handled: Sequence[MinedLesson]) -> tuple[list[MinedLesson], set[str]]:
    """Return failures of calls that the run did not write itself: of use where many runs have the very same.

    With them come the keys of those that a run got past, or may have: of those it must not be said that no run did.
    """
    told = _told(handled)
    mended = {each.steps[0] for each in handled if each.kind in _MENDED and not each.key.endswith("/asks")}
    written = {name for attempt in row if attempt.command for name in written_files(attempt.command)}
    found: dict[str, MinedLesson] = {}
    came = {
        name for attempt in row if attempt.worked is not False for part in attempt.parts for name in installed(part)
    }
    past: set[str] = set()
    where = places(row)
    for attempt in row:
        part, fault = _culprit(attempt)
        if part is None or fault is None or not is_name(part.program):
            continue
        line = part.line
        key = f"unmended/{part.program} {line.removeprefix(part.words[0]).strip()}/{fault.signature}"
        if attempt.step in told:
            past |= {key} if attempt.step in mended else set()
            continue
        packages = installed(part)
        others = (row[at] for at in where.get(basename(core(part)[0]), ()))
        if packages <= came if packages else any(_may_be_past(part, fault, other) for other in others):
            past.add(key)
        if part.fed and part.program in RUNNERS:
            continue  # what it ran stands before the pipe
        if not any(name in line for name in written) and part.program not in {"python3", "node"}:
            text = f"{quoted(line)} failed with {attempt.said()} in run after run; no run got past it that way."
            found.setdefault(key, MinedLesson("unmended", key, text, (attempt.step,), call_hash(part)))
    return list(found.values()), past


def _may_be_past(part: SimpleCommand, fault: ErrorLine, other: Attempt) -> bool:
    """Whether a call did what a failed one was to do, or may have: in another way, or inside something that runs it."""
    if other.command is None or (other.worked is False and other.fault and other.fault.signature == fault.signature):
        return False
    blamed = culprit(other) if other.worked is False else None
    name, *rest = core(part)
    for each in other.parts:
        same = each is not blamed and names(core(each)[0], name) and part.verbs == each.verbs
        if same and (similar(part, each) or set(rest) <= set(core(each))):
            return True
        if same and other_options(part, each) and ran(other, each):
            return True
    inside = carried(other, name, besides=blamed)
    return bool(inside) and (not rest or any(word in inside for word in rest))


def find_errors(row: Sequence[Attempt], handled: Sequence[MinedLesson]) -> list[MinedLesson]:
    """Return the errors that name what was wrong: of use where many runs meet the same one by different calls."""
    told = _told(handled)
    again = {(attempt.command, attempt.fault) for attempt in row if attempt.step in told}
    found: dict[str, MinedLesson] = {}
    for attempt in row:
        fault = attempt.fault
        if not attempt.failed or fault is None or (attempt.command, fault) in again or not _SPECIFIC.search(fault.line):
            continue
        if fault.kind not in {"exception", "tool", "disk"} or attempt.command is None:
            continue
        if not attempt.form.partition(": ")[2].strip("… .:") and fault.kind != "disk":
            continue  # only the name of an error is left
        if len(attempt.command) <= _LONGEST_SHOWN:
            text = f"{attempt.said()} was met in run after run, as after {quoted(attempt.command)}."
            key = f"error/{fault.line}"
            found.setdefault(key, MinedLesson("error", key, text, (attempt.step,)))
    return list(found.values())


def _told(handled: Sequence[MinedLesson]) -> set[int]:
    """Return the steps whose failure is told already; the later steps of a finding show what worked."""
    return {step for each in handled for step in (each.steps if each.kind == "dead_end" else each.steps[:1])}


def said_once(by_trace: Mapping[str, tuple[MinedLesson, ...]]) -> dict[str, tuple[MinedLesson, ...]]:
    """Say once what several lessons have in common.

    Installs of many kinds that the time limit killed are one lesson; a dead end that only one run came to is none where
    many runs met the same fault of the same program.
    """
    runs = Counter(key for found in by_trace.values() for key in {each.key for each in found})
    unmended = {each.key for found in by_trace.values() for each in found if each.kind == "unmended"}
    often = {(key.split("/")[1].split()[0], key.rpartition("/")[2]) for key in unmended}
    killed = {each for found in by_trace.values() for each in found if _is_killed_install(each, runs[each.key])}
    lines = sorted({line for each in killed for line in _INSTALL.findall(each.text)[:1]})
    one = (
        f"Installs that were killed by the time limit in run after run and never came through: {', '.join(lines[:6])}"
        f"{' and others' if len(lines) > 6 else ''}."
    )
    out = {}
    for name, found in by_trace.items():
        mine = [each for each in found if len(lines) >= _LEAST and each in killed]
        ends = {each.key for each in found if each.kind == "dead_end" and runs[each.key] == 1}
        told = {key for key in ends if _is_met_often(key, often)}
        kept = (each for each in found if each not in mine and each.key not in told)
        out[name] = (*kept, *(MinedLesson("unmended", "unmended/installs", one, each.steps) for each in mine[:1]))
    return out


_INSTALL = re.compile(r"`[^`]* (?:install|add) [^`]*`")


def _is_killed_install(finding: MinedLesson, runs: int) -> bool:
    alone = finding.kind == "dead_end" and runs == 1
    killed = (finding.kind == "unmended" or alone) and "timed out and was killed" in finding.text
    return killed and (" install " in finding.key or " add " in finding.key)


def _is_met_often(key: str, often: set[tuple[str, str]]) -> bool:
    """Whether a dead end (`dead end/PROGRAM .../FAULT`) is one that many runs met."""
    thing, _, fault = key.removeprefix("dead end/").rpartition("/")
    return (thing.split()[0], fault) in often


def _culprit(attempt: Attempt) -> tuple[SimpleCommand | None, ErrorLine | None]:
    fault = attempt.fault
    if not attempt.failed or fault is None or fault.kind in _TOLD:
        return None, None
    part = culprit(attempt)
    if part is None or len(part.text) > 160 or "\n" in part.text or part.program in READERS:
        return None, None
    return part, fault


def _thing(part: SimpleCommand, package: str) -> str:
    return f"{part.action} {package}".strip()


def _dead_end(thing: str, sign: str, failures: Sequence[tuple[Attempt, str]]) -> MinedLesson | None:
    texts = list(dict.fromkeys(text for _, text in failures))
    fault = failures[-1][0].fault
    judged = {basename(word) for each, _ in failures[:1] for part in each.parts for word in core(part)[:2]} & JUDGES
    if judged and fault is not None and fault.kind not in {"timeout", "disk", "managed"}:
        return None  # the work is not done yet
    package = thing.rpartition(" ")[2] if any(installed(part) for part in failures[0][0].parts) else ""
    alone = [text for attempt, text in failures for part in attempt.parts if installed(part) == {package}]
    enough = bool(alone) and len(texts) >= _LEAST_INSTALLS if package else len(failures) >= _LEAST
    if not enough or fault is None or (not package and thing.split(maxsplit=1)[0] in _GENERAL):
        return None
    variants = ", then ".join(dict.fromkeys(quoted(text, 90) for text in [*alone, *texts][:1] + texts[-2:]))
    what = f"installing `{package}` with `{thing.rpartition(' ')[0]}`" if package else f"`{thing}`"
    times = "twice or more" if package else "three times or more"
    said = failures[-1][0].said(120)
    text = f"A dead end: {what}, tried {times} in one run, failed each time with {said} ({variants})."
    steps = tuple(attempt.step for attempt, _ in failures)
    return MinedLesson("dead_end", f"dead end/{thing}/{sign}", text, steps, quotes=(said, variants))


_WINDOW = 12
_FEEDERS = ("echo ", "printf ", "yes", "cat ")
_EDITORS = frozenset({"vim", "vi", "nvim", "nano", "emacs", "pico", "joe"})
_PROMPT = re.compile(
    r"(?:^|\n)((?:>|>>>|\?)|[^\n]{0,120}(?:\[y/n\]|\(y/n\)|\(yes/no(?:/\[\w+\])?\)\??|password(?: for \w+)?:|"
    r"passphrase[^\n:]{0,60}:|press (?:enter|any key)[^\n]{0,40}))\s*\Z",
    re.IGNORECASE,
)


def find_hangs(row: Sequence[Attempt]) -> list[MinedLesson]:
    """Return the commands that timed out, and how the same program came back later in the run or what it waited for."""
    found: dict[str, MinedLesson] = {}
    for place, attempt in enumerate(row):
        part = _hung(attempt)
        if part is None or part.fed or len(part.text) > 120:
            continue
        later = row[place + 1 : place + 1 + _WINDOW]
        finding = next((each for other in later if (each := _came_back(part, attempt, other))), None)
        finding = finding or _asked(part, attempt)
        if finding is not None:
            found.setdefault(finding.key, finding)
    return list(found.values())


def find_slow(row: Sequence[Attempt], task: str, handled: Sequence[MinedLesson]) -> list[MinedLesson]:
    """Return the first own script that the time limit killed: of use where the runs of a task share it."""
    if (
        not task
        or orders(task.replace("-", " ").replace("_", " "))
        or any(finding.kind == "hang" for finding in handled)
    ):
        return []  # a script that talks to what hangs is not slow
    written: set[str] = set()
    for attempt in row:
        part = _hung(attempt)
        if part is not None:
            script = next((word for word in part.arguments if word.rpartition("/")[2] in written), None)
            if part.program in RUNNERS and script is not None and len(part.text) <= 80:
                text = (
                    f"In the task {quoted(task, 80)}, scripts that the agent wrote were killed by the time limit in "
                    f"run after run (as {quoted(part.line)}): they need less work, or the background."
                )
                return [MinedLesson("slow", f"slow/{task}", text, (attempt.step,))]
        written |= written_files(attempt.command or "")
    return []


def _hung(attempt: Attempt) -> SimpleCommand | None:
    fault = attempt.fault
    part = culprit(attempt) if fault is not None and fault.kind == "timeout" else None
    return None if part is None or "\n" in part.text else part


def _asked(part: SimpleCommand, attempt: Attempt) -> MinedLesson | None:
    prompt = _PROMPT.search(printed(attempt.output)[-400:])
    if prompt is None:
        return None
    asked = quoted(prompt_form(prompt[1]), 80)
    text = f"{quoted(part.line)} asks for input and was killed by the time limit at its prompt {asked}."
    return MinedLesson("hang", f"hang/{part.line}/asks", text, (attempt.step,))


def _came_back(part: SimpleCommand, first: Attempt, later: Attempt) -> MinedLesson | None:
    if not later.worked or later.fault is not None:
        return None
    steps = (first.step, later.step)
    line = part.line
    if part.program in _EDITORS:
        return _written(part, later, steps)
    for each in later.parts:
        if each.program != part.program or each.arguments[:1] != part.arguments[:1]:
            continue
        if part.background:
            if each.background and ">" in each.text and ">" not in part.text and len(each.text) <= 160:
                text = (
                    f"{quoted(f'{part.text} &')} timed out although it was put in the background: its output still "
                    f"held the call. With the output in a file it returned: {quoted(f'{each.text} &')}."
                )
                return MinedLesson("hang", "hang/background output", text, steps)
            continue
        if each.fed.startswith(_FEEDERS) and len(each.fed) + len(each.text) <= 160:
            shown = quoted(f"{each.fed} | {each.text}")
            text = f"{quoted(line)} waits for input and timed out; fed by a pipe it came back: {shown}."
            return MinedLesson("hang", f"hang/{line}/fed", text, steps, line=hash_of(part.program))
        if each.background and len(each.text) <= 160:
            shown = quoted(f"{each.text} &")
            text = f"{quoted(line)} does not return and timed out; in the background the run could go on: {shown}."
            return MinedLesson("hang", f"hang/{line}/background", text, steps)
    return None


def _written(editor: SimpleCommand, later: Attempt, steps: tuple[int, int]) -> MinedLesson | None:
    """Return that a file was written without the editor that waited for a terminal."""
    command = later.command or ""
    if not any(name.rpartition("/")[2] in written_files(command) for name in editor.targets):
        return None
    text = (
        f"{quoted(editor.line)} waits for a terminal and was killed by the time limit; "
        f"{quoted(command.splitlines()[0], 80)} wrote the file."
    )
    return MinedLesson("hang", f"hang/{editor.program}/written", text, steps)
