"""Prompts as files: ours as package data, each replaceable by a file of the same name in a folder of the user's.

A prompt has two parts, `--- system ---` and `--- user ---`. What stays the same from call to call (instructions, then
the playbook) stands first, so that providers' prefix caches work. Placeholders are written `{{name}}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from combee.ace.fence import NOTE
from combee.errors import DataError, UsageError, did_you_mean
from combee.files import read_regular
from combee.kernel.journal import hash_json
from combee.kernel.playbook import count_tokens
from combee.model import Message

__all__ = ["PLACEHOLDERS", "Prompt", "Prompts"]

# name: placeholders that must be there, placeholders that may be there.
PLACEHOLDERS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "generator": (frozenset({"playbook", "task"}), frozenset()),
    "reflector": (frozenset({"bullets", "task", "answer", "outcome", "target"}), frozenset({"reasoning", "previous"})),
    "trace_reflector": (frozenset({"bullets", "trace", "outcome"}), frozenset({"task", "previous"})),
    "curator": (frozenset({"playbook", "reflections"}), frozenset({"budget", "sections"})),
    "combine": (frozenset({"playbook", "updates"}), frozenset({"budget", "sections"})),
    "summarize": (frozenset({"reflections"}), frozenset()),
    "refine": (frozenset({"bullets", "terms"}), frozenset()),
}
_EVERYWHERE = frozenset({"fence_note"})
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_PARTS = re.compile(r"^--- (system|user) ---[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: two texts with placeholders."""

    name: str
    system: str
    user: str

    def render(self, values: Mapping[str, str]) -> tuple[Message, ...]:
        """Return the messages. Values are put in once: a placeholder inside a value stays as it stands."""
        filled = {**values, "fence_note": NOTE}
        parts = (("system", self.system), ("user", self.user))
        messages = []
        for role, text in parts:
            said = _PLACEHOLDER.sub(lambda found: filled.get(found[1], ""), text).strip()
            if said:
                messages.append(Message("system" if role == "system" else "user", said))
        return tuple(messages)


@dataclass(frozen=True, slots=True)
class Prompts:
    """All prompts of the ACE roles, by name."""

    by_name: Mapping[str, Prompt]
    digest: str

    def __getitem__(self, name: str) -> Prompt:
        return self.by_name[name]

    @property
    def tokens(self) -> dict[str, int]:
        """Tokens of each prompt before anything is put in, for an estimate."""
        return {name: count_tokens(prompt.system + prompt.user) for name, prompt in self.by_name.items()}

    @classmethod
    def load(cls, folder: Path | str | None = None) -> Prompts:
        """Return our prompts, with those of `folder` in place of ours where it has a file `NAME.md`.

        Raises:
            UsageError: The folder is none, holds a prompt that is not known, or one with a missing or an unknown
                placeholder.
        """
        found = dict(_own())
        if folder is not None:
            found |= _of_folder(Path(folder))
        texts = {name: [prompt.system, prompt.user] for name, prompt in sorted(found.items())}
        return cls(found, hash_json(texts))


@lru_cache(maxsize=1)
def _own() -> Mapping[str, Prompt]:
    root = resources.files("combee.ace").joinpath("prompts")
    texts = {name: root.joinpath(f"{name}.md").read_text(encoding="utf-8") for name in PLACEHOLDERS}
    return {name: _parse(name, text, f"{name}.md") for name, text in texts.items()}


def _of_folder(folder: Path) -> dict[str, Prompt]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder of prompts.", hint=f"It may hold {', '.join(_names())}.")
    found: dict[str, Prompt] = {}
    for path in sorted(folder.glob("*.md")):
        if path.stem.lower() == "readme":
            continue
        if path.stem not in PLACEHOLDERS:
            raise DataError("is no prompt that is known", path=path, hint=did_you_mean(path.name, _names()))
        try:
            text = read_regular(path).decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise DataError(f"cannot be read as UTF-8 text: {error}", path=path) from None
        found[path.stem] = _parse(path.stem, text, str(path))
    if not found:
        raise UsageError(f"{folder} holds no prompt.", hint=f"Put one or more of {', '.join(_names())} there.")
    return found


def _names() -> list[str]:
    return [f"{name}.md" for name in PLACEHOLDERS]


def _parse(name: str, text: str, where: str) -> Prompt:
    pieces = _PARTS.split(text)
    parts = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    if set(parts) != {"system", "user"} or pieces[0].strip():
        raise DataError(
            "does not have the two parts of a prompt",
            path=where,
            hint="Write a line `--- system ---`, its text, a line `--- user ---`, its text.",
        )
    must, may = PLACEHOLDERS[name]
    used = set(_PLACEHOLDER.findall(text))
    for missing in sorted(must - used):
        raise DataError(f"the placeholder {{{{{missing}}}}} is missing", path=where, hint=f"Add {{{{{missing}}}}}.")
    for unknown in sorted(used - must - may - _EVERYWHERE):
        line = text[: text.index(unknown)].count("\n") + 1
        known = did_you_mean(unknown, must | may | _EVERYWHERE)
        raise DataError(f"there is no placeholder {{{{{unknown}}}}}", path=where, line=line, hint=known)
    return Prompt(name, parts["system"].strip(), parts["user"].strip())
