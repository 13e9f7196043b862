"""A swarm of readers and workers with 30 questions; goes on where it was when started again."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from combee.swarm import USER, PolicyModel, Reply, Swarm, View, World, publish


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("office", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(path: Path) -> None:
    office = load(Path(__file__).with_name("conftest.py")).office
    with World.open(path) as world:

        def policy(view: View) -> Reply | str:
            world.flush()  # so that a kill can come between any two replies
            sys.stdout.write(".")
            sys.stdout.flush()
            said: Reply | str = office(view)
            return said

        swarm = Swarm(world, {"": PolicyModel(policy)})
        with world.step():
            for number in range(20):
                publish(world, f"doc/{number:04d}", f"k{number:04d}=v{number * 7:04d}", "author")
            for number in range(4):
                world.spawn(f"reader{number}", role="reader")
                world.spawn(f"worker{number}", role="worker", mode="serial")
                first = 5 * number
                swarm.tell(f"reader{number}", f"doc/{first:04d}..{first + 4:04d}", key=f"read/{number}")
            for number in range(30):
                swarm.ask(USER, f"find {number % 20:04d}", to=f"worker{number % 4}", key=f"q/{number}")
        asyncio.run(swarm.run())
        sys.stdout.write("done\n")


main(Path(sys.argv[1]))
