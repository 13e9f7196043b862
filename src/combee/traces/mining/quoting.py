"""What of a text may be quoted in a lesson, by who wrote it.

The agent's own calls are quoted as they ran. Of what a tool, a file, a page or a peer wrote only the known form of an
error is quoted: its class and codes, numbers, identifiers and paths, and words of a fixed vocabulary of error messages
that holds no order (no "you", no "please", verbs only as "failed to open" or "expected"). What else stands there, in
whatever language, becomes an ellipsis: no list of forbidden phrases has to be complete for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from combee.redaction.orders import KNOWN_SENTENCES, orders
from combee.traces.mining.vocabulary import GOVERNORS, NAMED, NOUNS, PARTICIPLES, STATES, VERBS, VERBS_TOO

_LONGEST = 160
_WORDS = NOUNS | PARTICIPLES | {"use"}
_ACTS = VERBS | VERBS_TOO
_MOST_SUBWORDS = 3  # of one identifier, or one component of a path, that another one wrote
_MOST_COMPONENTS = 8
_PLAIN = re.compile(r"(?:[A-Za-z]?[a-z]+|[A-Z]+)(?:'[a-z]{1,2})?\Z")
_NUMBER = re.compile(r"[-+~<>=^]{0,3}v?\d[\d.,:%/x_-]*(?:[a-zA-Z]{1,4}\d{0,3})?\Z")
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,40}(?:[=:][\w./+-]{0,40})?\Z")
_CODE = re.compile(r"[A-Z]{1,8}-?\d{1,6}\Z|E[A-Z]{3,20}\Z|[A-Z]{2,12}(?:_[A-Z]{1,12}){1,3}\Z")
_EXCEPTION = re.compile(
    r"(?:[a-z_]\w{0,30}\.){0,5}[A-Z]\w{0,50}(?:Error|Exception|Warning|Exit|Interrupt|Failure|Fault)\Z"
)
_IDENTIFIER = re.compile(r"[\w./\\:@$%~+*#<>=!?^&|()\[\]{};,'\"-]+\Z", re.ASCII)
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_ADDRESS = re.compile(
    r"(?i)\w+://|\bwww\.|@\w+\.|\d{1,3}(?:\.\d{1,3}){3}|\.(?:com|net|org|io|example|xyz|ru|cn|info|onion)\b"
)
_OPENS, _CLOSES = "([{<\"'`‘“«", ")]}>\"'`’”».,:;!?…"
_QUOTES = frozenset("\"'`‘“«")
_QUOTES_END = frozenset("\"'`’”»")
_TOKEN = re.compile(r"\S+")
_SHELL_SPEAKS = re.compile(r"\A\S{0,40}sh: (?:-c: )?(?:line )?\d+: (?=[\w./+-]+: )")
"""A shell that speaks for another program, by the number of a line that no other run has."""
_KNOWN_PROMPT = re.compile(
    r"(?:[>?$#:]{1,3}|(?:do you want|are you sure you want) to continue(?: connecting)?|is this ok|"
    r"proceed|continue|overwrite|(?:enter )?(?:passphrase|password)(?: for \w{1,40})?|"
    r"\[sudo\] password for \w{1,40})?\s*\??\s*"
    r"(?:[\[(](?:y|n|yes|no|y/n|yes/no(?:/\[\w+\])?|\[y\]/n|y/\[n\]|y/d/n)[\])])?\s*[:?]?",
    re.IGNORECASE,
)


def quoted(text: str, limit: int = _LONGEST) -> str:
    """Return a text as inline code on one line, shortened in the middle with a mark."""
    line = " ".join(text.split()).replace("`", "'")
    if len(line) > limit:
        line = f"{line[: limit * 2 // 3].rstrip()} … {line[-limit // 4 :].lstrip()}"
    return f"`{line}`"


def quotable(command: str) -> bool:
    """Whether a command stands in inline code as it ran: on one line, without backticks and runs of blanks."""
    return not re.search(r"[`\n\t]|  ", command)


def subwords(text: str) -> list[str]:
    """Return the words inside a name, in lower case: of `readUserFile_v2` read, user, file, v, 2."""
    return [word.casefold() for word in _CAMEL.findall(text)]


def own_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words and names of the agent's own call: what it wrote itself may be quoted from an answer."""
    found: set[str] = set()
    for text in texts:
        for token in _TOKEN.findall(text[:4000]):
            core = token.strip(_OPENS + _CLOSES)
            if len(core) <= 120:
                found.add(core.casefold())
            found.update(subwords(token[:400]))
    return frozenset(found)


def is_identifier(text: str, own: frozenset[str] = frozenset()) -> bool:
    """Whether a text that another one wrote is a name or path that may be quoted, and no sentence in disguise."""
    if text.casefold() in own:
        return True
    if not text or len(text) > 120 or not _IDENTIFIER.match(text) or _ADDRESS.search(text):
        return False
    components = [each for each in re.split(r"[./\\:]+", text) if each]
    sizes = [len([word for word in subwords(each) if not word.isdigit() and len(word) > 1 and word not in own])
             for each in components]  # fmt: skip
    most = _MOST_SUBWORDS + text.isalpha()  # `InvalidAccessKeyId` is one word to the eye
    return (
        len(components) <= _MOST_COMPONENTS and all(size <= most for size in sizes) and sum(sizes) <= _MOST_COMPONENTS
    )


def is_test_name(text: str) -> bool:
    """Whether a name is one of a test and may be quoted: tests have long names, but they say that they are tests."""
    words = subwords(text.replace("-", "_"))
    told = " ".join(words)
    return (
        len(text) <= 160
        and bool(_IDENTIFIER.match(text))
        and not _ADDRESS.search(text)
        and (len(words) <= _MOST_SUBWORDS or ("test" in told and not orders(told)))
    )


def prompt_form(text: str) -> str:
    """Return what of a prompt may be quoted: a known question, or the mark at its end."""
    line = " ".join(text.split())
    known = _KNOWN_PROMPT.fullmatch(line)
    return line if known else line.rpartition(" ")[2][-40:]


def _is_verb(word: str) -> bool:
    """Whether a word is a form of a known verb that orders nothing: of `open` opens, opened, opening."""
    for ending in ("ed", "ing", "s", "es", "d"):
        stem = word.removesuffix(ending)
        if stem == word:
            continue
        if stem in _ACTS or f"{stem}e" in _ACTS or (stem[-1:] == stem[-2:-1] and stem[:-1] in _ACTS):
            return True
    return word.endswith(("ied", "ies")) and f"{word[:-3]}y" in _ACTS


def _is_word(word: str, before: str, after: str, own: frozenset[str]) -> bool:
    """Whether a plain word belongs to the vocabulary; `before` and `after` are its neighbours in its clause."""
    low = word.casefold()
    if low in own or low in GOVERNORS:
        return True
    if low in VERBS and before in GOVERNORS:
        return True
    if low in VERBS_TOO:
        return bool(before) or after in STATES or (low in NAMED and after[:1] in _QUOTES)
    return (
        low in _WORDS
        or (low.endswith("s") and (low[:-1] in _WORDS or (low.endswith("ies") and f"{low[:-3]}y" in _WORDS)))
        or _is_verb(low)
        or (
            low.startswith(("un", "re", "non"))
            and _is_verb(low.removeprefix("un").removeprefix("re").removeprefix("non"))
        )
    )


@lru_cache(maxsize=8192)
def error_form(line: str, own: frozenset[str] = frozenset()) -> str:
    """Return what of an error line may be quoted: the rest is an ellipsis.

    Args:
        line: one line that a tool printed.
        own: see `own_words`; what the agent's call holds is its own.
    """
    line = _SHELL_SPEAKS.sub("", line)
    for known in KNOWN_SENTENCES:
        line = line.replace(known, known.replace(" ", "\0"))
    kept: list[str] = []
    marked_before = False
    for number, clause in enumerate(_clauses(line)):
        before = ""
        for at, (token, after) in enumerate(zip(clause, [*clause[1:], ""], strict=True)):
            good, plain, marked = _judged(token, before, after, own)
            if number == at == 0 and plain and token.endswith(":"):
                good = True  # who speaks
            if marked:
                good, marked_before = not marked_before, True
            elif plain:
                marked_before = False
            # behind a comma a new thought may begin, and an order with it
            before = token.strip(_OPENS + _CLOSES).casefold() if good and token[-1] != "," else ""
            kept.append(token.replace("\0", " ") if good else "…" + "".join(c for c in token[-1:] if c in ".,:;"))
            if plain and not good:
                kept[-1] = "…" + "".join(c for c in clause[-1][-1:] if c in ":;")
                break  # prose begins: the rest of the clause is another one's sentence
    return _joined(kept)


def _judged(token: str, before: str, after: str, own: frozenset[str]) -> tuple[bool, bool, bool]:
    """Return of a token whether it may be quoted, is a plain word, and is one in quotation marks that is not known."""
    if "\0" in token:
        return True, False, False
    core = token.lstrip(_OPENS).rstrip(_CLOSES)
    plain = _PLAIN.match(core) is not None
    if not plain:
        return _stands_for_itself(core, own), any(char.isalpha() and not char.isascii() for char in core), False
    if _is_word(core, before, after, own) or core in {"E", "W"}:
        return True, True, False
    opened, closed = token[: -len(token.lstrip(_OPENS))], token[len(token.rstrip(_CLOSES)) :]
    marked = bool(set(opened) & _QUOTES and set(closed) & _QUOTES_END)
    return marked, True, marked


def _clauses(line: str) -> list[list[str]]:
    """Return the words of a line clause by clause: up to a colon, a semicolon or the end of a sentence."""
    found: list[list[str]] = [[]]
    for token in _TOKEN.findall(line):
        found[-1].append(token)
        if token[-1] in ":;!?。" or (token[-1] == "." and len(token) > 2):
            found.append([])
    return [each for each in found if each]


def _stands_for_itself(core: str, own: frozenset[str]) -> bool:
    """Whether a token is a number, a code, an option, the class of an error, a sign, or a name that may be quoted."""
    if not any(char.isalnum() for char in core) or _NUMBER.match(core) or _CODE.match(core):
        return True
    if _OPTION.match(core) or _EXCEPTION.match(core):
        return len([word for word in subwords(core) if word not in own]) <= _MOST_SUBWORDS + 2
    return is_identifier(core, own)


def _joined(tokens: list[str]) -> str:
    kept: list[str] = []
    for token in tokens:
        if token.startswith("…") and kept and kept[-1].startswith("…"):
            kept[-1] = token
        else:
            kept.append(token)
    return " ".join(kept)
