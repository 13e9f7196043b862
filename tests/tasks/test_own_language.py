"""Files in Chinese, Japanese and Korean: columns are found, encodings suggested, answers compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from combee.errors import DataError, UsageError
from combee.tasks import load
from combee.tasks.encodings import likely_encoding
from combee.tasks.rows import normal_form

CHINESE = "问题,答案\n签收 40 天后要求退款，怎么处理？,拒绝\n快递丢失，物流没有更新，怎么处理？,补发\n"
POEM = "标题,正文\n春晓,春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。\n"


@pytest.mark.parametrize(
    "header",
    [
        "问题,答案",
        "题目,标签",
        "问题,标签",
        "問題,答案",
        "提问,回答",
        "質問,答え",
        "問題,正解",
        "질문,답변",
        "문제,정답",
    ],
)
def test_columns_are_found_by_their_usual_names(header: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"{header}\n甲是什么？,一\n乙是什么？,二\n丙是什么？,一\n", encoding="utf-8")
    found = load(file)
    assert {(task.question, task.target) for task in found} >= {("甲是什么？", "一")}


def test_two_columns_that_could_be_the_answer_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("问题,答案,标签\n甲？,一,二\n", encoding="utf-8")
    with pytest.raises(UsageError, match="答案 and 标签 could each be the answer"):
        load(file)


TEXTS = {
    "gbk": [CHINESE, POEM, "编号,问题,答案\n1,如何重置密码？,点击忘记密码\n"],
    "big5": ["問題,答案\n這個訂單要怎麼處理？,退款\n", "為什麼商品還沒有送到？我們已經等了十天。\n"],
    "shift_jis": ["質問,答え\n返金はできますか？,はい\n", "この商品はいつ届きますか。\n"],
    "euc_jp": ["質問,答え\n返金はできますか？,はい\n", "この商品はいつ届きますか。\n"],
    "euc_kr": ["질문,답변\n환불이 가능합니까?,예\n", "이 상품은 언제 배송됩니까? 주문한 지 열흘이 지났습니다.\n"],
    "cp1251": ["вопрос,ответ\nКогда придёт заказ?,завтра\n"],
    "cp1252": [
        "Frage,Antwort\nKönnen wir das zurückgeben?,ja\n",
        "question,answer\nOù est le colis payé ?,Orléans\n",
    ],
}


@pytest.mark.parametrize(("encoding", "text"), [(name, text) for name, texts in TEXTS.items() for text in texts])
def test_the_encoding_that_fits_is_suggested_and_reads_the_text(encoding: str, text: str, tmp_path: Path) -> None:
    data = text.encode(encoding)
    assert likely_encoding(data) == encoding
    file = tmp_path / "a.csv"
    file.write_bytes(data)
    with pytest.raises(DataError) as caught:
        load(file)
    first = next(line for line in text.splitlines() if not line.isascii())
    assert f"It reads as {encoding} ({first}): give --encoding {encoding}" in str(caught.value.hint)


@pytest.mark.parametrize("data", [b"\x00\xff\xfe\x80" * 40, b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xd8", b"a\xffb"])
def test_nothing_is_suggested_for_bytes_that_are_no_text(data: bytes) -> None:
    assert likely_encoding(data) is None


def test_a_named_encoding_is_used_and_a_wrong_one_says_so(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(CHINESE.encode("gbk"))
    found = load(file, encoding="gbk", sizes=(2, 0, 0))
    assert {task.target for task in found} == {"拒绝", "补发"}
    assert "a.csv: read as gbk" in found.notes
    with pytest.raises(DataError, match="is not shift_jis") as wrong:
        load(file, encoding="shift_jis")
    assert "--encoding gbk" in str(wrong.value.hint)
    file.write_text(CHINESE, encoding="utf-8")  # what a run in GBK is scored on may be UTF-8
    assert {task.target for task in load(file, encoding="gbk", sizes=(2, 0, 0))} == {"拒绝", "补发"}
    for encoding in ("utf-16-le", "utf-16"):
        file.write_bytes("question,answer\na?,x\nb?,y\n".encode(encoding))
        assert {task.target for task in load(file, encoding=encoding, sizes=(2, 0, 0))} == {"x", "y"}
    for name in ("gbx", "base64", "no such"):
        with pytest.raises(UsageError, match="there is no encoding"):
            load(file, encoding=name)


def test_answers_are_compared_without_a_full_stop_and_in_any_width() -> None:
    assert normal_form("退款。") == normal_form("退款") == normal_form(" 退款.")
    assert normal_form("ＡＢＣ１２") == "abc12"
