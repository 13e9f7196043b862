"""A playbook's text as a patch on an earlier one: versions share almost all their bullets, so little is stored twice.

Exact for any text. A patch is a JSON list of `[start, count]` (pieces copied from the base) and strings (new text).
"""

from __future__ import annotations

import json
import re

from combee.errors import StorageError

__all__ = ["make_patch", "use_patch"]

# A piece ends after a line or after an object in a list: one bullet of a playbook's JSON, pretty or compact.
_END = re.compile(r"(?<=\n)|(?<=\},)")


def make_patch(base: str, text: str) -> str:
    """Return what `use_patch(base, ...)` needs to give `text` back. Linear in both lengths."""
    old = _END.split(base)
    first: dict[str, int] = {}
    for index, piece in enumerate(old):
        first.setdefault(piece, index)
    patch: list[list[int] | str] = []
    expected = -1
    for piece in _END.split(text):
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
    old = _END.split(base)
    try:
        steps = [step if isinstance(step, str) else (int(step[0]), int(step[1])) for step in json.loads(patch)]
    except (ValueError, TypeError, IndexError) as error:
        raise StorageError(
            "a stored playbook version cannot be read", hint="Run `combee doctor` on its folder."
        ) from error
    return "".join(step if isinstance(step, str) else "".join(old[step[0] : step[0] + step[1]]) for step in steps)
