"""What ClawTeam 0.2.0 does not record: who made a commit, and every transition of a task.

`install_trailer` puts a git hook into a repository that adds `Agent: NAME` to each commit message. `record_transitions`
compares the task files with what it saw last; `install_shim` puts a `clawteam` before the real one that calls it.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from combee.errors import UsageError
from combee.run.git import git
from combee.team.state import TRANSITIONS, json_object, text_of

__all__ = ["install_shim", "install_trailer", "record_transitions"]

_MARK = "# combee: commit trailer"
# A merge by ClawTeam first commits what lies in the worktree of the agent: that work is the agent's, not the merger's.
_HOOK = f"""#!/bin/sh
{_MARK}
agent="$CLAWTEAM_AGENT_NAME"
found=$(sed -n '1s/^\\[clawteam\\] .*checkpoint: \\([A-Za-z0-9_.-]*\\).*$/\\1/p' "$1")
[ -n "$found" ] && agent="$found"
# The message of a merge has no newline at its end, and a trailer would be joined to the subject.
[ -n "$(tail -c1 "$1")" ] && echo >> "$1"
[ -n "$agent" ] && git interpret-trailers --in-place --if-exists doNothing --trailer "Agent: $agent" "$1"
exit 0
"""


def install_trailer(repository: Path) -> Path:
    """Install the `prepare-commit-msg` hook, which all worktrees of the repository share; return its path.

    Raises:
        UsageError: The repository has another hook of that name.
    """
    shared = Path(git(repository, "rev-parse", "--git-common-dir").strip())
    path = (repository / shared / "hooks" / "prepare-commit-msg").resolve()
    if path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace"):
        raise UsageError(f"{path} exists already.", hint=f"Add these lines to it by hand:\n{_HOOK}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_HOOK, encoding="utf-8")
    path.chmod(0o755)
    return path


def install_shim(folder: Path, real: Path, data: Path, team: str = "") -> Path:
    """Write a `clawteam` into `folder` (to be first in the PATH) that notes transitions after each command.

    Without a team it notes those of all teams.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "clawteam"
    note = "import sys; from pathlib import Path; from combee.team.hooks import record_transitions as r; "
    note += "r(Path(sys.argv[1]), sys.argv[2])"
    command = shlex.join([sys.executable, "-c", note, str(data), team])
    path.write_text(
        f'#!/bin/sh\n{shlex.quote(str(real))} "$@"\ncode=$?\n{command} || true\nexit $code\n', encoding="utf-8"
    )
    path.chmod(0o755)
    return path


def record_transitions(data: Path, team: str = "", *, by: str | None = None, at: str | None = None) -> int:
    """Append each change of a task's status or owner since the last call; return how many.

    Args:
        data: The data folder of ClawTeam.
        team: The team. [all]
        by: Who caused it; by default who holds the task, or held it, else `CLAWTEAM_AGENT_NAME`, else its owner: a
            command of one agent also notes what others did meanwhile.
        at: When, ISO 8601; by default now.
    """
    if not team:
        return sum(record_transitions(data, one.name, by=by, at=at) for one in sorted((data / "tasks").glob("*")))
    folder = data / "tasks" / team
    caller = os.environ.get("CLAWTEAM_AGENT_NAME", "")
    at = datetime.now(UTC).isoformat() if at is None else at
    path = folder / TRANSITIONS
    kept = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    last: dict[str, tuple[str, str]] = {}
    held: dict[str, str] = {}
    for line in kept.splitlines():
        if row := json_object(line):  # a line that a kill cut off is none
            last[text_of(row, "task")] = text_of(row, "to"), text_of(row, "owner")
            held[text_of(row, "task")] = text_of(row, "held")
    rows: list[str] = []
    for file in sorted(folder.glob("task-*.json")):
        task = json_object(file.read_text(encoding="utf-8", errors="replace"))
        if task is None:  # being written; the next call sees it
            continue
        name, now = text_of(task, "id"), (text_of(task, "status"), text_of(task, "owner"))
        if last.get(name) != now:
            before, holder = last.get(name, ("", ""))[0], text_of(task, "lockedBy")
            moved = before not in {"", now[0]}  # who works on a task sets its state; else it was made, or handed over
            worker = (holder or held.get(name, "") or caller or now[1]) if moved else caller
            found = {
                "task": name,
                "from": before,
                "to": now[0],
                "owner": now[1],
                "held": holder,
                "by": worker if by is None else by,
                "at": at,
            }
            rows.append(json.dumps(found) + "\n")
    if rows:
        with path.open("a", encoding="utf-8") as out:
            out.write(("" if kept.endswith("\n") or not kept else "\n") + "".join(rows))
    return len(rows)
