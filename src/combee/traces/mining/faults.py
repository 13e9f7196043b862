"""What a failed call says went wrong: one line, its kind, what it is about, and a signature that runs share.

Only lines of known shape are errors. Of a result that is one JSON value only its own top says whether the call
failed: an `error` deep in what a tool found, or in a record that it shows, is data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_LONGEST = 20_000
_CODES = ("exit_code", "exitCode", "returncode", "return_code")
_PRINTED = ("output", "stdout", "stderr")
_SAYS = ("message", "msg", "detail", "reason", "description", "text", "type", "code")
_SHOWS_A_RECORD = frozenset({"id", "level"})
_OF_ERRORS = frozenset({"error", "errors", "details", "detail", "content"})
_NOTHING = re.compile(r"\W*(?:none|null|nil|no|no errors?|0 errors?|ok|success|false|n/?a|0)?\W*", re.IGNORECASE)


def reply_error(text: str) -> tuple[bool, str]:
    """Return whether a text is one JSON value, and what it says went wrong (empty where it says nothing of that)."""
    value = _json(text)
    if not isinstance(value, dict):
        return isinstance(value, list), ""
    said = _error(value)
    line = " ".join(text.split())
    return True, line if said and set(value) <= {"error"} and isinstance(value["error"], str) else said


def unwrapped(text: str) -> tuple[str, int | None]:
    """Return what a command printed and its exit code, where a result is an object that holds both."""
    value = _json(text)
    if not isinstance(value, dict):
        return text, None
    codes = (value.get(key) for key in _CODES)
    code = next((each for each in codes if isinstance(each, int) and not isinstance(each, bool)), None)
    if code is None or not any(isinstance(value.get(key), str) for key in _PRINTED):
        return text, None
    return "\n".join(each for key in _PRINTED if isinstance(each := value.get(key), str) and each), code


def _json(text: str) -> object:
    text = text.strip()
    if not text.startswith(("{", "[")) or not text.endswith(("}", "]")) or len(text) > _LONGEST:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _error(value: dict[str, object]) -> str:
    if value.get("success") is True or value.get("ok") is True or _SHOWS_A_RECORD & value.keys():
        return ""
    if any(isinstance(each, list | dict) and each for key, each in value.items() if key not in _OF_ERRORS):
        return ""  # it brought something
    said = _words(value.get("error")) or _words(value.get("errors"))
    marked = value.get("success") is False or value.get("ok") is False or value.get("status") == "error"
    marked = marked or value.get("error") is True or value.get("isError") is True or value.get("is_error") is True
    return said or (_words({**value, "code": None, "type": None}) or _words(value.get("content")) if marked else "")


def _words(value: object, depth: int = 0) -> str:
    """Return an error in words: a text, the message of an object, or the first of a list."""
    if isinstance(value, str):
        line = " ".join(value.split())
        return "" if _NOTHING.fullmatch(line) else line
    if isinstance(value, dict) and depth < 3:
        return next(filter(None, (_words(value.get(key), depth + 1) for key in _SAYS)), "")
    if isinstance(value, list) and value and depth < 3:
        return _words(value[0], depth + 1)
    return ""


_OUTPUT = re.compile(r"<output>\n?(.*?)(?:</output>|\Z)", re.DOTALL)
_SEARCHED = 20_000
_SAYS_SOMETHING = r"(?!\W*(?:(?:none|null|false|ok)\W*$|(?:no|0) errors?\b))(?=.*(?:[A-Za-z]{2}|[^\x00-\x7f]))"
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "disk",
        re.compile(
            r"^(?:(?:[^\n]{0,200}: )?\[Errno 28\] |(?:error|fatal|[\w.]*(?:Error|Exception)): |E: [^\n]{0,200}\(28: |"
            r"[\w./+-]{1,80}: [^\n]{1,200}: |[^\n]{0,200}: (?=No space left on device \(os error))"
            r"(?P<said>No space left on device)(?=\)?$|: | \()",
            re.MULTILINE,
        ),
    ),
    (
        "shell",
        re.compile(
            r"^(?:[\w/.-]*sh: (?:-c: )?(?:line )?\d+: )(?:[Ss]yntax error.*|Bad substitution)$", re.MULTILINE
        ),
    ),
    (
        "command",
        re.compile(
            r"^(?:[\w/.-]*sh: (?:line \d+: |\d+: )?|\S+: line \d+: |\S+: \d+: )(?P<about>[\w./+-]{1,60}): "
            r"(?:command )?not found$",
            re.MULTILINE,
        ),
    ),
    (
        "module",
        re.compile(
            r"^(?:(?:[^\n]{0,58}?: )?No module named ['\"]?(?P<about>[\w.]{1,60})['\"]?(?=$|[;:,.)\s]).*|[^\n]{0,60}?"
            r"\brequires the (?P<library>\w{1,60}) library but it was not found\b.*)$",
            re.MULTILINE,
        ),
    ),
    ("managed", re.compile(r"^error: externally-managed-environment\b.*$", re.MULTILINE)),
    ("syntax", re.compile(r"^-? ?[EF]\d{3} \w*Error: .+$", re.MULTILINE)),
    (
        "exception",
        re.compile(
            r"^(?:E {2,8})?(?P<said>(?:(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)|"
            r"[a-z]\w*(?:\.\w+)*\.[A-Z]\w+): .+)$",
            re.MULTILINE,
        ),
    ),
    ("compiler", re.compile(r"^[^\s:]{1,120}:\d+:(?:\d+:)? (?:fatal )?error: .+$", re.MULTILINE)),
    ("compiler", re.compile(r"^.{0,200}\bundefined reference to .+$", re.MULTILINE)),
    ("compiler", re.compile(rf"^error(?:\[E\d+\])?: {_SAYS_SOMETHING}.+$", re.MULTILINE)),
    ("tool", re.compile(r"^E: .+$", re.MULTILINE)),
    ("tool", re.compile(r"^[\w./+-]{1,80}: (?:fatal )?error: .+$", re.MULTILINE)),
    ("tool", re.compile(r"^npm (?:ERR!|error) (?!(?:code|errno|syscall|path|dest|A complete) ).*\w.*$", re.MULTILINE)),
    (
        "tool",
        re.compile(rf"^(?:fatal|FATAL(?: ERROR)?|ERROR|Error|error|make): {_SAYS_SOMETHING}.*$", re.MULTILINE),
    ),
    ("tool", re.compile(r"^.{0,60}?An error occurred \(\w+\).*$", re.MULTILINE)),
    (
        "tool",
        re.compile(r"^.{0,120}?(?P<said>\"error\": ?\"(?!none\"|null\")(?:[^\"\\\n]|\\.){3,300}\")", re.MULTILINE),
    ),
    ("tool", re.compile(r"^[\w./+-]{1,40}: (?:error: )?.{0,120}?(?:No such file or directory|[Pp]ermission denied|"
                        r"[Cc]onnection refused|invalid|unrecognized|unknown|[Cc]annot|[Cc]ould not|[Uu]nable to|"
                        r"not (?:found|an?|installed|supported|permitted)\b|failed|missing|unexpected).*$",
                        re.MULTILINE)),
    ("tool", re.compile(r"^(?:Unable to|Cannot|Could not|Can't|Failed to|Invalid|Unknown|Unrecognized|Permission "
                        r"denied|Connection refused|CONFLICT|Missing|No such)\b.{3,}$", re.MULTILINE)),
)  # fmt: skip
_NEEDLES: tuple[tuple[str, ...], ...] = (
    ("No space left on device",), ("yntax error", "Bad substitution"), ("not found",),
    ("No module named", "requires the"), ("externally-managed",), ("Error: ",), (": ",), ("error: ",),
    ("undefined reference",), ("error",), ("E: ",), ("error: ",), ("npm ",),
    ("fatal", "FATAL", "ERROR", "Error", "error", "make: "), ("An error occurred",), ('"error":',), (": ",),
    ("Unable to", "Cannot", "Could not", "Can't", "Failed to", "Invalid", "Unknown", "Unrecognized", "Permission",
     "Connection refused", "CONFLICT", "Missing", "No such"),
)  # fmt: skip
"""Of each kind in its order: literals of which one stands in whatever its pattern finds."""
_TIMEOUT = re.compile(
    r"\A\s*The last command <command>.*?</command>\s+timed\s+out\s+and\s+has\s+been\s+killed", re.DOTALL
)
_TIMED_OUT = re.compile(
    r"^\W{0,3}(?:(?:Execution )?Error: )?(?:(?:the |your )?(?:last |bash |shell |tool |script |code )?"
    r"(?:command|execution|process|call|script|program)\b(?: ?\W?[\"'`<(\[][^\n]{0,200}?[\"'`\])>])? ?"
    r"(?:timed[- ]out\b|exceeded the time|(?:was|has been) (?:killed|cancell?ed|terminated|interrupted|aborted) "
    r"(?:because it (?:took|ran)|after|due to (?:a )?timeout))|timed out: bash has not returned\b)",
    re.MULTILINE | re.IGNORECASE,
)
"""How harnesses say that they killed a call; a program's own `Connection timed out` is an error of its own."""
_IN_ITS_NAME = re.compile(
    r"^([\w.+-]{2,40})(?:\[\d+\])?:? (?i:fatal |fatal error|error): .*[A-Za-z]{3}.*$", re.MULTILINE
)
_SHORT_OUTPUT = 8  # lines
_EXIT_LINE = re.compile(r"^(?:Error: )?(?:Exit code|exit code|Process exited with code|exit status):? -?\d+\s*$")
_EXIT_END = re.compile(r"\n(?:Exit code|exit code|Process exited with code|exit status):? -?\d+\s*\Z")
_LAST_LINE = re.compile(
    r"\b(?:error|fail(?:ed|ure)?|cannot|can't|unable|invalid|denied|not found|missing|undefined|unknown|unrecognized|"
    r"no such|refused|conflict)\b",
    re.IGNORECASE,
)
_BANNER = re.compile(r"^\s*([=\-_*#~+])\1{2,}.*|.*([=\-_*#~])\2{3,}\s*$")  # a rule, a headline, a summary between rules
_LAST = frozenset({"exception"})  # of these the last line counts: it ends the trace of calls
_NOISE = re.compile(
    r"^\s*\d+:|pip's dependency resolver|^debconf:|LiteLLM|litellm|DeprecationWarning|^Traceback|^WARNING|^warning:",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """`line` is quoted as it stands; `about` names the missing command or module where the kind has one."""

    kind: str
    line: str
    about: str = ""

    @property
    def signature(self) -> str:
        """What the same fault of other runs has in common with this one."""
        return f"{self.kind}:{self.about or signature(self.line)}"


def signature(line: str) -> str:
    """Return the line without what differs from run to run: numbers, paths, quoted names, addresses."""
    line = re.sub(r"https?://\S+", "URL", line)
    line = re.sub(r"(?:/[\w.+-]+){2,}/?", "PATH", line)
    line = re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b", "HEX", line, flags=re.IGNORECASE)
    line = re.sub(r"\d+", "0", line)
    return " ".join(line.casefold().split())


def printed(output: str) -> str:
    """Return what the command itself printed, without what a harness wraps around it."""
    inside = _OUTPUT.search(output)
    return _EXIT_END.sub("", inside[1] if inside else output)


def last_line(output: str) -> ErrorLine | None:
    """Return the last line of an output that is known to be a failure's, where it has a word of failing in it."""
    said = printed(output)[-2000:].splitlines()
    lines = [line.strip() for line in said if line.strip() and not _BANNER.match(line)]
    line = lines[-1] if lines else ""
    if len(line) > 200 or not _LAST_LINE.search(line) or _NOISE.search(line):
        return None
    return ErrorLine("tool", " ".join(line.split()))


def said_shortly(output: str, *, first: bool = False) -> ErrorLine | None:
    """Return the last line (or the first) of a short output, of a call that is known to have failed, as its error."""
    said = printed(output)
    if said.count("\n") > 4 * _SHORT_OUTPUT:
        return None
    own = (each for each in said.splitlines() if not _BANNER.match(each))
    lines = [line for each in own if (line := " ".join(_EXIT_LINE.sub("", each).split()))]
    if not 0 < len(lines) <= _SHORT_OUTPUT:
        return None
    line = lines[0 if first else -1]
    return ErrorLine("said", line) if len(line) <= 200 and re.search(r"[^\W\d]{3}", line) else None


def own_fault(output: str, programs: Iterable[str]) -> ErrorLine | None:
    """Return the error that a program states in its own name without a colon before it: `vllm error: ...`."""
    names = set(programs)
    said = next((match[0] for match in _IN_ITS_NAME.finditer(printed(output)) if match[1] in names), "")
    return ErrorLine("tool", " ".join(said.split())) if said else None


@lru_cache(maxsize=8192)
def fault_of(output: str) -> ErrorLine | None:
    """Return what an output says went wrong, or None where no line of a known shape says it."""
    ends = f"{output[:200]}\n{output[-200:]}"  # where a harness speaks; between stands what was printed
    if _TIMEOUT.match(output) or _TIMED_OUT.search(ends):
        return ErrorLine("timeout", "timed out and was killed")
    text = printed(output)
    is_json, said = reply_error(text)
    if is_json:
        return ErrorLine("tool", said) if said else None
    if len(text) > _SEARCHED:
        text = text[: _SEARCHED // 2] + "\n" + text[-_SEARCHED // 2 :]
    for (kind, pattern), needles in zip(_KINDS, _NEEDLES, strict=True):
        if not any(needle in text for needle in needles):
            continue  # far quicker than the pattern
        matches = [match for match in pattern.finditer(text) if not _NOISE.search(match[0])]
        if matches:
            match = matches[-1] if kind in _LAST else matches[0]
            named = match.groupdict()
            line = " ".join((named.get("said") or match[0]).split())
            about = (named.get("about") or named.get("library") or "").split("." if kind == "module" else "\n")[0]
            return ErrorLine(kind, line, about)
    return None
