"""A journal goes on only with the call that it began with; what differs is named, what changes nothing may change."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scripted_models import ScriptedModel
from combee.ace import AceGenerator
from combee.errors import BudgetError, CallError, CallErrorKind, RunError, UsageError
from combee.kernel.journal import Journal, Scope
from combee.kernel.learn import LearnConfig, LearnResult, LiveTasks, Rollout, Task, learn
from combee.kernel.learn.config import named_part
from combee.kernel.playbook import Playbook, digest, from_text
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.redaction import find_secrets
from combee.tasks import TaskSet, load

CONFIG = LearnConfig(batch=6, guard=False)


class Zzz:
    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        return Rollout(task.id, "zzz")


class Dead:
    """An agent behind a line that is down, in several ways."""

    def __init__(self, *ways: str, error: type[Exception] = CallError) -> None:
        self.ways = ways
        self.error = error
        self.calls = 0
        self.works = False

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        self.calls += 1
        if self.works:
            return await LexicalGenerator().generate(task, playbook, scope)
        if self.error is not CallError:
            raise self.error("used up")
        raise CallError(self.ways[int(task.id.rsplit("-")[-1]) % len(self.ways)], kind=CallErrorKind.CONNECTION)


@pytest.fixture(scope="module")
def tags() -> TaskSet:
    return load("tags", sizes=(12, 0, 0))


def run(
    tags: TaskSet, folder: Path, config: LearnConfig = CONFIG, *, generator: Any = None, **other: Any
) -> tuple[LearnResult, int]:
    """Run or go on; return the result and how many results were bought."""
    samples = other.pop("samples", tags.train)
    curator = other.pop("curator", LexicalCurator())
    roles = LiveTasks(generator or LexicalGenerator(), LexicalReflector(), tags.scorer)
    with Journal.open(folder) as journal:
        result = asyncio.run(learn(samples, roles, curator, config=config, journal=journal, **other))
        return result, journal.stats().bought


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"config": dataclasses.replace(CONFIG, batch=4)}, "batch was 6 and is 4"),
        ({"config": dataclasses.replace(CONFIG, aggregate="naive", seed=3)}, "aggregate was combee and is naive; seed"),
        ({"generator": Zzz()}, "the generator was LexicalGenerator and is Zzz"),
        ({"curator": LexicalCurator(forget=40.0)}, "the curator was LexicalCurator .* and is LexicalCurator"),
        (
            {"start": from_text("## RULES\n[rul-00001] helpful=1 harmful=0 :: Add, then round.\n").playbook},
            "the playbook it starts from is another",
        ),
    ],
)
def test_another_call_on_the_folder_of_a_run_is_refused(
    tags: TaskSet, tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    first, _ = run(tags, tmp_path)
    with pytest.raises(UsageError, match=named):
        run(tags, tmp_path, **change)
    again, bought = run(tags, tmp_path)  # the refused call has changed nothing
    assert bought == 0
    assert again.last == first.last


def test_other_samples_are_refused_were_it_one_answer(tags: TaskSet, tmp_path: Path) -> None:
    run(tags, tmp_path)
    with pytest.raises(UsageError, match=r"the samples are others \(12 then, 11 now\)"):
        run(tags, tmp_path, samples=tags.train[:11])
    other = [dataclasses.replace(tags.train[0], target="another"), *tags.train[1:]]
    with pytest.raises(UsageError, match=r"the samples are others \(12 then, 12 now\)"):
        run(tags, tmp_path, samples=other)
    with pytest.raises(UsageError, match="the samples are others"):
        run(tags, tmp_path, samples=tags.train[::-1])


def test_what_changes_no_result_may_change_and_epochs_may_be_added(tags: TaskSet, tmp_path: Path) -> None:
    first, _ = run(tags, tmp_path / "a")
    easy = dataclasses.replace(CONFIG, concurrency=3, pipeline=False, give_up_after=9)
    again, bought = run(tags, tmp_path / "a", easy)
    assert (bought, again.last) == (0, first.last)
    more, _ = run(tags, tmp_path / "a", dataclasses.replace(CONFIG, epochs=2))
    assert more.last == run(tags, tmp_path / "b", dataclasses.replace(CONFIG, epochs=2))[0].last
    with pytest.raises(UsageError, match="epochs was 2 and is 1"):
        run(tags, tmp_path / "a")


def test_a_name_that_was_wrong_may_be_put_right_while_nothing_is_bought(tags: TaskSet, tmp_path: Path) -> None:
    result, bought = run(tags, tmp_path, generator=Dead(error=BudgetError))
    assert (result.reason.value, bought) == ("budget", 0)
    assert run(tags, tmp_path)[1] > 0


def test_parts_are_told_apart_by_class_model_prompts_and_fingerprint() -> None:
    one, other = (named_part(AceGenerator(ScriptedModel(["x"], name=name))) for name in ("a", "b"))
    assert one.startswith("AceGenerator (model a, prompts ")
    assert other == one.replace("model a", "model b")
    generator = Zzz()
    assert named_part(generator) == "Zzz"
    generator.fingerprint = "zzz, second edition"  # type: ignore[attr-defined]  # any part may have one
    assert named_part(generator) == "zzz, second edition"
    assert named_part(named_part) == "named_part"


@dataclasses.dataclass(frozen=True)
class Remote(Zzz):
    """An agent behind a line, as a program may have it."""

    model: str
    note: str = ""
    api_key: str = ""
    calls: int = dataclasses.field(default=0, compare=False)

    def fingerprint(self) -> str:
        return "of something else"


def test_no_key_of_a_part_gets_into_the_journal_and_another_key_is_the_same_part() -> None:
    key = "sk-" + "aB3dE5gH" * 5
    one = named_part(Remote("m", f"by {key}", key, calls=3), find_secrets)
    assert one == named_part(Remote("m", f"by {key}", "another", calls=4), find_secrets)
    assert key not in one
    assert one == "Remote (model m)"
    assert named_part(Remote("n")) != named_part(Remote("m"))


def test_where_nothing_could_be_worked_on_the_error_names_the_reasons(tags: TaskSet, tmp_path: Path) -> None:
    once = dataclasses.replace(CONFIG, attempts=1)
    with pytest.raises(RunError, match=r"None of the 12 samples could be worked on: the line is down \(12 times\)$"):
        run(tags, tmp_path / "one", once, generator=Dead("the line is down"))
    with pytest.raises(RunError) as many:
        run(tags, tmp_path / "many", once, generator=Dead("no", "nothing", "nobody", "never", "nowhere"))
    assert str(many.value).endswith("and 2 more reasons")
    assert str(many.value).count(";") == 3


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_run_in_which_nothing_worked_tries_anew_once_it_is_called_again(
    tags: TaskSet, tmp_path: Path, epochs: int
) -> None:
    config = dataclasses.replace(CONFIG, attempts=2, epochs=epochs)
    for passes in (epochs, 1):  # what is tried anew is tried in one pass over the samples
        dead = Dead("the line is down")
        with pytest.raises(RunError, match="the line is down"):
            run(tags, tmp_path, config, generator=dead)
        assert dead.calls == 2 * passes * len(tags.train)
    dead.works = True
    mended, bought = run(tags, tmp_path, config, generator=dead)
    assert (mended.reason.value, mended.unlearned) == ("completed", ())
    assert bought > 0
    again, bought = run(tags, tmp_path, config, generator=dead)
    assert bought == 0
    assert again.last == mended.last
    with Journal.open(tmp_path, read_only=True) as journal:
        assert journal.labels()["last"] == digest(mended.last)
