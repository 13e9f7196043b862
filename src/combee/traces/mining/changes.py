"""What a call changed: the files that it wrote, and whether it made another environment for the calls that follow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import basename

from combee.traces.mining.attempts import LOOKS, Attempt
from combee.traces.mining.shell import Part, without_heredocs, written_files
from combee.traces.mining.words import READERS

__all__ = ["acts", "changed_files", "changes_the_world", "edits_in_place", "sets_up", "world_changed"]

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


def edits_in_place(part: Part) -> bool:
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


def sets_up(attempt: Attempt) -> bool:
    """Whether a call may make later calls work by itself: it installs, sets a variable, or goes to another folder."""
    command = attempt.command
    if command is None:
        return False
    return _SETS_UP.search(without_heredocs(command)) is not None or _GOES.fullmatch(command) is not None


def changes_the_world(part: Part) -> bool:
    """Whether a command may change something: it is none that only looks."""
    return edits_in_place(part) or part.program not in READERS - _CHANGERS


def acts(attempt: Attempt) -> list[Part]:
    """Return the commands of a call that may change something."""
    return [part for part in attempt.parts if changes_the_world(part)]


def world_changed(between: Sequence[Attempt]) -> bool:
    """Whether something other than the next call may have mended it; of several commands the first may have worked."""
    return any(
        len(acts(attempt)) > 1
        or (attempt.worked is not False and (acts(attempt) or changed_files(attempt) or sets_up(attempt)))
        for attempt in between
    )
