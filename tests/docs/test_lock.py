"""What the lock says of one package it says everywhere: the site is built in the environment of the tests."""

from __future__ import annotations

import re
from pathlib import Path

LOCKS = Path(__file__).resolve().parents[2] / "requirements"


def test_one_version_of_a_package_in_all_locks() -> None:
    found: dict[str, set[str]] = {}
    for lock in ("base.txt", "dev.txt", "docs.txt"):
        text = (LOCKS / lock).read_text(encoding="utf-8")
        for name, version in re.findall(r"^([\w.-]+)==(\S+) \\$", text, re.MULTILINE):
            found.setdefault(name, set()).add(version)
    assert len(found) > 60
    assert {name: versions for name, versions in found.items() if len(versions) > 1} == {}
