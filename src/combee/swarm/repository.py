"""The shared git repository, through the git command: one commit a write, with the agent's name as its trailer.

Paths are checked: none leads out of the repository or into `.git`, and an agent's `*` is a name, no pattern. Nothing of
the user's own configuration plays a part; errors say what git said.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from combee.errors import LockedError, RunError, UsageError
from combee.kernel.journal.lock import RunLock
from combee.run.git import git, git_or_none, run_git
from combee.swarm.briefing import spelled

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

    def name(self, path: str) -> str:
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
        name = self.name(path)
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

    def merge(self, branch: str, *, agent: str, refuse: Callable[[str, bool], str]) -> list[str]:
        """Merge a branch into the one that is checked out, whole or not at all; returns the paths that this changes.

        The merge is made beside the working tree, which then goes forward to it. So a conflict, or a kill while there
        is one, leaves nothing behind, and a merge that the user is in the middle of stays as it is.

        Args:
            branch: Its name.
            agent: Who merges.
            refuse: Says of a path why it must not be merged; True: the merge changes it, False: a commit that comes
                with it does.

        Raises:
            ConflictError: The branch and what was merged before it change the same lines, or the user works there.
            UsageError: There is no such branch, none is checked out, or a path was refused.
            RunError: git failed.
        """
        with self._alone():
            return self._merge(branch, agent, refuse)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep the merges of other processes out: git's own lock begins only after it has read what is there."""
        folder = Path(git(self.root, "rev-parse", "--absolute-git-dir").strip()) / "combee"
        try:
            folder.mkdir(exist_ok=True)
            lock = RunLock(folder)
        except LockedError as error:
            raise ConflictError("nothing was merged: another merge is under way; merge again") from error
        except OSError as error:
            raise UsageError(f"nothing can be merged: {folder}: {error.strerror}") from error
        try:
            yield
        finally:
            lock.release()

    def _merge(self, branch: str, agent: str, refuse: Callable[[str, bool], str]) -> list[str]:
        into = (git_or_none(self.root, "symbolic-ref", "-q", "--short", "HEAD") or "").strip()
        head, other = (self._tip(f"refs/heads/{name}") for name in (into, branch))
        if not into or not head:
            why = f"{into} has no commit yet" if into else "no branch is checked out there"
            raise UsageError(f"nothing can be merged in {self.root}: {why}")
        if not other:
            raise UsageError(f"there is no branch {branch[:100]!r}")
        commits = f"{head}..{other}"
        if not git(self.root, "rev-list", "-n", "1", commits):
            return []
        made = run_git(self.root, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", head, other)
        tree, *torn = [name for name in made.stdout.decode("utf-8", "replace").split("\0") if name] or [""]
        if made.returncode == 1 and torn:
            mend = f"In your worktree: git merge {into}, mend, commit, and merge again"
            raise ConflictError(f"conflict in {', '.join(map(spelled, torn))}; nothing was merged. {mend}")
        if made.returncode:
            raise RunError(f"git merge-tree failed in {self.root}: {made.stderr.decode('utf-8', 'replace').strip()}")
        names = ("--name-only", "--no-renames", "-z")
        changed = _split(git(self.root, "diff-tree", "-r", *names, head, tree))
        on_the_way = _split(git(self.root, "log", "--format=", *names, commits))
        for path, lasts in (*((path, True) for path in changed), *((path, False) for path in on_the_way)):
            if why := refuse(path, lasts):
                raise UsageError(why)
        message = f"Merge {branch}\n\nCombee-Agent: {agent}"
        mine = _QUIET | _identity(agent)
        commit = git(self.root, "commit-tree", tree, "-p", head, "-p", other, "-m", message, environment=mine).strip()
        try:
            forward = ("merge", "-q", "--ff-only", "--no-squash", "--no-autostash", "--no-verify-signatures")
            git(self.root, *forward, commit, environment=mine)
        except RunError as error:
            if "cannot lock ref" in error.message:  # another commit came first, when git had written the files
                git(self.root, "read-tree", "-m", "-u", commit, "HEAD")
                raise ConflictError(f"nothing was merged: {into} moved meanwhile; merge again") from error
            raise ConflictError(f"nothing was merged: {error.message}") from error
        return changed

    def _tip(self, reference: str) -> str:
        """Return the commit that a branch names; empty where there is none of exactly that name."""
        return (git_or_none(self.root, "show-ref", "--verify", "--hash", reference) or "").strip()

    def files(self) -> list[str]:
        """Return the paths of all files of the last commit, in order."""
        return _split(git_or_none(self.root, "ls-tree", "-r", "-z", "--name-only", "HEAD") or "")

    def read(self, path: str, commit: str = "HEAD") -> str | None:
        """Return a file as it was in a commit, or None where it is not there.

        Raises:
            UsageError: The path lies outside of the repository, or the commit is no name of one.
        """
        if commit.startswith("-"):
            raise UsageError(f"{commit!r} is not a commit")
        return git_or_none(self.root, "cat-file", "blob", f"{commit}:{self.name(path)}")

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
        name = self.name(path)
        self._written[name] = text
        return self._last(name)

    def read(self, path: str, commit: str = "HEAD") -> str | None:
        """Return what was written here, else what stands in the commit."""
        found = super().read(path, commit)
        return self._written.get(self.name(path), found) if commit == "HEAD" else found


def _split(names: str) -> list[str]:
    return [name for name in names.split("\0") if name]


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
