"""The shared git repository, through the git command: one commit a write, with the agent's name as its trailer.

Paths are checked: none leads out of the repository or into `.git`, and an agent's `*` is a name, no pattern. Nothing of
the user's own configuration plays a part; errors say what git said.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from combee.errors import RunError, UsageError
from combee.run.git import git, git_or_none

__all__ = ["ConflictError", "FrozenRepository", "Repository"]

# Nothing of the user's own git setup (hooks, signing, line ends) may change what agents do.
_SETTINGS = {"core.hooksPath": os.devnull, "commit.gpgsign": "false", "core.autocrlf": "false"}
_QUIET = {"GIT_CONFIG_COUNT": str(len(_SETTINGS))}
_QUIET |= {f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(_SETTINGS)}
_QUIET |= {f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(_SETTINGS.values())}


class ConflictError(UsageError):
    """A write that would have taken away what another wrote; the message shows what is there."""


class Repository:
    """A working tree that all agents share; the loop of a swarm writes to it, one file at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def open(cls, root: Path | str) -> Repository:
        """Open the repository at a folder, or make one there.

        Raises:
            RunError: git is missing or failed.
        """
        place = Path(root)
        place.mkdir(parents=True, exist_ok=True)
        if not (place / ".git").exists():
            git(place, "init", "-q", "-b", "main")
        return cls(place)

    @classmethod
    def at(cls, root: Path) -> Repository:
        """Open the repository that begins at a folder; makes none, so that a slip of the pen is no new repository.

        Raises:
            UsageError: None begins there.
        """
        if (root / ".git").exists():
            return cls(root)
        if not root.is_dir():
            raise UsageError(f"there is no git repository at {root}", hint=f"Make one: git init {root}")
        above = git_or_none(root, "rev-parse", "--show-toplevel")
        hint = f"Make it one: git init {root}" if above is None else f"It lies inside of one: name {above.strip()}"
        raise UsageError(f"{root} is not a git repository", hint=hint)

    def _name(self, path: str) -> str:
        """Return the path as git names it.

        Raises:
            UsageError: It lies outside of the repository, or no file can be called so.
        """
        pure = PurePosixPath(path)
        if not pure.parts or pure.is_absolute() or ".." in pure.parts or pure.parts[0] == ".git":
            raise UsageError(f"{path!r} is not a path inside the repository")
        try:
            inside = (self.root / path).resolve().is_relative_to(self.root.resolve())
        except (OSError, ValueError, RuntimeError) as error:  # too long, a zero byte, a circle of links
            raise UsageError(f"{path[:100]!r} is no name for a file: {error}") from error
        if not inside:
            raise UsageError(f"{path!r} leads out of the repository")
        return pure.as_posix()

    def write(self, path: str, text: str, *, agent: str) -> str:
        """Write a file and commit it; returns the last commit that changed it. The same text again makes none.

        Raises:
            ConflictError: There is work in the file that no commit holds.
            UsageError: The path cannot be written.
            RunError: git failed; the file is as it was.
        """
        name = self._name(path)
        target = self.root / name
        try:
            if any(part.is_symlink() for part in (target, *target.parents) if part.is_relative_to(self.root)):
                raise UsageError(f"{path[:100]!r} is a link, or lies behind one")
            before = target.read_bytes() if target.is_file() else None
            if git(self.root, "status", "--porcelain", "--ignored", "--", name, environment=_QUIET):
                raise ConflictError(_uncommitted(name, target))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise UsageError(f"{path[:100]!r} cannot be written: {error.strerror or error}") from error
        try:
            git(self.root, "add", "--", name, environment=_QUIET)
            if git(self.root, "status", "--porcelain", "--", name, environment=_QUIET):
                message = f"Write {name}\n\nCombee-Agent: {agent}"
                git(self.root, "commit", "-q", "-m", message, "--", name, environment=_QUIET | _identity(agent))
        except RunError:
            target.unlink() if before is None else target.write_bytes(before)
            git_or_none(self.root, "reset", "-q", "--", name)
            raise
        return self._last(name)

    def changed(self, branch: str) -> list[str]:
        """Return the paths that a branch changes, counted from where it left.

        Raises:
            UsageError: There is no such branch.
        """
        if (
            branch.startswith("-")
            or git_or_none(self.root, "rev-parse", "-q", "--verify", f"refs/heads/{branch}") is None
        ):
            raise UsageError(f"there is no branch {branch[:100]!r}")
        names = git(self.root, "diff", "--name-only", "--no-renames", "-z", f"HEAD...refs/heads/{branch}")
        return [name for name in names.split("\0") if name]

    def merge(self, branch: str, *, agent: str) -> None:
        """Merge a branch into the one that is checked out: whole, or not at all.

        Raises:
            ConflictError: The branch and what was merged before it change the same lines, or the user works there.
            RunError: git failed.
        """
        mine = _QUIET | _identity(agent)
        message = f"Merge {branch}\n\nCombee-Agent: {agent}"
        try:
            git(
                self.root,
                "merge",
                "-q",
                "--no-ff",
                "--no-edit",
                "-m",
                message,
                f"refs/heads/{branch}",
                environment=mine,
            )
        except RunError as error:
            torn = git_or_none(self.root, "diff", "--name-only", "-z", "--diff-filter=U") or ""
            if git_or_none(self.root, "rev-parse", "-q", "--verify", "MERGE_HEAD") is None:
                raise ConflictError(f"nothing was merged: {error.message}") from error
            git(self.root, "merge", "--abort")
            into = (git_or_none(self.root, "branch", "--show-current") or "").strip() or "HEAD"
            files = ", ".join(name for name in torn.split("\0") if name)
            mend = f"In your worktree: git merge {into}, mend, commit, and merge again"
            raise ConflictError(f"conflict in {files}; nothing was merged. {mend}") from error

    def files(self) -> list[str]:
        """Return the paths of all files of the last commit, in order."""
        return [
            name
            for name in (git_or_none(self.root, "ls-tree", "-r", "-z", "--name-only", "HEAD") or "").split("\0")
            if name
        ]

    def read(self, path: str, commit: str = "HEAD") -> str | None:
        """Return a file as it was in a commit, or None where it is not there.

        Raises:
            UsageError: The path lies outside of the repository, or the commit is no name of one.
        """
        if commit.startswith("-"):
            raise UsageError(f"{commit!r} is not a commit")
        return git_or_none(self.root, "cat-file", "blob", f"{commit}:{self._name(path)}")

    def _last(self, name: str) -> str:
        """Return the last commit that changed a path; empty when there is none."""
        return (git_or_none(self.root, "log", "-1", "--format=%H", "--", name) or "").strip()


class FrozenRepository(Repository):
    """Reads a repository and writes nothing there: what agents of a copied world write is gone with the copy."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._written: dict[str, str] = {}

    def write(self, path: str, text: str, *, agent: str) -> str:
        """Keep the text for those who read it here, and return the last commit of the path."""
        name = self._name(path)
        self._written[name] = text
        return self._last(name)

    def read(self, path: str, commit: str = "HEAD") -> str | None:
        """Return what was written here, else what stands in the commit."""
        found = super().read(path, commit)
        return self._written.get(self._name(path), found) if commit == "HEAD" else found


def _uncommitted(name: str, target: Path) -> str:
    """Return what an agent must know of a file in which the user is at work."""
    what = f"conflict: {name} holds work of the user that is not committed; leave it, or ask the user to commit it"
    try:
        return f"{what}. It says now:\n{target.read_text(encoding='utf-8', errors='replace')}"
    except OSError:
        return f"{what} (it is deleted)"


def _identity(agent: str) -> dict[str, str]:
    name = "".join(character for character in agent if character not in "<>\n") or "agent"
    mail = "agent@combee.invalid"
    return {"GIT_AUTHOR_NAME": name, "GIT_COMMITTER_NAME": name, "GIT_AUTHOR_EMAIL": mail, "GIT_COMMITTER_EMAIL": mail}
