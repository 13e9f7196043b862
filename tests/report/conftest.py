"""Real runs to report on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from combee.kernel.journal import JSON, Journal
from combee.kernel.learn import LearnConfig, LearnResult, LiveTasks, evaluate, learn
from combee.kernel.playbook import Playbook
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.tasks import load


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., tuple[Path, LearnResult]]:
    """Make a real run on generated tasks with the embedded agent; settings go to `LearnConfig`."""

    def make(
        name: str = "run",
        *,
        start: Playbook | None = None,
        forget: float | None = None,
        rows: int = 60,
        **settings: JSON,
    ) -> tuple[Path, LearnResult]:
        tasks = load("tags", sizes=(rows, 20, 0))
        config = LearnConfig.from_json({"batch": 20, "eval_every": 20, **settings})
        generator = LexicalGenerator()
        with Journal.open(tmp_path / name) as journal:
            chosen: dict[str, JSON] = {"batch": 20, **settings}
            journal.set_meta("spec", {"tasks": {"source": "tags"}, "learn": chosen, "start": None})
            result = asyncio.run(
                learn(
                    tasks.train,
                    LiveTasks(generator, LexicalReflector(), tasks.scorer),
                    LexicalCurator(forget=forget),
                    config=config,
                    start=start,
                    validate=lambda book, scope: evaluate(generator, tasks.val, tasks.scorer, book, scope=scope),
                    journal=journal,
                )
            )
        return tmp_path / name, result

    return make
