"""The embedded set: seeded, disjoint, of any size, and as hard as it says."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

import pytest

from combee.errors import UsageError
from combee.kernel.learn.roles import Task
from combee.tasks import Question, finer_options, finer_questions, load, tag_names, tag_set


def questions(tasks: Sequence[Task]) -> list[Question]:
    return [question for task in tasks for question in finer_questions(task.question)]


def test_the_patterns_are_enough_and_well_formed() -> None:
    data = tomllib.loads(files("combee.tasks").joinpath("tags.toml").read_text(encoding="utf-8"))
    assert len(data) >= 60
    every = [line for tag in data.values() for line in tag["patterns"].splitlines()]
    assert len(set(every)) == len(every)
    for name, tag in data.items():
        lines = tag["patterns"].splitlines()
        assert len(lines) >= 12, name
        assert all(line.count("@") == 1 and line == line.strip() for line in lines), name
        assert all("@" not in line for line in tag["settings"].splitlines()), name
    words = Counter(word for name in data for word in set(re.findall("[A-Z][a-z]+", name)))
    assert (
        sum(words[word] >= 5 for word in words) >= 8
    )  # families of names that share words, so that they can be confused


def test_equal_seeds_give_equal_rows_and_other_seeds_others() -> None:
    assert load("tags", sizes=(50, 10, 20), seed=3).digest() == load("tags", sizes=(50, 10, 20), seed=3).digest()
    assert load("tags", sizes=(50, 10, 20), seed=3).digest() != load("tags", sizes=(50, 10, 20), seed=4).digest()


def test_a_larger_split_begins_with_the_smaller_one_whatever_the_other_sizes() -> None:
    small, large = load("tags", sizes=(20, 5, 30)), load("tags", sizes=(200, 50, 60))
    assert large.train[:20] == small.train
    assert large.test[:30] == small.test


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("per_row", [1, 4])
def test_no_question_comes_twice_in_or_across_splits(seed: int, per_row: int) -> None:
    tasks = load("tags", sizes=(1200, 400, 800), seed=seed, questions_per_row=per_row)
    every = [questions(part) for part in (tasks.train, tasks.val, tasks.test)]
    assert [len(part) for part in every] == [1200 * per_row, 400 * per_row, 800 * per_row]
    assert len({question for part in every for question in part}) == 2400 * per_row
    assert len({task.id for task in tasks}) == 2400


def test_the_amount_stands_in_its_sentence_once() -> None:
    for question in questions(load("tags", sizes=(600, 0, 600)).train):
        alone = rf"(?<![\w.,]){re.escape(question.entity)}(?!\w|[.,]\d)"
        assert len(re.findall(alone, question.sentence)) == 1, question
        assert "{" not in question.sentence
        assert "@" not in question.sentence


def test_rows_have_the_shape_of_finer() -> None:
    tasks = load("tags", sizes=(5, 0, 5), questions_per_row=4)
    for task in tasks:
        assert finer_options(task.question) == tag_names() == tasks.choices
        assert len(finer_questions(task.question)) == 4
        assert task.target is not None
        assert set(task.target.split(",")) <= set(tag_names())
        assert tasks.scorer(task, task.target).hits == 4
    bare = load("tags", sizes=(5, 0, 5), options=False)
    assert all(finer_options(task.question) == () for task in bare)
    assert [finer_questions(task.question) for task in bare] == [
        finer_questions(task.question) for task in load("tags", sizes=(5, 0, 5))
    ]


def test_default_sizes_and_what_is_said_beside_scores() -> None:
    tasks = load("tags")
    assert (len(tasks.train), len(tasks.val), len(tasks.test)) == (500, 100, 300)
    assert (tasks.name, tasks.kind) == ("tags", "tags")
    assert "generated" in tasks.about
    assert load("tags", sizes=(None, 0, 7)).train == tasks.train


@pytest.mark.parametrize("per_row", [0, -1, 101])
def test_questions_a_row_out_of_range(per_row: int) -> None:
    with pytest.raises(UsageError, match=f"{per_row} questions a row"):
        tag_set(questions_per_row=per_row)


@pytest.mark.parametrize("sizes", [(-1, 0, 0), (2_000_000, 0, 0)])
def test_sizes_out_of_range(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="train size"):
        load("tags", sizes=sizes)


class NearestLesson:
    """The least an agent can do: the three nearest lessons vote, and tag names are lessons too."""

    def __init__(self, lessons: Sequence[tuple[str, str]]) -> None:
        named = [(" ".join(re.findall("[A-Z][a-z]+", tag)), tag) for tag in tag_names()]
        self.lessons = [(self.features(text), tag) for text, tag in [*named, *lessons]]
        counts = Counter(feature for features, _ in self.lessons for feature in features)
        self.weight = {feature: math.log(1 + len(self.lessons) / count) ** 2 for feature, count in counts.items()}
        self.norm = [math.sqrt(sum(self.weight[feature] for feature in features)) for features, _ in self.lessons]

    @staticmethod
    def features(text: str) -> set[str]:
        words = [word for word in re.findall(r"[a-z]{3,}|[$%]", text.lower()) if word not in {"the", "and", "for"}]
        return {*words, *map(" ".join, itertools.pairwise(words))}

    def answer(self, text: str) -> str:
        features = self.features(text)
        scores = [
            sum(self.weight[feature] for feature in features & known) / norm
            for (known, _), norm in zip(self.lessons, self.norm, strict=True)
        ]
        votes: Counter[str] = Counter()
        for place in sorted(range(len(scores)), key=lambda place: -scores[place])[:3]:
            votes[self.lessons[place][1]] += scores[place]  # type: ignore[assignment]  # a Counter adds floats too
        return votes.most_common(1)[0][0]


def test_it_is_learned_from_hundreds_of_lessons_and_hardly_from_twenty() -> None:
    tasks = load("tags", sizes=(500, 0, 200), seed=0)
    train = [(finer_questions(task.question)[0].sentence, task.target or "") for task in tasks.train]

    def accuracy(lessons: int) -> float:
        agent = NearestLesson(train[:lessons])
        answers = [agent.answer(question.sentence) for question in questions(tasks.test)]
        scores = map(tasks.scorer, tasks.test, answers)
        return sum(score.hits for score in scores) / len(answers)

    none, few, many = accuracy(0), accuracy(20), accuracy(500)
    assert 0.2 <= none <= 0.45
    assert few <= 0.5
    assert 0.72 <= many <= 0.92
