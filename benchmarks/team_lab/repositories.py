"""Seeded broken Python repositories: a small content pipeline with bugs of several kinds over several files.

Each has visible tests, of which some fail, and hidden ones that decide; one bug is seen by no visible test. Two seeds
never give the same repository, and the same seed always gives the same bytes and commit.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.team_lab.stock import STOCK
from benchmarks.team_lab.testing import write_files
from combee.run.git import git

__all__ = ["Broken", "Bug", "generate", "split", "write_repository"]

_DAY = "2026-01-05T09:00:00+00:00"
_ME = {
    "GIT_AUTHOR_NAME": "Author",
    "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_COMMITTER_NAME": "Author",
    "GIT_COMMITTER_EMAIL": "author@example.org",
    "GIT_AUTHOR_DATE": _DAY,
    "GIT_COMMITTER_DATE": _DAY,
}


@dataclass(frozen=True, slots=True)
class Bug:
    """One bug: `repaired` is its file without it; `test` has the tests that see it, `hidden`: only the deciding do."""

    kind: str
    path: str
    repaired: str
    test: str
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A repository in the making: files as they are, bugs as they were put in, and all tests that decide.

    `slow`: the developer needs a second commit. `fragile`: a first repair breaks something, which only a run of the
    tests after the merge shows.
    """

    name: str
    seed: int
    files: Mapping[str, str]
    bugs: tuple[Bug, ...]
    deciding: Mapping[str, str]
    expected: tuple[str, ...]
    slow: bool
    fragile: bool


def generate(seed: int) -> Broken:
    """Return the repository of a seed: four to six modules, three or four bugs of which one is hidden."""
    chance = random.Random(f"repository {seed}")
    parts = chance.sample(STOCK, chance.randint(4, 6))
    names = {part.module: f"{part.module}_{chance.choice(('steps', 'stage', 'unit', 'core'))}" for part in parts}
    broken = chance.sample(parts, chance.randint(3, 4))
    hidden = chance.choice(broken)
    limit = chance.randint(3, 9)
    files = {"pipeline/__init__.py": f'"""Content pipeline {seed}."""\n', ".gitignore": "__pycache__/\n"}
    deciding: dict[str, str] = {}
    bugs: list[Bug] = []
    expected: list[str] = []
    for part in parts:
        path, test = f"pipeline/{names[part.module]}.py", f"tests/test_{part.module}.py"
        source, tests = _filled(part.source, limit), _filled(part.tests, limit)
        full = f"from pipeline.{names[part.module]} import {part.function}\n\n\n{tests}"
        deciding[test] = full
        expected += [f"{test}::{line[4:].split('(')[0]}" for line in full.splitlines() if line.startswith("def test_")]
        visible = full
        if part in broken:
            right, wrong, kind = chance.choice(part.breaks)
            right, wrong = _filled(right, limit), _filled(wrong, limit)
            bugs.append(Bug(kind, path, source, test, part is hidden))
            source = source.replace(right, wrong, 1)
        if part is hidden:
            visible = f"from pipeline.{names[part.module]} import {part.function}\n\n\n"
            visible += f"def test_{part.function}_is_there():\n    assert callable({part.function})\n"
        files[path], files[test] = source, visible
    traits = chance.random() < 0.6, chance.random() < 0.5
    return Broken(f"repo-{seed}", seed, files, tuple(bugs), deciding, tuple(expected), *traits)


def write_repository(broken: Broken, folder: Path) -> str:
    """Write the files and commit them on the branch main; return the commit. Nothing of the user's git counts."""
    folder.mkdir(parents=True)
    write_files(folder, broken.files)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "The pipeline as it is", environment=_ME)
    return git(folder, "rev-parse", "HEAD").strip()


def split(count: int = 24, *, held_out: int = 12, seed: int = 0) -> tuple[tuple[Broken, ...], tuple[Broken, ...]]:
    """Return the first `count` repositories as (train, held out), dealt by the seed; no repository is in both."""
    all_of_them = [generate(number) for number in range(count)]
    random.Random(f"split {seed}").shuffle(all_of_them)
    return tuple(all_of_them[held_out:]), tuple(all_of_them[:held_out])


def _filled(text: str, limit: int) -> str:
    return text.replace("LIMIT", str(limit))
