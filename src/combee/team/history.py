"""The git history of a team's repository: who changed what, which branches came in, and what the lead edited.

ClawTeam works on branches `clawteam/{team}/{agent}` and deletes a branch when it is merged, so merge commits are read.
A lead edits in three ways: a commit of its own, an edit inside a merge commit, or files never committed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Literal

from combee.run.git import git, git_or_none
from combee.team.state import moment

__all__ = ["Commit", "LeadEdit", "TeamHistory", "is_production", "is_test", "read_history"]

_MERGE = re.compile(r"Merge branch '(?P<branch>clawteam/[^']+)'")
# No message of a commit holds a zero byte. Each field begins with a letter, so that two of them mean a new commit only.
_FORMAT = "%x00%x00h%H%x00p%P%x00a%aI%x00s%s%x00t%(trailers:key=Agent,valueonly,separator=%x2C)%x00"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit since the start of the team.

    `signed`: the author is from the trailer; otherwise it is concluded from the branch. `merged` names the agent whose
    branch a merge brought in; `edited` are files of a merge that differ from what git would have merged, `resolved`
    those of them that were in conflict. `landed`: it is part of the base branch.
    """

    sha: str
    at: datetime
    agent: str
    signed: bool
    subject: str
    files: tuple[str, ...]
    landed: bool
    merged: str | None = None
    edited: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeadEdit:
    """Production code changed by the lead."""

    kind: Literal["commit", "merge", "uncommitted"]
    path: str
    where: str
    """The commit, or "working tree"."""


@dataclass(frozen=True, slots=True)
class TeamHistory:
    """Commits oldest first, and files of the base work tree that differ from its last commit."""

    base: str
    commits: tuple[Commit, ...]
    uncommitted: tuple[str, ...]

    def lead_edits(self, lead: str) -> tuple[LeadEdit, ...]:
        """Return every edit of production code that the lead made, in one of the three ways.

        Files left uncommitted in the base work tree count as the lead's: workers have work trees of their own.
        """
        found: list[LeadEdit] = []
        for commit in self.commits:
            if commit.agent != lead:
                continue
            free = [path for path in commit.edited if path not in commit.resolved]
            found += [LeadEdit("merge", path, commit.sha) for path in free if is_production(path)]
            if commit.merged is None:
                found += [LeadEdit("commit", path, commit.sha) for path in commit.files if is_production(path)]
        found += [LeadEdit("uncommitted", path, "working tree") for path in self.uncommitted if is_production(path)]
        return tuple(found)


_ENDINGS = """
py pyi pyx js jsx mjs cjs ts tsx mts go rs java kt kts scala groovy clj cljs c h cc cpp cxx hh hpp cu cs fs vb swift m
mm rb php pl pm lua r jl ex exs erl hs ml mli elm dart zig nim sol sql sh bash ps1 vue svelte css scss less html
"""
_CODE = frozenset(_ENDINGS.split())
"""What the names of files with code end in."""
_TEST_FOLDERS = frozenset({"tests", "test", "spec", "specs", "__tests__", "e2e", "testdata", "testing", "fixtures"})
_TEST_FILE = re.compile(
    r"test_.*|conftest\.py|.*[_.-](?:tests?|spec)\.\w+|.*(?:Tests?|Spec|IT)\.(?:java|kts?|scala|groovy|cs|swift|php)"
)


def is_code(path: str) -> bool:
    """Return whether a path is one of code, by the ending of its name."""
    return PurePosixPath(path).suffix.lstrip(".").lower() in _CODE


def is_test(path: str) -> bool:
    """Return whether a path is code of tests, by the habits of its language: folders, `test_a.py`, `a.spec.ts`."""
    pure = PurePosixPath(path)
    tests = _TEST_FOLDERS & set(pure.parts[:-1]) or _TEST_FILE.fullmatch(pure.name)
    return is_code(path) and bool(tests)


def is_production(path: str) -> bool:
    """Return whether a path is code that is not a test."""
    return is_code(path) and not is_test(path)


def read_history(repository: Path, team: str, lead: str, *, base: str | None = None, since: str = "") -> TeamHistory:
    """Read the history of `repository`.

    Args:
        repository: The work tree that branches are merged into.
        team: The team, for the names of its branches.
        lead: Who is taken as the author of unsigned commits on the base branch itself.
        base: The branch merged into; by default the one that is checked out.
        since: A commit; it and what lies before it is left out. By default the first commit.

    Raises:
        RunError: Not a repository, or git is older than 2.38.
    """
    base = base or git(repository, "rev-parse", "--abbrev-ref", "HEAD").strip()
    since = since or git(repository, "rev-list", "--max-parents=0", base).split()[0]
    landed = frozenset(git(repository, "rev-list", f"{since}..{base}").split())
    main_line = frozenset(git(repository, "rev-list", "--first-parent", f"{since}..{base}").split())
    refs = [base, *git(repository, "for-each-ref", "--format=%(refname)", f"refs/heads/clawteam/{team}/").split()]
    rows = _rows(git(repository, "log", "--topo-order", "--name-only", f"--format={_FORMAT}", *refs, f"^{since}"))
    owners = _owners(rows, _heads(repository, team), main_line)
    commits = [_commit(repository, row, owners, landed, lead) for row in reversed(rows)]
    status = git(repository, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    return TeamHistory(base, tuple(commits), tuple(sorted(entry[3:] for entry in status.split("\0") if entry)))


@dataclass(frozen=True, slots=True)
class _Row:
    sha: str
    parents: tuple[str, ...]
    at: str
    subject: str
    trailer: str
    files: tuple[str, ...]

    @property
    def branch(self) -> str | None:
        """The agent whose branch this merges."""
        found = _MERGE.match(self.subject)
        return found["branch"].rpartition("/")[2] if found and len(self.parents) > 1 else None


def _rows(log: str) -> list[_Row]:
    rows = []
    for part in log.split("\0\0")[1:]:
        sha, parents, at, subject, trailer, names = (field[1:] for field in part.split("\0"))
        files = tuple(sorted(filter(None, names.split("\n"))))
        rows.append(_Row(sha, tuple(parents.split()), at, subject, trailer.strip().partition(",")[0], files))
    return rows


def _heads(repository: Path, team: str) -> dict[str, str]:
    prefix = f"refs/heads/clawteam/{team}/"
    listed = git(repository, "for-each-ref", "--format=%(objectname) %(refname)", prefix).splitlines()
    return {line.split(" ", 1)[0]: line.rpartition("/")[2] for line in listed}


def _owners(rows: Sequence[_Row], heads: Mapping[str, str], main_line: frozenset[str]) -> dict[str, str]:
    """Return commit -> agent, walking back from the heads of branches and the second parents of merges."""
    by_sha = {row.sha: row for row in rows}
    starts = dict(heads)
    starts |= {row.parents[1]: row.branch for row in rows if row.branch is not None}
    owners: dict[str, str] = {}
    for start, agent in starts.items():
        at: str | None = start
        while at is not None and at in by_sha and at not in main_line and at not in owners:
            owners[at] = agent
            parents = by_sha[at].parents
            at = parents[0] if parents else None
    return owners


def _commit(repository: Path, row: _Row, owners: Mapping[str, str], landed: frozenset[str], lead: str) -> Commit:
    edited, resolved = _by_hand(repository, row) if len(row.parents) == 2 else ((), ())
    return Commit(
        sha=row.sha[:12],
        at=moment(row.at),
        agent=row.trailer or owners.get(row.sha, lead),
        signed=bool(row.trailer),
        subject=row.subject,
        files=row.files,
        landed=row.sha in landed,
        merged=(row.branch or owners.get(row.parents[1], "")) if len(row.parents) == 2 else None,
        edited=edited,
        resolved=resolved,
    )


def _by_hand(repository: Path, row: _Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files of a merge that git would not have made so, and those of them that were in conflict."""
    one, other = row.parents
    clean = git_or_none(repository, "merge-tree", "--write-tree", "--no-messages", "--name-only", one, other)
    conflicts: tuple[str, ...] = ()
    if clean is None:
        # Exit code 1 is a conflict; its files are then those that both sides changed.
        root = git(repository, "merge-base", one, other).strip()
        sides = (set(git(repository, "diff", "--name-only", root, side).split("\n")) for side in (one, other))
        conflicts = tuple(sorted(set.intersection(*sides) - {""}))
        changed = set(git(repository, "diff", "--name-only", one, row.sha).split("\n")) - {""}
        theirs = set(git(repository, "diff", "--name-only", other, row.sha).split("\n"))
        return tuple(sorted(changed & theirs)), conflicts
    tree = clean.split("\n", 1)[0]
    edited = git(repository, "diff", "--name-only", tree, row.sha).split("\n")
    return tuple(sorted(filter(None, edited))), conflicts
