"""The guard in the loop: planted losses are seen, mended or taken back; tenants stay apart; somebody is told."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from combee.kernel.aggregate import Method
from combee.kernel.guard import GuardLimits, HeldOut, LeakIndex, Notified, Policy, check_book
from combee.kernel.journal import JSON, Journal, Scope
from combee.kernel.learn import (
    Alerted,
    Event,
    GuardJudged,
    Judge,
    LearnConfig,
    LearnResult,
    LiveTasks,
    Reflection,
    Rollout,
    Score,
    Task,
    evaluate,
    learn,
)
from combee.kernel.playbook import (
    Add,
    Delta,
    Merge,
    Operation,
    Playbook,
    Remove,
    Update,
    delta_of,
    digest,
    from_json,
    merge,
    tokens,
    view,
)
from combee.kernel.runner import run_sync
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.lexical.agent import LexicalMethod
from combee.run.notify import notify
from combee.tasks import TaskSet, load

Change = Callable[[Delta, Sequence[Reflection], int], Delta]


@pytest.fixture(scope="module")
def tags() -> TaskSet:
    return load("tags", sizes=(160, 100, 5))


class Altered:
    """The embedded curator whose leaves are changed: `change(delta, items, step)`."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.inner = LexicalCurator()
        self.step = -1

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        place = scope.address.split("step ")[1]
        return _AlteredMethod(self.inner, scope.address, self.change, int(place.split("/")[0]))


class _AlteredMethod(LexicalMethod):
    def __init__(self, curator: LexicalCurator, place: str, change: Change, step: int) -> None:
        super().__init__(curator, place)
        object.__setattr__(self, "change", change)
        object.__setattr__(self, "step", step)

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        found = await super().leaf(items, node)
        changed: Delta = self.change(found, items, self.step)  # type: ignore[attr-defined]  # set above
        return changed


class Counting(LexicalGenerator):
    calls = 0

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        self.calls += not scope.address.endswith("guard")
        return await super().generate(task, playbook, scope)


async def run(
    tags: TaskSet,
    curator: Altered,
    config: LearnConfig,
    *,
    judge: Judge | None = None,
    journal: Journal | None = None,
    train: Sequence[Task] | None = None,
    start: Playbook | None = None,
) -> tuple[LearnResult, list[Event], Counting]:
    agent = Counting()
    judge = judge or Judge()
    if config.guard_validate:
        scored = LexicalGenerator()

        async def validate(book: Playbook, scope: Scope) -> object:
            return await evaluate(scored, tags.val, tags.scorer, book, scope=scope)

        judge.validate = validate  # type: ignore[assignment]  # an Evaluation comes back
    events: list[Event] = []
    result = await learn(
        train or tags.train,
        LiveTasks(agent, LexicalReflector(), tags.scorer),
        curator,
        config=config,
        judge=judge,
        journal=journal,
        start=start,
        observe=events.append,
    )
    return result, events, agent


@pytest.fixture(scope="module")
def many() -> TaskSet:
    return load("tags", sizes=(400, 100, 5))


@pytest.fixture(scope="module")
def learned(many: TaskSet) -> Playbook:
    """A book that is better than none: with few lessons the nearest one is often a wrong one."""
    live = LiveTasks(LexicalGenerator(), LexicalReflector(), many.scorer)
    return run_sync(learn(many.train[:360], live, LexicalCurator(), config=LearnConfig(batch=90))).last


def spoken(events: Sequence[Event]) -> list[GuardJudged]:
    return [event for event in events if isinstance(event, GuardJudged)]


@pytest.mark.parametrize("step", [0, 2])
async def test_a_collapse_is_caught_at_its_step_and_mended_without_a_new_rollout(tags: TaskSet, step: int) -> None:
    def collapse(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
        return Delta(delta.operations[:1]) if at == step and len(items) > 4 else delta

    result, events, agent = await run(tags, Altered(collapse), LearnConfig(batch=40, max_items=16, second_chances=0))
    verdicts = [(event.step, event.verdict) for event in spoken(events)]
    assert verdicts[step] == (step, "retry_smaller")
    assert {verdict for at, verdict in verdicts if at != step} == {"accept"}
    assert verdicts.count((step, "accept")) == 1
    assert agent.calls == len(tags.train)
    clean, _, _ = await run(tags, Altered(lambda delta, items, at: delta), LearnConfig(batch=40, second_chances=0))
    assert len(result.last) >= 0.9 * len(clean.last)


@pytest.mark.parametrize("how", ["naive", "summarize", "top_k"])
async def test_a_baseline_shows_what_it_does_and_its_collapse_is_alerted(tags: TaskSet, how: str) -> None:
    def collapse(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
        return Delta(delta.operations[:1])

    heard: list[Mapping[str, object]] = []

    def tell(payload: Mapping[str, object]) -> Notified:
        heard.append(payload)
        return Notified(ok=True, code=0, detail="")

    config = LearnConfig(batch=80, aggregate=how)
    watched = Judge(enabled=bool(config.guard), watch=config.guard == "watch", alert_command=tell)
    result, events, _ = await run(tags, Altered(collapse), config, judge=watched)
    off = Judge(enabled=False)
    raw, silent, _ = await run(tags, Altered(collapse), LearnConfig(batch=80, aggregate=how, guard=False), judge=off)
    assert digest(result.last) == digest(raw.last)
    assert [event.verdict for event in spoken(events)] == ["alert"] * len(result.steps)
    assert [payload["verdict"] for payload in heard] == ["alert"] * len(result.steps)
    assert {event.verdict for event in spoken(silent)} == {"accept"}
    _, events, _ = await run(tags, Altered(collapse), LearnConfig(batch=80, aggregate=how, guard=True))
    assert "retry_smaller" in {event.verdict for event in spoken(events)}


async def test_a_collapse_that_a_retry_healed_is_told_too(tags: TaskSet, caplog: pytest.LogCaptureFixture) -> None:
    def collapse(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
        return Delta(delta.operations[:1]) if at == 1 and len(items) > 4 else delta

    heard: list[Mapping[str, object]] = []

    def tell(payload: Mapping[str, object]) -> Notified:
        heard.append(payload)
        return Notified(ok=True, code=0, detail="")

    config = LearnConfig(batch=40, second_chances=0)
    _, events, _ = await run(tags, Altered(collapse), config, judge=Judge(alert_command=tell))
    first = next(event for event in spoken(events) if event.verdict == "retry_smaller")
    assert [(one["step"], one["verdict"]) for one in heard] == [(1, "healed")]
    assert set(first.reasons) <= set(cast("list[str]", heard[0]["reasons"]))
    assert [event.step for event in events if isinstance(event, Alerted)] == [1]
    assert "guard, step 1: healed: " in caplog.text


async def test_the_next_steps_keep_the_size_that_worked_until_they_are_calm(tags: TaskSet) -> None:
    sizes: list[tuple[int, int]] = []

    def collapse(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
        sizes.append((at, len(items)))
        return Delta(delta.operations[:1]) if len(items) > 8 else delta

    await run(tags, Altered(collapse), LearnConfig(batch=40, max_items=32, second_chances=0))
    assert max(size for at, size in sizes if at > 0) <= 8
    result, _, _ = await run(tags, Altered(collapse), LearnConfig(batch=40, aggregate="naive"))
    assert max(step.batch for step in result.steps[1:]) < 40


def wrong_labels(delta: Delta, share: float) -> Delta:
    """Turn a share of the lessons into harmful ones: the phrase of one with the label of another."""
    operations = [op for op in delta if isinstance(op, Add)]
    labels = [op.text.rsplit(" is ", 1)[1] for op in operations]
    count = round(share * len(operations))
    changed: list[Operation] = []
    for index, op in enumerate(operations):
        text = op.text.rsplit(" is ", 1)[0] + " is " + labels[(index + 1) % len(labels)]
        changed.append(Add(op.section, text if index < count else op.text, op.sources))
    return delta_of(changed)


WRONG = "StockRepurchasedDuringPeriodShares"


class Spoiling(Altered):
    """Rewrites the first `count` sound bullets of the book to a wrong label, in the steps that `when` names."""

    def __init__(self, count: int, when: range) -> None:
        super().__init__(lambda delta, items, at: delta)
        self.count = count
        self.when = when

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        sound = [bullet for bullet in playbook if WRONG not in bullet.text][: self.count]

        def spoil(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
            if at not in self.when:
                return delta
            names = tuple(item.id for item in items)
            wrong = (Update(b.id, b.text.rsplit(" is ", 1)[0] + f" is {WRONG}.", names) for b in sound)
            return merge(delta, delta_of(wrong))

        self.change = spoil
        return super().method(playbook, scope)


def lenient() -> Judge:
    """A guard that looks at scores, and lets a curator rewrite well-voted bullets."""
    return Judge(limits=GuardLimits(keep_voted=False))


def spoiled(book: Playbook, before: Playbook) -> int:
    return sum(bullet.text != old.text for bullet in book if (old := before.get(bullet.id)) is not None)


async def test_a_harmful_step_is_rejected_and_the_label_stable_never_points_at_it(
    many: TaskSet, learned: Playbook, tmp_path: Path
) -> None:
    config = LearnConfig(batch=10, guard_validate=True, second_chances=0)
    with Journal.open(tmp_path) as journal:
        result, events, _ = await run(
            many,
            Spoiling(60, range(1, 2)),
            config,
            judge=lenient(),
            journal=journal,
            train=many.train[360:],
            start=learned,
        )
        stable = journal.text(journal.labels()["stable"])
    last = {event.step: event for event in spoken(events)}
    assert [last[step].verdict for step in range(4)] == ["accept", "reject", "accept", "accept"]
    assert any("worse than" in reason for reason in last[1].reasons)
    assert any("smallest drop" in note for note in last[0].notes)
    assert spoiled(result.last, learned) == 0
    assert spoiled(from_json(stable), learned) == 0


async def test_a_slow_drift_over_ten_steps_is_rolled_back_to_stable(
    many: TaskSet, learned: Playbook, tmp_path: Path
) -> None:
    config = LearnConfig(batch=4, guard_validate=True, second_chances=0)
    with Journal.open(tmp_path) as journal:
        result, events, _ = await run(
            many,
            Spoiling(6, range(10)),
            config,
            judge=lenient(),
            journal=journal,
            train=many.train[360:],
            start=learned,
        )
        versions = journal.versions()
    back = [event for event in spoken(events) if event.rollback]
    assert back
    assert back[0].step > 0
    assert spoiled(result.last, learned) < 6 * 10
    assert len(versions) == 11


async def test_a_step_that_would_throw_out_half_of_the_book_is_refused(many: TaskSet, learned: Playbook) -> None:
    def emptied(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
        names = tuple(item.id for item in items)
        return merge(delta, delta_of(Remove(bullet.id, names) for bullet in learned)) if at == 1 else delta

    train = many.train[360:390]
    kept, events, _ = await run(many, Altered(emptied), LearnConfig(batch=10), train=train, start=learned)
    off = Judge(enabled=False)
    lost, _, _ = await run(many, Altered(emptied), LearnConfig(batch=10), judge=off, train=train, start=learned)
    told = [event for event in spoken(events) if event.step == 1]
    assert any("tokens" in reason and "would be left" in reason for event in told for reason in event.reasons)
    assert all(kept.last.get(bullet.id) is not None for bullet in learned)
    assert len(lost.last) < len(learned) / 2


class Eroding(Altered):
    """Adds its lessons, and takes out the first part of the book at each step."""

    def __init__(self) -> None:
        super().__init__(lambda delta, items, at: delta)

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        first = playbook.bullets[: 2 * len(playbook) // 5]

        def erode(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
            return merge(delta, delta_of(Remove(bullet.id, (items[0].id,)) for bullet in first))

        self.change = erode
        return super().method(playbook, scope)


async def test_a_book_is_not_eroded_step_by_step_and_an_old_run_is_replayed_as_it_was(
    many: TaskSet, learned: Playbook, tmp_path: Path
) -> None:
    config, train = LearnConfig(batch=10, second_chances=0), many.train[360:400]
    voted = [bullet for bullet in learned if bullet.helpful >= 3 * max(1, bullet.harmful)]
    assert len(voted) > 10
    result, events, _ = await run(many, Eroding(), config, train=train, start=learned)
    gone = [bullet for bullet in voted if bullet.id not in result.last]  # a harmful vote of the run is a cause
    assert len(gone) < len(voted) / 5
    assert [event.verdict for event in spoken(events)] == ["alert"] * 4
    assert all("well-voted bullets would be taken out" in " ".join(event.reasons) for event in spoken(events))

    with Journal.open(tmp_path) as journal:
        old, _, _ = await run(many, Eroding(), config, judge=lenient(), journal=journal, train=train, start=learned)
        begun = cast("dict[str, JSON]", journal.meta("learn"))
        journal.set_meta("learn", {name: value for name, value in begun.items() if name != "rules"})
    assert sum(bullet.id not in old.last for bullet in voted) > 4 * len(gone)
    with Journal.open(tmp_path) as journal:
        again, _, _ = await run(many, Eroding(), config, journal=journal, train=train, start=learned)
        assert journal.stats().bought == 0
    assert digest(again.last) == digest(old.last)


async def test_what_the_token_budget_takes_out_is_no_collapse(many: TaskSet, learned: Playbook) -> None:
    honest = Altered(lambda delta, items, at: delta)
    config = LearnConfig(batch=10, token_budget=tokens(learned) // 3)
    result, events, _ = await run(many, honest, config, train=many.train[360:380], start=learned)
    assert [event.verdict for event in spoken(events)] == ["accept", "accept"]
    assert tokens(result.last) <= tokens(learned) // 3


async def test_a_better_book_becomes_stable(many: TaskSet, tmp_path: Path) -> None:
    honest = Altered(lambda delta, items, at: delta)
    few, _, _ = await run(many, honest, LearnConfig(batch=40), train=many.train[:40])
    config = LearnConfig(batch=360, guard_validate=True)
    with Journal.open(tmp_path) as journal:
        result, events, _ = await run(many, honest, config, journal=journal, train=many.train[40:], start=few.last)
        labels, moves = journal.labels(), journal.label_moves("stable")
    assert spoken(events)[-1].promote
    assert labels["stable"] == digest(result.last)
    assert len(moves) == 2


async def test_a_validation_set_of_three_says_that_it_has_no_power(tags: TaskSet) -> None:
    agent = LexicalGenerator()

    async def validate(book: Playbook, scope: Scope) -> object:
        return await evaluate(agent, tags.val[:3], tags.scorer, book, scope=scope)

    events: list[Event] = []
    await learn(
        tags.train[:40],
        LiveTasks(agent, LexicalReflector(), tags.scorer),
        LexicalCurator(),
        config=LearnConfig(batch=40),
        judge=Judge(validate=validate),  # type: ignore[arg-type]  # an Evaluation comes back
        observe=events.append,
    )
    assert any("no power" in note for event in spoken(events) for note in event.notes)


async def test_many_leaks_make_one_line_and_the_training_set_none(tags: TaskSet) -> None:
    held = [HeldOut(task.id, task.target or "", task.question) for task in tags.val]
    seen = [task.question for task in tags.train]
    clean = Judge(held_out=LeakIndex(held, (), seen=seen))
    clean.held_out = LeakIndex(held, {task.target or "" for task in tags.train}, seen=seen)
    _, events, _ = await run(tags, Altered(lambda d, i, s: d), LearnConfig(batch=40), judge=clean)
    assert not any("left out" in reason for event in spoken(events) for reason in event.reasons)

    def leak(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
        quoted = (Add("OTHERS", f"Answer to {t.id}: {t.question[-200:]} {t.target}", (items[0].id,)) for t in tags.val)
        return merge(delta, delta_of(list(quoted)[:29]))

    result, events, _ = await run(
        tags, Altered(leak), LearnConfig(batch=160, max_items=200), judge=Judge(held_out=clean.held_out)
    )
    said = [reason for event in spoken(events) for reason in event.reasons if "left out" in reason]
    assert len(said) == 1
    assert said[0].startswith("29 operations were left out")
    assert not any("Answer to" in bullet.text for bullet in result.last)


@pytest.mark.parametrize(("command", "ok"), [("good", True), ("fails", False), ("hangs", False), ("missing", False)])
async def test_the_users_command_is_told_once_and_cannot_stop_a_run(
    tags: TaskSet, tmp_path: Path, command: str, ok: bool
) -> None:
    heard = tmp_path / "heard"
    programs = {
        "good": f"import sys; open({str(heard)!r}, 'a').write(sys.stdin.read())",
        "fails": "raise SystemExit(3)",
        "hangs": "import time; time.sleep(60)",
    }
    words = (
        shlex.join([sys.executable, "-c", programs[command]])
        if command in programs
        else str(tmp_path / "no-such-thing")
    )
    judge = Judge(alert_command=partial(notify, words, timeout=1.0 if command == "hangs" else 20.0))

    def platitudes(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
        names = tuple(item.id for item in items)
        return delta_of(Add("OTHERS", f"Be careful and {what} your work.", names) for what in ("check", "read", "do"))

    config = LearnConfig(batch=80)
    with Journal.open(tmp_path / "run") as journal:
        result, events, _ = await run(tags, Altered(platitudes), config, judge=judge, journal=journal)
    told = [event for event in events if isinstance(event, Alerted)]
    assert [event.ok for event in told] == [ok] * len(result.steps)
    assert not result.last.bullets
    if command == "good":
        lines = [json.loads(line) for line in heard.read_text().splitlines()]
        assert [line["step"] for line in lines] == [0, 1]
        assert lines[0]["run"] == "run"
        with Journal.open(tmp_path / "run") as journal:
            await run(
                tags, Altered(platitudes), config, judge=Judge(alert_command=judge.alert_command), journal=journal
            )
        assert len(heard.read_text().splitlines()) == 2


def smuggle_add(book: Playbook, own: str) -> Operation:
    return Add("OTHERS", "Our secret margin is 41.7 percent.", (own, "foreign~0"))


def smuggle_merge(book: Playbook, own: str) -> Operation:
    return Merge(tuple(bullet.id for bullet in book)[:2], "Two lessons and the margin of 41.7.", ("foreign~0",))


def smuggle_update(book: Playbook, own: str) -> Operation:
    return Update(book.bullets[0].id, "The margin is 41.7.", ("foreign~0", own))


def smuggle_duplicate(book: Playbook, own: str) -> Operation:
    return Add(book.bullets[0].section, book.bullets[0].text + " ", ("foreign~0",))


def smuggle_near_duplicate(book: Playbook, own: str) -> Operation:
    """The same lesson to a fold by similarity: other case, another article, a full stop more."""
    text = book.bullets[0].text
    return Add(book.bullets[0].section, f"{text[0].swapcase()}{text[1:]}.".replace(" the ", " a ", 1), ("foreign~0",))


def smuggle_unsourced(book: Playbook, own: str) -> Operation:
    return Add("OTHERS", "The margin is 41.7 percent.", ())


DOORS = [
    smuggle_add,
    smuggle_merge,
    smuggle_update,
    smuggle_duplicate,
    smuggle_near_duplicate,
    smuggle_unsourced,
]


@pytest.mark.parametrize("smuggle", DOORS)
async def test_a_foreign_tenants_lesson_gets_in_by_no_door(
    tags: TaskSet, smuggle: Callable[[Playbook, str], Operation]
) -> None:
    train = [
        Task(task.id, task.question, task.target, {"tenant": "foreign" if n % 4 == 0 else "own"})
        for n, task in enumerate(tags.train[:80])
    ]
    curator = Altered(lambda delta, items, at: delta)
    original = curator.method

    def method(playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        def change(delta: Delta, items: Sequence[Reflection], at: int) -> Delta:
            return merge(delta, delta_of([smuggle(playbook, items[0].id)])) if len(playbook) else delta

        curator.change = change
        return original(playbook, scope)

    curator.method = method  # type: ignore[method-assign]  # planted
    policy = Policy(tenants=frozenset({"own"}))
    judge = Judge(policy=policy)
    judge.labels["foreign~0"] = {"tenant": "foreign"}
    result, events, _ = await run(tags, curator, LearnConfig(batch=20), judge=judge, train=train)
    assert not any("41.7" in bullet.text or "foreign~0" in bullet.sources for bullet in result.last)
    assert any("not allowed" in reason for event in spoken(events) for reason in event.reasons)
    assert len(result.last) > 10
    assert check_book(result.last, judge.labels, policy) == {}
    assert check_book(view(result.last, tags.val[0].question, 500), judge.labels, policy) == {}
    foreign = {task.id for task in train if task.labels["tenant"] == "foreign"}
    assert not any(source.split("~")[0] in foreign for bullet in result.last for source in bullet.sources)


async def test_a_book_that_breaks_the_policy_by_itself_is_refused_whole(tags: TaskSet) -> None:
    judge = Judge(policy=Policy(tenants=frozenset({"own"})))
    judge.begin(Playbook())
    judge.labels["a~0"] = {"tenant": "own"}
    from combee.kernel.guard import Verdict
    from combee.kernel.playbook import apply

    book = apply(Playbook(), delta_of([Add("OTHERS", "A lesson.", ("a~0", "b~0"))])).playbook
    verdict = judge.on_book(Verdict("accept", Delta()), book)
    assert verdict.action == "reject"
    assert "may not be in this book" in verdict.reasons[0]


async def test_a_start_book_of_another_run_is_trusted_by_whoever_chose_it(tags: TaskSet) -> None:
    first, _, _ = await run(tags, Altered(lambda d, i, s: d), LearnConfig(batch=40), train=tags.train[:40])
    labelled = [Task(task.id, task.question, task.target, {"tenant": "own"}) for task in tags.train[40:80]]
    events: list[Event] = []
    result = await learn(
        labelled,
        LiveTasks(LexicalGenerator(), LexicalReflector(), tags.scorer),
        LexicalCurator(),
        config=LearnConfig(batch=40),
        judge=Judge(policy=Policy(tenants=frozenset({"own"}))),
        start=first.last,
        observe=events.append,
    )
    assert len(result.last) > len(first.last)
    assert digest(result.last) != digest(first.last)
    assert spoken(events)[0].verdict == "accept"


def test_scores_of_one_part_each_are_rows(tags: TaskSet) -> None:
    labels: Mapping[str, str] = {"tenant": " own "}
    assert Judge(policy=Policy(tenants=frozenset({"own"}))).refusal(labels) is None
    assert Judge(policy=Policy(tenants=frozenset({"own"}))).refusal({}) is not None
    assert Score(1, 2).passed is False
