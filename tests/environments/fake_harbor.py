"""A stand-in for `harbor`: the same words in, folders as Harbor 0.26 wrote them (recorded/) out; nothing is run.

Its agent is the one of benchmarks/harbor_lab: it tries its first idea of an option, asks for help, and ends after three
commands; what the extra instruction or the skill says of a command that worked, it uses at once. A line in a task's
instruction makes a trial end otherwise: "service fails", "no result", "slow".
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded"
FIRST = {"pack": "--zip", "seal": "--key", "label": "--name", "route": "--via", "weigh": "--kg", "insure": "--sum"}


def words_of(task: Path) -> dict[str, str]:
    """Read what the task's own tool wants."""
    return dict(re.findall(r"(\w+)\) word=(--\w+)", (task / "environment/bin/depot").read_text(encoding="utf-8")))


def trial(task: Path, taught: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the steps of a trial, and whether all was done."""
    question = (task / "instruction.md").read_text(encoding="utf-8")
    wanted, known = words_of(task), dict(re.findall(r"`depot (\w+) (--\w+) [^`]*` worked", taught))
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": f"{question}\n\n{taught}".strip()}]
    done = 0

    def command(line: str, said: str, code: int) -> None:
        number = len(steps)
        call = {"tool_call_id": f"c{number}", "function_name": "bash", "arguments": {"command": line}}
        result = {"source_call_id": f"c{number}", "content": said, "extra": {"exit_code": code}}
        observation = {"results": [result]}
        shown = {"step_id": number + 1, "source": "agent", "message": "", "tool_calls": [call]}
        steps.append({**shown, "observation": observation})

    plan = re.findall(r"^\d+\. (\w+) (\S+)$", question, re.MULTILINE)
    for verb, thing in plan:
        option = known.get(verb, FIRST[verb])
        for tried in dict.fromkeys((option, wanted[verb])):
            if len(steps) > 3:
                return steps, False
            if tried == wanted[verb]:
                command(f"depot {verb} {tried} {thing}", f"depot: {verb} done\n", 0)
                done += 1
                break
            command(f"depot {verb} {tried} {thing}", f"depot: unknown option: {tried}\n", 2)
            if len(steps) <= 3:
                command(f"depot {verb} --help", f"usage: depot {verb} {wanted[verb]} FILE\n", 0)
    return steps, done == len(plan)


def write(job: Path, task: Path, taught: str, price: float) -> None:
    """Write the folder of one trial."""
    question = (task / "instruction.md").read_text(encoding="utf-8")
    name = f"{task.name}__x"
    folder = job / name
    shutil.copytree(RECORDED / "trial", folder, ignore=shutil.ignore_patterns("result.json"))
    for path in (folder / "config.json", folder / "lock.json"):
        path.write_text(_put(path.read_text(encoding="utf-8"), task, job, name), encoding="utf-8")
    if "slow" in question and "NO_PAUSE" not in os.environ:
        time.sleep(float(re.findall(r"slow (\d+)", question)[0]))
    steps, done = trial(task, taught)
    if "no result" in question:
        return
    trajectory = json.loads((folder / "agent/trajectory.json").read_text(encoding="utf-8"))
    (folder / "agent/trajectory.json").write_text(json.dumps({**trajectory, "steps": steps}), encoding="utf-8")
    (folder / "verifier/reward.txt").write_text(f"{int(done)}\n", encoding="utf-8")
    result = json.loads(_put((RECORDED / "trial/result.json").read_text(encoding="utf-8"), task, job, name))
    result["id"], result["task_name"] = f"{job.name}/{name}", task.name
    result["agent_result"] |= {"cost_usd": price * (len(steps) - 1) if price else None}
    result["verifier_result"] = {"rewards": {"reward": float(done)}}
    if "service fails" in question:
        said = {"exception_type": "RateLimitError", "exception_message": "429: too many", "exception_traceback": ""}
        result |= {"exception_info": {**said, "occurred_at": result["finished_at"]}, "reward_valid": False}
    half = folder / "result.json.part"
    half.write_text(json.dumps(result, indent=4), encoding="utf-8")
    half.rename(folder / "result.json")


def _put(text: str, task: Path, job: Path, name: str) -> str:
    return text.replace("TASK", str(task)).replace("JOB", str(job)).replace("TRIAL", name)


def main() -> int:
    """Do what `harbor run` does."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write("0.26.0\n")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["run"])
    parser.add_argument("-c", dest="config", type=Path, required=True)
    parser.add_argument("-o", dest="jobs", type=Path, required=True)
    parser.add_argument("--job-name", required=True)
    parser.add_argument("-n", type=int)
    parser.add_argument("-a", dest="agent")
    parser.add_argument("-m", dest="model")
    parser.add_argument("-y", action="store_true")
    parser.add_argument("-q", action="store_true")
    parser.add_argument("-e", dest="env")
    parser.add_argument("--extra-instruction-path", type=Path)
    parser.add_argument("--skill", type=Path)
    parser.add_argument("--price", type=float, default=0.01)
    given = parser.parse_args()
    if given.agent == "nobody":
        sys.stderr.write("Error: Unknown agent: nobody\n")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    taught = ""
    if given.extra_instruction_path:
        taught = given.extra_instruction_path.read_text(encoding="utf-8")
    elif given.skill:
        taught = "\n".join(path.read_text(encoding="utf-8") for path in given.skill.glob("*/SKILL.md"))
    job = given.jobs / given.job_name
    job.mkdir(parents=True)
    (job / "job.log").write_text((RECORDED / "job.log").read_text(encoding="utf-8"), encoding="utf-8")
    for one in json.loads(given.config.read_text(encoding="utf-8"))["tasks"]:
        write(job, Path(one["path"]), taught, given.price)
    shutil.copy(RECORDED / "job-result.json", job / "result.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
