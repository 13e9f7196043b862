"""A key that cannot be printed by accident, and the scrubbing of texts that may quote it."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable
from urllib.parse import quote

from combee.errors import UsageError

# Keys of other shapes that a proxy may quote: what follows "Bearer", and the usual prefixes.
_KEY_LIKE = re.compile(r"(?i)\bbearer\s+[^\s\"',;]+|\b(?:sk|pk|gsk|xai|key)-[A-Za-z0-9_\-]{12,}")
_MASK = "***"


class Secret:
    """Holds one value; `reveal` is the only way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({_MASK})"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a key is not to be stored; name the environment variable instead")


def key_from(value: str | None, variable: str | None, *, needed: bool) -> Secret | None:
    """Return the key given as a value or by the name of an environment variable.

    Raises:
        UsageError: The key is needed and not there, or cannot be sent as a header.
    """
    found = value if value is not None else os.environ.get(variable, "") if variable else ""
    found = found.strip()
    if not found:
        if not needed:
            return None
        raise UsageError(
            f"no key: the environment variable {variable} is not set" if variable else "no key is given",
            hint=f"Set it (export {variable or 'NAME'}=...), or name another variable with api_key_env.",
        )
    if not found.isascii() or not found.isprintable():
        raise UsageError(
            f"the key in {variable or 'api_key'} holds characters that a header cannot carry",
            hint="Check for line breaks or quotes that were copied along.",
        )
    return Secret(found)


class Scrubber:
    """Removes secrets, in the forms in which a server may quote them, from any text."""

    def __init__(self, secrets: Iterable[Secret | None]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            value = secret.reveal() if secret is not None else ""
            if len(value) >= 4:
                forms |= {value, quote(value, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1]}
                forms.add(base64.b64encode(value.encode()).decode())
        self._forms = [form.encode() for form in sorted(forms, key=len, reverse=True)]

    def __call__(self, text: str) -> str:
        """Return `text` without any secret, and without what looks like another key."""
        return _KEY_LIKE.sub(_MASK, self.body(text.encode(errors="replace")).decode(errors="replace"))

    def body(self, body: bytes) -> bytes:
        """Return a body without our own secrets; done before anything is cut, so that no half of a key is left."""
        for form in self._forms:
            if form in body:
                body = body.replace(form, _MASK.encode())
        return body

    def __repr__(self) -> str:
        return "Scrubber()"
