"""Write ten tasks for Harbor into a folder: a depot whose tool has words of its own, which nobody can guess.

Six to learn from and four to be judged by; `insure` is never taught, so one of the four can never be learned.
"""

import sys
from pathlib import Path

TRAIN = ("pack seal", "seal label", "label route", "route weigh", "weigh pack", "pack route")
HELD_OUT = ("pack label", "seal route", "weigh seal", "pack insure")
WORDS = {
    "pack": "--crate",
    "seal": "--wax",
    "label": "--tag",
    "route": "--lane",
    "weigh": "--scale",
    "insure": "--bond",
}

DEPOT = f"""#!/bin/sh
# The depot's own tool: depot VERB OPTION FILE
case "$1" in
{"".join(f"  {verb}) word={word};;" + chr(10) for verb, word in WORDS.items())}\
  *) echo "depot: unknown command: $1" >&2; exit 2;;
esac
if [ "$2" = --help ]; then echo "usage: depot $1 $word FILE"; exit 0; fi
if [ "$2" != "$word" ]; then echo "depot: unknown option: $2" >&2; exit 2; fi
echo "$1 $3" >> /app/depot.log && echo "depot: $1 done"
"""
CONFIG = """schema_version = "1.4"

[metadata]
difficulty = "easy"

[agent]
timeout_sec = 120.0

[verifier]
timeout_sec = 60.0

[environment]
build_timeout_sec = 600.0
"""
DOCKERFILE = "FROM ubuntu:24.04\nCOPY bin/ /usr/local/bin/\nWORKDIR /app\n"


def write(path: Path, text: str, *, runs: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755 if runs else 0o644)


def make(folder: Path, name: str, verbs: list[str]) -> None:
    thing = f"{name}.txt"
    steps = "\n".join(f"{number}. {verb} {thing}" for number, verb in enumerate(verbs, 1))
    write(
        folder / "instruction.md",
        f"Bring /app/{thing} out of the house with the tool `depot`, in this order:\n\n{steps}\n",
    )
    write(folder / "task.toml", CONFIG)
    write(folder / "environment/Dockerfile", DOCKERFILE)
    write(folder / "environment/bin/depot", DEPOT, runs=True)
    solution = "\n".join(f"depot {verb} {WORDS[verb]} {thing}" for verb in verbs)
    write(folder / "solution/solve.sh", f"#!/bin/sh\nset -e\n{solution}\n", runs=True)
    wanted = "\\n".join(f"{verb} {thing}" for verb in verbs)
    test = f"""[ "$(cat /app/depot.log)" = "$(printf '{wanted}')" ] && r=1 || r=0"""
    write(folder / "tests/test.sh", f"#!/bin/sh\n{test}\necho $r > /logs/verifier/reward.txt\n", runs=True)


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "tasks")
    for number, pair in enumerate((*TRAIN, *HELD_OUT)):
        verbs = pair.split()
        split = "train" if number < len(TRAIN) else "test"
        make(place / split / "-".join(verbs), f"box{number}", verbs)
