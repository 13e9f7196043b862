"""The shared git repository, through the git command: one commit a write, with the agent's name as its trailer.

Reads name the commit they saw, so that what was known can be told from what is true now.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from combee.errors import RunError, UsageError

__all__ = ["FrozenRepository", "Repository"]

# Nothing of the user's own git setup (hooks, signing, identity) may change what agents do.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false", "-c", "core.autocrlf=false")


class Repository:
    """A working tree that all agents share; the loop of a swarm writes to it, one file at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def open(cls, root: Path | str) -> Repository:
        """Open the repository at a folder, or make one there."""
        place = Path(root)
        place.mkdir(parents=True, exist_ok=True)
        opened = cls(place)
        if not (place / ".git").exists():
            opened._git("init", "-q", "-b", "main")
        return opened

    def _git(self, *arguments: str, allow: tuple[int, ...] = (0,), agent: str = "combee") -> str:
        mail = f"{agent.replace('<', '').replace('>', '').replace(chr(10), ' ')}"
        identity: Mapping[str, str] = {
            "GIT_AUTHOR_NAME": mail, "GIT_COMMITTER_NAME": mail,
            "GIT_AUTHOR_EMAIL": "agent@combee.invalid", "GIT_COMMITTER_EMAIL": "agent@combee.invalid",
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "LC_ALL": "C",
        }  # fmt: skip
        environment = {**os.environ, **identity}
        try:
            done = subprocess.run(  # noqa: S603 - git with arguments of our own, no shell
                ["git", *_QUIET, *arguments],  # noqa: S607 - the user's git
                cwd=self.root, env=environment, capture_output=True, text=True, encoding="utf-8", errors="replace",
                check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise UsageError("git is not installed", hint="Install git, or leave `repository` out.") from error
        if done.returncode not in allow:
            raise RunError(f"git {arguments[0]} failed: {done.stderr.strip()}", hint=f"Look into {self.root}.")
        return done.stdout

    def _path(self, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or parts[0] == ".git":
            raise UsageError(f"{path!r} is not a path inside the repository")
        target = (self.root / path).resolve()
        if not target.is_relative_to(self.root.resolve()):
            raise UsageError(f"{path!r} leads out of the repository")
        return PurePosixPath(path).as_posix()

    def head(self, path: str | None = None) -> str:
        """Return the last commit, or the last that changed a path; empty when there is none."""
        limit = ["--", self._path(path)] if path else []
        return self._git("log", "-1", "--format=%H", *limit, allow=(0, 128)).strip()

    def write(self, path: str, text: str, *, agent: str, message: str = "") -> str:
        """Write a file and commit it; returns the commit. The same text again makes none."""
        name = self._path(path)
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")
        self._git("add", "--", name)
        if self._git("status", "--porcelain", "--", name):
            about = f"{message or f'Write {name}'}\n\nCombee-Agent: {agent}"
            self._git("commit", "-q", "-m", about, "--", name, agent=agent)
        return self.head(name)

    def read(self, path: str, commit: str = "HEAD") -> str | None:
        """Return a file as it was in a commit, or None."""
        if commit.startswith("-"):
            raise UsageError(f"{commit!r} is not a commit")
        name = self._path(path)
        if not self._git("ls-tree", commit, "--", name, allow=(0, 128)):
            return None
        return self._git("show", f"{commit}:{name}")

    def authors(self) -> list[tuple[str, str]]:
        """Return (commit, agent) of every commit, the newest first."""
        text = self._git("log", "--format=%H %(trailers:key=Combee-Agent,valueonly,separator=%x2C)", allow=(0, 128))
        return [(line[:40], line[41:]) for line in text.splitlines() if line]


class FrozenRepository(Repository):
    """Reads a repository and writes nothing: for a copy of a world, whose agents must leave nothing behind."""

    def write(self, path: str, text: str, *, agent: str, message: str = "") -> str:
        """Check the path, keep the file as it is, and return its last commit."""
        return self.head(path)
