"""A playbook's text as a patch on an earlier one: versions share almost all their bullets, so little is stored twice.

Exact for any text. A patch is a JSON list of `[start, count]` (pieces copied from the base) and strings (new text).
"""

from __future__ import annotations

import json

from combee.errors import StorageError

__all__ = ["make_patch", "use_patch"]


def _pieces(text: str) -> list[str]:
    """Cut after lines and after objects in a list: about one piece a bullet, be the JSON pretty or compact."""
    objects = _cut(text, "},")
    return [line for piece in objects for line in _cut(piece, "\n")] if "\n" in text else objects


def _cut(text: str, end: str) -> list[str]:
    pieces = text.split(end)
    return [*(piece + end for piece in pieces[:-1]), pieces[-1]]


def make_patch(base: str, text: str) -> str:
    """Return what `use_patch(base, ...)` needs to give `text` back. Linear in both lengths."""
    old = _pieces(base)
    first: dict[str, int] = {}
    for index, piece in enumerate(old):
        first.setdefault(piece, index)
    patch: list[list[int] | str] = []
    expected = -1
    for piece in _pieces(text):
        last = patch[-1] if patch else None
        if isinstance(last, list) and expected < len(old) and old[expected] == piece:
            last[1] += 1
            expected += 1
        elif (found := first.get(piece)) is not None:
            patch.append([found, 1])
            expected = found + 1
        elif isinstance(last, str):
            patch[-1] = last + piece
        else:
            patch.append(piece)
    return json.dumps(patch, ensure_ascii=False, separators=(",", ":"))


def use_patch(base: str, patch: str) -> str:
    """Return the text that `make_patch` was given.

    Raises:
        StorageError: The patch is not one.
    """
    old = _pieces(base)
    try:
        steps = [step if isinstance(step, str) else (int(step[0]), int(step[1])) for step in json.loads(patch)]
    except (ValueError, TypeError, IndexError) as error:
        raise StorageError(
            "a stored playbook version cannot be read", hint="Run `combee doctor` on its folder."
        ) from error
    return "".join(step if isinstance(step, str) else "".join(old[step[0] : step[0] + step[1]]) for step in steps)
