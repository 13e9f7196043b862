"""Where words are not parted by blanks, letters and their pairs are compared; lessons on Chinese are in Chinese."""

from __future__ import annotations

from pathlib import Path

import pytest

import combee
from combee.lexical.features import features
from combee.lexical.lesson import Lesson, Spot, lesson_from, read_lesson

TICKETS = Path(__file__).resolve().parents[2] / "examples" / "tickets"


@pytest.mark.parametrize(
    ("one", "near", "far"),
    [
        ("台灯的物流九天没有更新", "耳机的物流没有更新", "台灯用了八个月就坏了"),
        ("荷物が届きません", "荷物はいつ届きますか", "返金をお願いします"),
        ("환불해주세요", "환불가능한가요", "배송이늦어요"),
    ],
)
def test_texts_without_blanks_share_what_they_say(one: str, near: str, far: str) -> None:
    def shared(other: str) -> int:
        a, b = features(one)[0], features(other)[0]
        return sum(min(weight, b[name]) for name, weight in a.items() if name in b)

    assert shared(near) > shared(far)


def test_features_of_other_texts_are_what_they_were() -> None:
    assert features("The invoice for 3 chairs, résumé.")[0] == {"winvoice": 16, "wchair": 16, "wrésumé": 16}


def test_a_lesson_on_a_chinese_text_is_a_chinese_sentence_and_is_read_back() -> None:
    lesson = lesson_from(Spot("商品写着“易碎”，\n怎么退？"), "退货")
    assert lesson.text == "文本含有“商品写着“易碎”， 怎么退？”时，标签是“退货”。"
    assert read_lesson(lesson.text) == lesson
    assert read_lesson("文本含有“退款”时，标签是“退货”。") == Lesson("退款", "退货")
    assert lesson_from(Spot("返金できますか"), "返品").text.startswith("When a text says")


def test_a_long_chinese_text_is_cut_like_an_english_one() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(500))
    assert lesson_from(Spot(text), "x").phrase == text[:96]


@pytest.mark.parametrize(("name", "question", "answer"), [("工单.csv", None, None), ("tickets.csv", "ticket", "queue")])
def test_a_chinese_file_is_learned_as_well_as_an_english_one(
    name: str, question: str | None, answer: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = combee.learn(TICKETS / name, folder=tmp_path / "run", question=question, answer=answer)
    assert combee.evaluate(result).score == 1.0
