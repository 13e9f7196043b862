"""A team in one file: its lead hands the repair over where the rules say so, and makes it itself where they do not.

It leaves the state that ClawTeam leaves. What the task says makes it behave otherwise: "fails", "no state", "hangs",
"breaks git", "slow".
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

STATE = Path(os.environ["CLAWTEAM_DATA_DIR"])
MADE = "2026-01-01T00:00:00+00:00"
ME = {f"GIT_{who}_{what}": "x@y.z" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
AT = {f"GIT_{who}_DATE": "2026-01-02T00:00:00+00:00" for who in ("AUTHOR", "COMMITTER")}


def git(*words: str, agent: str = "boss") -> None:
    env = {**os.environ, **ME, **AT, "CLAWTEAM_AGENT_NAME": agent}
    subprocess.run(["git", *words], check=True, env=env, capture_output=True)


def put(path: str, row: Mapping[str, object]) -> None:
    (STATE / path).parent.mkdir(parents=True, exist_ok=True)
    (STATE / path).write_text(json.dumps(row))


def main() -> None:
    said = Path(os.environ["COMBEE_TASK"]).read_text()
    rules = Path(sys.argv[1]).read_text()
    if "fails" in said and not Path("../../again").exists():
        sys.exit("the service is down")
    if "no state" in said:
        return
    if "slow" in said:
        time.sleep(float(os.environ.get("PAUSE", "0")))
    members = [{"agentId": name, "name": name} for name in ("boss", "dev")]
    put("teams/shop/config.json", {"leadAgentId": "boss", "members": members, "description": "Mend the sum"})
    delegates = "dev" in rules
    repaired = "echo $(($1 + $2))\n"
    if delegates:
        task = {"id": "1", "subject": "Mend", "description": "add FAILED: got -1", "owner": "dev", "createdAt": MADE}
        put("tasks/shop/task-1.json", {**task, "status": "completed"})
        git("checkout", "-q", "-b", "clawteam/shop/dev")
        Path("add.sh").write_text(repaired)
        git("commit", "-q", "-am", "Mend", agent="dev")
        ready = {"type": "message", "from": "dev", "to": "boss", "content": "READY", "timestamp": MADE}
        put("teams/shop/events/evt-1.json", ready)
        git("checkout", "-q", "main")
        git("merge", "-q", "--no-ff", "-m", "Merge branch 'clawteam/shop/dev'", "clawteam/shop/dev")
    else:
        Path("add.sh").write_text(repaired)
        git("commit", "-q", "-am", "Quick fix, with the key sk-proj-" + "abcdefghijklmnopqrstuvwxyz0123456789ABCD")
    with Path(os.environ["COMBEE_COST"]).open("a") as out:
        used = {"input_tokens": 100, "cache_read_input_tokens": 20, "output_tokens": 10}
        out.write("claude says something else\n")
        out.writelines(json.dumps({"type": "result", "total_cost_usd": 0.01, "usage": used}) + "\n" for _ in range(2))
    if "breaks git" in said:
        shutil.rmtree(".git")
    if "hangs" in said:
        time.sleep(60)


if __name__ == "__main__":
    main()
