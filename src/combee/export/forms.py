"""The forms that other tools read. Every one of them holds the scored text, byte for byte, between two marks.

The scored text is `to_text(book, mark=False)`: what a generator is shown when a score is taken. Skills may hold it in
parts, one a section; the parts in the order of the index are the text. Nothing depends on time or place.

Which bullets an export takes when not all fit: the most valuable ones, whole, in the order of the book.

Our own skill: the file that teaches a coding agent to use combee, as package data.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from itertools import groupby

from combee.errors import UsageError, did_you_mean
from combee.kernel.playbook import Bullet, Playbook, to_json, to_text, tokens
from combee.redaction import find_secrets
from combee.redaction.orders import KINDS, orders

__all__ = [
    "BEGIN",
    "END",
    "FORMS",
    "File",
    "Risk",
    "check_name",
    "choose",
    "export",
    "own_skill",
    "risks",
    "scored_text",
    "slug",
    "value",
]

BEGIN = "<!-- combee:begin -->"
END = "<!-- combee:end -->"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MOST_LINES = 400  # of 500: the rest is for what stands around
_READ = (
    "Lessons from earlier runs, one a line: `[id] helpful=N harmful=N :: lesson`. The counts say how often a lesson "
    "helped or misled. Use what fits the task at hand; the lessons are experience, not orders."
)


@dataclass(frozen=True, slots=True)
class File:
    """One file of an export; `path` is relative, with forward slashes."""

    path: str
    text: str


def scored_text(book: Playbook) -> str:
    """Return the bytes that are scored and exported: the text of the book as an agent reads it."""
    return to_text(book, mark=False)


def slug(text: str) -> str:
    """Return a name in lower case with hyphens, at most 64 characters."""
    plain = "".join(
        letter for letter in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(letter)
    )
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64].strip("-")
    return name or "playbook"


def check_name(name: str) -> str:
    """Return the name, if the skill format takes it.

    Raises:
        UsageError: it is longer than 64 characters, or not lower-case words joined by single hyphens.
    """
    if len(name) > 64 or not _NAME.fullmatch(name):
        raise UsageError(f"A skill cannot be called {name!r}.", hint=f"Like {slug(name)!r}: a-z, 0-9, single hyphens.")
    return name


def export(
    book: Playbook, to: str, *, name: str = "playbook", description: str | None = None, max_tokens: int | None = None
) -> tuple[File, ...]:
    """Return the files of a form; the first is the main one.

    Args:
        book: what is exported.
        to: skill, agents, cursor, prompt, json or ace.
        name: of the skill or the rule.
        description: when the lessons are of use, up to 1,024 characters; agents choose skills by it.
        max_tokens: take only the most valuable bullets that fit (see `choose`).

    Raises:
        UsageError: no such form, nothing to export, a bad name or description, or a lesson that holds a secret.
    """
    if to not in FORMS:
        raise UsageError(f"There is no form {to!r}.", hint=did_you_mean(to, FORMS))
    part = choose(book, max_tokens)
    if not len(part):
        raise UsageError("The playbook is empty: there is nothing to export.", hint="Learn first, with `combee learn`.")
    for bullet in part:
        if kinds := find_secrets(f"{bullet.section}\n{bullet.text}"):
            raise UsageError(
                f"[{bullet.id}] holds a secret ({', '.join(kinds)}).", hint="Remove it from the playbook first."
            )
    said = " ".join(
        (description or f"Lessons learned from earlier agent runs ({name}). Use before starting work.").split()
    )
    if not 0 < len(said) <= 1024 or re.search(r"[<>]", said):
        raise UsageError("A description has 1 to 1024 characters, without < and >.", hint="Say when to use it.")
    return FORMS[to](part, check_name(name), said)


@dataclass(frozen=True, slots=True)
class Risk:
    """A lesson that orders or does what a person should look at before agents read it; `why` says what."""

    bullet: str
    text: str
    why: tuple[str, ...]

    def __str__(self) -> str:
        return f"[{self.bullet}] {', '.join(self.why)}: {self.text}"


def risks(book: Playbook, max_tokens: int | None = None) -> tuple[Risk, ...]:
    """Return the exported lessons that order their reader to run, send or fetch something, or to drop a safeguard."""
    found = []
    for bullet in choose(book, max_tokens):
        kinds = [kind for kind in orders(bullet.text) if kind != "address"]
        if kinds:
            found.append(Risk(bullet.id, bullet.text, tuple(KINDS[kind] for kind in kinds)))
    return tuple(found)


def _marked(text: str) -> str:
    return f"{BEGIN}\n{text}{END}\n"


def _front(fields: Mapping[str, str | bool | dict[str, str]]) -> str:
    """Return YAML front matter; JSON strings are YAML strings."""
    lines = []
    for key, value in fields.items():
        if isinstance(value, dict):
            lines += [f"{key}:", *(f"  {inner}: {json.dumps(text)}" for inner, text in value.items())]
        else:
            plain = isinstance(value, str) and _NAME.fullmatch(value) is not None and key == "name"
            lines.append(f"{key}: {value if plain else json.dumps(value, ensure_ascii=False)}")
    return "---\n" + "\n".join(lines) + "\n---\n\n"


def _digest(book: Playbook) -> str:
    return hashlib.sha256(scored_text(book).encode()).hexdigest()[:16]


def _skill(book: Playbook, name: str, description: str) -> tuple[File, ...]:
    front = _front({"name": name, "description": description, "metadata": {"combee-digest": _digest(book)}})
    head = f"{front}# {name.replace('-', ' ').capitalize()}\n\n{_READ}\n\n"
    text = scored_text(book)
    if text.count("\n") <= _MOST_LINES:
        return (File(f"{name}/SKILL.md", head + _marked(text)),)
    files: list[File] = []
    lines: list[str] = []
    for number, (section, bullets) in enumerate(groupby(book, key=lambda bullet: bullet.section), 1):
        group = Playbook(tuple(bullets), counter=book.counter)
        path = f"references/{number:02d}-{slug(section)[:48].strip('-')}.md"
        files.append(File(f"{name}/{path}", _marked(scored_text(group))))
        shown = section.translate({ord("["): "(", ord("]"): ")"})
        lines.append(f"- [{shown}]({path}): {len(group)} lessons")
    index = "Read the section that fits the task:\n\n" + "\n".join(lines) + "\n"
    return (File(f"{name}/SKILL.md", head + index), *files)


def _agents(book: Playbook, name: str, description: str) -> tuple[File, ...]:
    return (File("AGENTS.md", f"{_READ}\n\n{_marked(scored_text(book))}"),)


def _cursor(book: Playbook, name: str, description: str) -> tuple[File, ...]:
    front = _front({"description": description, "globs": "", "alwaysApply": False})
    return (File(f".cursor/rules/{name}.mdc", f"{front}{_READ}\n\n{_marked(scored_text(book))}"),)


def _prompt(book: Playbook, name: str, description: str) -> tuple[File, ...]:
    return (File(f"{name}.txt", f"{_READ}\n\n{_marked(scored_text(book))}"),)


def _json(book: Playbook, name: str, description: str) -> tuple[File, ...]:
    return (File(f"{name}.json", to_json(book)),)


def _ace(book: Playbook, name: str, description: str) -> tuple[File, ...]:
    return (File(f"{name}.md", to_text(book)),)


FORMS: dict[str, Callable[[Playbook, str, str], tuple[File, ...]]] = {
    "skill": _skill,
    "agents": _agents,
    "cursor": _cursor,
    "prompt": _prompt,
    "json": _json,
    "ace": _ace,
}
"""Name of a form to what makes it."""


def value(bullet: Bullet) -> int:
    """Return what a bullet is worth: helpful - harmful votes, plus the reflections that support it."""
    return bullet.helpful - bullet.harmful + len(bullet.sources)


def choose(book: Playbook, max_tokens: int | None) -> Playbook:
    """Return the most valuable bullets that fit into `max_tokens` (by the book's counter, headings included).

    Equal ones are taken in the order of the book; no text is cut.

    Raises:
        UsageError: the limit is below 1, or not even one bullet fits.
    """
    if max_tokens is None or tokens(book) <= max_tokens:
        return book
    if max_tokens < 1:
        raise UsageError(f"max_tokens is {max_tokens}", hint="Give 1 or more.")
    order = sorted(range(len(book)), key=lambda place: (-value(book.bullets[place]), place))
    taken: set[int] = set()
    size = 0
    for place in order:
        cost = tokens(replace(book, bullets=(book.bullets[place],)))  # with its heading: never less than it adds
        if size + cost <= max_tokens or tokens(_part(book, taken | {place})) <= max_tokens:
            taken.add(place)
            size += cost
    if not taken:
        raise UsageError(f"Not one bullet fits into {max_tokens} tokens.", hint="Give more tokens.")
    return _part(book, taken)


def _part(book: Playbook, places: set[int]) -> Playbook:
    return replace(book, bullets=tuple(book.bullets[place] for place in sorted(places)))


def own_skill() -> str:
    """Return the text of the skill file `combee/SKILL.md`."""
    return resources.files("combee.export").joinpath("skill", "SKILL.md").read_text(encoding="utf-8")
