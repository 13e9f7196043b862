"""The scripted team as a program of its own: it reads the rules it is given and works in the folder it starts in.

`combee learn` starts it as it would start any team: `environment.program = "python .../program.py {rules}"`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.team_lab.learning import stance_of
from benchmarks.team_lab.play import work
from benchmarks.team_lab.repositories import generate
from combee.kernel.playbook import from_text


def main(rules: Path) -> None:
    """Repair the repository that we are in; it says itself from which seed it was made."""
    seed = re.search(r"Content pipeline (\d+)", Path("pipeline/__init__.py").read_text(encoding="utf-8"))
    if seed is None:
        raise SystemExit("this is no repository of the laboratory")
    time.sleep(float(os.environ.get("TEAM_PAUSE", "0")))
    stance = stance_of(from_text(rules.read_text(encoding="utf-8")).playbook)
    cost = work(generate(int(seed[1])), Path.cwd(), Path(os.environ["CLAWTEAM_DATA_DIR"]), stance)
    # A price that is made up: a dollar for a million tokens.
    said = {"dollars": cost.tokens / 1e6, "usage": {"input_tokens": cost.tokens, "output_tokens": 0}}
    Path(os.environ["COMBEE_COST"]).write_text(json.dumps(said) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
