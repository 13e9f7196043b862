"""The embedded agent learns from its errors, says what it used, and needs nothing but the playbook."""

from __future__ import annotations

import json
from pathlib import Path

from combee.kernel.journal import MemoryScope
from combee.kernel.learn import LearnConfig, LiveTasks, Rollout, Score, Task, evaluate, learn
from combee.kernel.playbook import Bullet, Playbook, VoteKind, apply, from_text, to_text
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector, Lexicon
from combee.tasks import TaskSet, load, tag_set

SCOPE = MemoryScope()
QUESTION = (
    '1. What is best tag for entity "5" in sentence: "We repaid $ 5 million of debt .?"\n'
    '2. What is best tag for entity "7" in sentence: "Goodwill was impaired by $ 7 million .?"\n'
)
OPTIONS = "tags options: ,RepaymentsOfDebt,GoodwillImpairmentLoss,Goodwill. Answer the following 2 questions.\n"


async def _learn(tasks: TaskSet, *, batch: int) -> Playbook:
    lexicon = Lexicon()
    work = LiveTasks(LexicalGenerator(lexicon), LexicalReflector(lexicon), tasks.scorer)
    config = LearnConfig(batch=batch, guard=False)
    return (await learn(tasks.train, work, LexicalCurator(), config=config)).last


async def test_an_empty_book_answers_by_the_names_of_the_tags() -> None:
    rollout = await LexicalGenerator().generate(Task("t", OPTIONS + QUESTION), Playbook(), SCOPE)
    assert rollout.answer == "RepaymentsOfDebt,Goodwill"
    assert rollout.used == ()


async def test_without_book_and_options_every_question_still_gets_an_answer() -> None:
    rollout = await LexicalGenerator().generate(Task("t", QUESTION), Playbook(), SCOPE)
    assert rollout.answer == "unknown,unknown"


async def test_each_wrong_answer_is_one_lesson_and_a_clear_right_one_is_none() -> None:
    task = Task("t", OPTIONS + QUESTION, "RepaymentsOfDebt,GoodwillImpairmentLoss")
    rollout = Rollout("t", "RepaymentsOfDebt,Goodwill")
    reflection = await LexicalReflector(thin_margin=0.0).reflect(task, rollout, Score(1, 2), Playbook(), SCOPE)
    assert reflection is not None
    (lesson,) = reflection.lessons
    assert lesson == (
        'When a sentence says "Goodwill was impaired by $ [7] million ." about an amount of money, '
        "the tag is GoodwillImpairmentLoss."
    )
    assert lesson in reflection.text
    assert reflection.passed is False
    thin = await LexicalReflector(thin_margin=1.1).reflect(task, rollout, Score(1, 2), Playbook(), SCOPE)
    assert thin is not None
    assert len(thin.lessons) == 2


async def test_a_task_without_target_teaches_nothing() -> None:
    assert await LexicalReflector().reflect(Task("t", QUESTION), Rollout("t", "x"), None, Playbook(), SCOPE) is None


async def test_used_bullets_are_voted_on_by_what_became_of_their_own_label() -> None:
    texts = [
        "Repaid debt: the tag is RepaymentsOfDebt.",
        "Impaired goodwill: the tag is Goodwill.",
        "Read the whole sentence.",
    ]
    book = Playbook(tuple(Bullet(f"ctx-{n:05d}", "OTHERS", text) for n, text in enumerate(texts, 1)), 3)
    task = Task("t", QUESTION, "RepaymentsOfDebt,GoodwillImpairmentLoss")
    used = ("ctx-00001", "ctx-00002", "ctx-00003", "ctx-00009")
    rollout = Rollout("t", "RepaymentsOfDebt,Goodwill", used)
    reflection = await LexicalReflector().reflect(task, rollout, Score(1, 2), book, SCOPE)
    assert reflection is not None
    assert [(vote.bullet, vote.kind) for vote in reflection.votes] == [
        ("ctx-00001", VoteKind.HELPFUL),
        ("ctx-00002", VoteKind.HARMFUL),
        ("ctx-00003", VoteKind.HARMFUL),
    ]
    assert {vote.reflection for vote in reflection.votes} == {reflection.id}
    both = await LexicalReflector().reflect(
        Task("t", QUESTION, "Goodwill,GoodwillImpairmentLoss"),
        Rollout("t", "Goodwill,Goodwill", used[1:2]),
        None,
        book,
        SCOPE,
    )
    assert both is not None
    assert [vote.kind for vote in both.votes] == [VoteKind.HELPFUL, VoteKind.HARMFUL]


async def test_missing_and_surplus_answers_are_wrong_and_ignored() -> None:
    task = Task("t", QUESTION, "RepaymentsOfDebt,GoodwillImpairmentLoss")
    few = await LexicalReflector(thin_margin=0).reflect(task, Rollout("t", ""), None, Playbook(), SCOPE)
    many = await LexicalReflector(thin_margin=0).reflect(
        task, Rollout("t", "repaymentsofdebt, GoodwillImpairmentLoss, x"), None, Playbook(), SCOPE
    )
    assert few is not None
    assert len(few.lessons) == 2
    assert many is not None
    assert many.lessons == ()
    assert many.passed is True


async def test_a_book_learned_on_the_embedded_set_answers_the_same_after_the_way_through_text() -> None:
    tasks = tag_set((150, 0, 60))
    book = await _learn(tasks, batch=50)
    read = from_text(to_text(book)).playbook
    before = await evaluate(LexicalGenerator(), tasks.test, tasks.scorer, book)
    after = await evaluate(LexicalGenerator(), tasks.test, tasks.scorer, read)
    assert before == after
    assert (before.accuracy or 0) > 0.4  # 150 sentences for more than 60 tags
    assert read == book or [bullet.text for bullet in read] == [bullet.text for bullet in book]


async def test_plain_rows_with_labels_are_learned_too(tmp_path: Path) -> None:
    topics = {
        "card lost": "my card was stolen {}",
        "refund": "please send my money back {}",
        "login": "password fails {}",
    }
    rows = [
        {"question": text.format(word), "answer": label}
        for label, text in topics.items()
        for word in ("now", "today", "again", "please help", "since May", "in Rome", "on my phone", "twice")
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    tasks = load(tmp_path / "rows.jsonl", fractions=(0.6, 0.0, 0.4))
    book = await _learn(tasks, batch=4)
    found = await evaluate(LexicalGenerator(), tasks.test, tasks.scorer, book)
    assert found.accuracy == 1.0


async def test_real_tags_are_found_with_what_the_train_file_taught(data_dir: Path) -> None:
    tasks = load("finer", data_dir=data_dir)
    lexicon = Lexicon()
    generator, reflector, curator = LexicalGenerator(lexicon), LexicalReflector(lexicon), LexicalCurator()
    book = Playbook()
    for batch in (tasks.train[:250], tasks.train[250:]):
        reflections = []
        for task in batch:
            rollout = await generator.generate(task, book, SCOPE)
            score = tasks.scorer(task, rollout.answer)
            reflections.append(await reflector.reflect(task, rollout, score, book, SCOPE))
        lessons = [reflection for reflection in reflections if reflection is not None]
        book = apply(book, await curator.method(book, SCOPE).leaf(lessons, "n")).playbook
    scores = [tasks.scorer(task, (await generator.generate(task, book, SCOPE)).answer) for task in tasks.test]
    assert sum(score.total for score in scores) == 880
    assert sum(score.hits for score in scores) / 880 >= 0.50
