"""Sends numbered messages in batches into a world and prints each number that is safe; to be killed at any moment."""

from __future__ import annotations

import sys
from pathlib import Path

from combee.swarm import World
from combee.swarm.mail import send

BATCH = 20


def main(path: Path, name: str, total: int) -> None:
    with World.open(path) as world:
        for start in range(0, total, BATCH):
            with world.step():
                for number in range(start, start + BATCH):
                    send(world, key=f"{name}/{number}", kind="tell", sender=name, recipient="box", body=f"{number}")
            world.flush()
            sys.stdout.write(f"{start + BATCH}\n")
            sys.stdout.flush()


main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
