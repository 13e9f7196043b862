"""What models write, read: the bullet ids they cite, and the operations they send.

Ids are cited in many ways; `find_ids` reads them out of prose, lists and brackets and says which ones the book holds.
An operation that cannot be used is reported and skipped alone; the rest becomes a delta.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from combee.errors import did_you_mean
from combee.kernel.playbook.model import Add, Delta, Merge, Operation, Playbook, Problem, Remove, Update, delta_of
from combee.kernel.playbook.sections import DEFAULT_SECTION, NUMBERED, is_blank_section
from combee.kernel.playbook.text import count_lone_surrogates

_CITED = re.compile(
    r"(?<![\w-])[^\W\d_]\w*(?:[-\u2010\u2011\u2012\u2013\u2212]\w+)*?[-\u2010\u2011\u2012\u2013\u2212][0-9]{1,18}(?!\w)"
)
_BRACKETED = re.compile(r"\[\s*([^\[\]\s,;]+)\s*\]")


@dataclass(frozen=True, slots=True)
class Cited:
    """Ids found in a text, each once, in the order of their first mention.

    `unknown` ones look like ids but are not in the book.
    """

    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class IdLookup:
    """Finds the id that was meant: case, lost leading zeros, brackets and odd dashes do not matter."""

    def __init__(self, known: Iterable[str]) -> None:
        self._exact = set(known)
        self._loose: dict[tuple[str, int], str] = {}
        for bullet_id in sorted(self._exact, reverse=True):  # of two that look alike the smaller one is meant
            self._loose[self._key(bullet_id)] = bullet_id

    @staticmethod
    def _key(bullet_id: str) -> tuple[str, int]:
        match = NUMBERED.fullmatch(bullet_id)
        return (match[1].casefold(), int(match[2])) if match else (bullet_id.casefold(), -1)

    def find(self, mention: str) -> str | None:
        """Return the known id that `mention` means, or None."""
        if mention in self._exact:
            return mention
        bare = mention.strip().strip("[]\"'`").strip()
        return bare if bare in self._exact else self._loose.get(self._key(bare))


def find_ids(text: str | Iterable[object], book: Playbook | Iterable[str]) -> Cited:
    """Find the bullets a text (or a list of mentions) cites.

    A word counts as an unknown id when it ends in five or more digits, or stands in brackets or in a list of
    mentions; so `GPT-4` is no id.
    """
    lookup = IdLookup(bullet.id for bullet in book.bullets) if isinstance(book, Playbook) else IdLookup(book)
    mentions = [(text, False)] if isinstance(text, str) else [(str(mention), True) for mention in text]
    known: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for mention, listed in mentions:
        if listed and (bullet_id := lookup.find(mention)):
            known[bullet_id] = None
            continue
        bracketed = set(_BRACKETED.findall(mention))
        named = [(match.start(), match[0]) for match in _CITED.finditer(mention)]
        named += [(match.start(1), match[1]) for match in _BRACKETED.finditer(mention)]
        any_found = False
        for _, word in sorted(set(named)):
            if bullet_id := lookup.find(word):
                known[bullet_id] = None
            elif _CITED.fullmatch(word) and (
                listed or word in bracketed or len(word) - len(word.rstrip("0123456789")) >= 5
            ):
                unknown[word] = None
            else:
                continue
            any_found = True
        if listed and not any_found and mention.strip():
            unknown[mention.strip()] = None
    return Cited(tuple(known), tuple(unknown))


_KINDS = ("ADD", "UPDATE", "MERGE", "REMOVE")
_NAMES: dict[str, tuple[str, ...]] = {
    "type": ("type", "op", "operation", "action", "kind"),
    "text": ("content", "text", "new_content", "new_text", "bullet"),
    "id": ("id", "bullet_id", "target", "target_id"),
    "ids": ("ids", "bullet_ids", "source_ids", "target_ids", "targets"),
    "section": ("section", "section_name"),
    "sources": ("sources", "reflections", "reflection_ids"),
}

_READ = {name for names in _NAMES.values() for name in names} | {
    "reason", "reasoning", "rationale", "explanation", "justification", "why",
}  # fmt: skip
"""Fields that are read, or that only comment on an operation."""


class _OperationError(ValueError):
    """Why one operation cannot be used."""


def _field(raw: Mapping[str, object], name: str) -> object:
    """Return the first field of this name that holds something, else the first that is there."""
    there = [raw[key] for key in _NAMES[name] if key in raw]
    return next((value for value in there if value), there[0] if there else None)


class _Parser:
    def __init__(self, sources: Iterable[str], known_ids: Iterable[str]) -> None:
        self.sources = tuple(sources)
        self.lookup = IdLookup(known_ids)
        self.notes: list[str] = []

    def parse(self, raw: object) -> tuple[Operation, ...]:
        """Return the operations that one object means: a REMOVE of several bullets is several."""
        if not isinstance(raw, Mapping):
            raise _OperationError(f"an operation must be an object, not {type(raw).__name__}")
        fields = {str(key).strip().lower(): value for key, value in raw.items()}
        unused = [key for key, value in fields.items() if value and key not in _READ]
        self.notes += [f"the field {key[:40]!r} is not used" for key in unused]
        kind = _field(fields, "type")
        if not isinstance(kind, str):
            raise _OperationError("no type; one of ADD, UPDATE, MERGE, REMOVE is needed")
        kind = kind.strip().upper()
        if kind not in _KINDS:
            raise _OperationError(f"unknown type {kind[:40]!r}. {did_you_mean(kind, _KINDS)}")
        sources = self._sources(_field(fields, "sources"))
        if kind == "ADD":
            return (Add(self._section(fields), self._text(fields), sources),)
        ids = self._ids(fields, kind)
        if kind == "REMOVE":
            return tuple(Remove(one, sources) for one in ids)
        if kind == "MERGE" and len(ids) < 2:
            raise _OperationError("a MERGE needs two or more different ids")
        # A model that rewrites several bullets as one means a merge, whatever it calls it.
        text = self._text(fields)
        return (Merge(ids, text, sources) if len(ids) > 1 else Update(ids[0], text, sources),)

    def _text(self, fields: Mapping[str, object]) -> str:
        text = _field(fields, "text")
        if not isinstance(text, str):
            raise _OperationError(
                "content is missing" if text is None else f"content must be a text, not {type(text).__name__}"
            )
        if not text.strip():
            raise _OperationError("content is empty")
        if lone := count_lone_surrogates(text):
            self.notes.append(f"{lone} lone surrogate(s) replaced by U+FFFD")
        return text.strip()

    def _section(self, fields: Mapping[str, object]) -> str:
        section = _field(fields, "section")
        if not isinstance(section, str) or is_blank_section(section):
            self.notes.append(f"no section; it goes to {DEFAULT_SECTION}")
            return DEFAULT_SECTION
        return section

    def _ids(self, fields: Mapping[str, object], kind: str) -> tuple[str, ...]:
        """Return the known ids that are named, at least one.

        An unknown one is an error, but in a list to remove only a note. Prose that holds an id is no id.
        """
        names = ("id", "ids") if kind == "UPDATE" else ("ids", "id")
        given = next((value for name in names if (value := _field(fields, name))), None)
        listed = not isinstance(given, str)
        if isinstance(given, str):
            given = [given] if self.lookup.find(given) else given.replace(",", " ").split()
        if not isinstance(given, Sequence) or not given:
            raise _OperationError("no id of a bullet")
        ids = {str(mention): self.lookup.find(mention) if isinstance(mention, str) else None for mention in given}
        known = tuple(dict.fromkeys(bullet_id for bullet_id in ids.values() if bullet_id is not None))
        unknown = [repr(mention[:40]) for mention, bullet_id in ids.items() if bullet_id is None]
        problem = f"no bullet has the id {', '.join(unknown[:5])}"
        if unknown and not (kind == "REMOVE" and listed and known):
            raise _OperationError(problem)
        self.notes += [problem] if unknown else []
        return known

    def _sources(self, raw: object) -> tuple[str, ...]:
        """A model may say which of its reflections an operation came from; it may not name others."""
        if not isinstance(raw, Sequence) or isinstance(raw, str):
            return self.sources
        named = {str(source) for source in raw}
        cited = tuple(source for source in self.sources if source in named)
        if named - set(cited):
            self.notes.append("sources that were not given to this call are ignored")
        return cited or self.sources


def parse_operations(
    raw: object, *, sources: Iterable[str], known_ids: Iterable[str]
) -> tuple[Delta, tuple[Problem, ...]]:
    """Turn a model's list of operations into a delta.

    Args:
        raw: a list of objects with type, section, content, and the id or ids of bullets; or an object that holds such
            a list as `operations`.
        sources: ids of the reflections that the model was given; an operation that names some of them in `sources`
            gets those alone.
        known_ids: ids of the bullets in the book; UPDATE, MERGE and REMOVE of any other are reported.

    Returns:
        The delta of the good operations, and one problem for each thing that was wrong, with the place of its
        operation from 0.
    """
    if isinstance(raw, Mapping):
        raw = raw.get("operations")
    if not isinstance(raw, Sequence) or isinstance(raw, str | bytes):
        return Delta(), (Problem(0, f"operations must be a list, not {type(raw).__name__}", repr(raw)[:80]),)
    parser = _Parser(sources, known_ids)
    good: list[Operation] = []
    problems: list[Problem] = []
    for index, item in enumerate(raw):
        parser.notes = []
        try:
            good += parser.parse(item)
            problems += [Problem(index, note, repr(item)[:80], skipped=False) for note in parser.notes]
        except _OperationError as error:
            problems.append(Problem(index, str(error), repr(item)[:80]))
    return delta_of(good), tuple(problems)
